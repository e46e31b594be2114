"""One tree of actors on one event loop, with its clock, randomness and failpoints."""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence

import structlog

from actors.buckets import Buckets
from actors.exceptions import ActorStopped, DeadlineExceeded, RuntimeFault
from actors.messages.events import Publish
from actors.messages.lifecycle import ActorInfo, DownReason, Status, Stop, StopStatus
from actors.runtime.actor import Actor
from actors.runtime.budget import Budget
from actors.runtime.cell import Cell
from actors.runtime.census import Census, census
from actors.runtime.clock import Clock, SteadyWall, SystemClock
from actors.runtime.custody import Custody
from actors.runtime.dead_letters import DeadLetters
from actors.runtime.deadlines import Deadlines
from actors.runtime.failpoints import Failpoints
from actors.runtime.internal import TraceChanged
from actors.runtime.mailbox import Overflow
from actors.runtime.port import Port
from actors.runtime.ref import Ref
from actors.runtime.reply import Reply
from actors.runtime.trace import Tracer, Tracing

log = structlog.get_logger("turnkeep.runtime")

LAG_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Seconds."""

EARLY_EVENTS = 1000
"""How many events wait for the bus; the oldest give way."""

KILL_SHARE = 0.2
"""The part of a stop's budget that is kept for the kill and for seeing whether it worked."""


class System:
    """
    Holds the registry of live actors by path. Made inside a running loop, to which it is bound for good.

    ``stop_seconds`` is the budget of a stop that came without one.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        failpoints: Failpoints | None = None,
        *,
        stop_seconds: float = 5.0,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.clock: Clock = clock or SystemClock()
        self.steady_wall = SteadyWall(self.clock)
        self.random = rng or random.SystemRandom()
        self.failpoints = failpoints or Failpoints()
        self.stop_seconds = stop_seconds
        # Ids need to differ, not to be secret: without a system call for each.
        self._id_bits = random.Random(self.random.getrandbits(128))
        self.dead_letters = DeadLetters(self.clock)
        self.deadlines = Deadlines(self.clock)
        # The activations under way.
        self.active: dict[asyncio.Task[None], Cell] = {}
        self.custody = Custody(self)
        # Paths of actors that did not end in the budget of their stop, in order.
        self.overran: list[str] = []
        # How long the loop takes to come round, as a watchdog measures it.
        self.lag = Buckets(LAG_BOUNDS)
        # Where events go; those published before it is there wait.
        self._event_sink: Ref | None = None
        self._early_events: deque[Publish] = deque(maxlen=EARLY_EVENTS)
        self._cells: dict[str, Cell] = {}
        self._idle_waiters: list[asyncio.Future[None]] = []

    # Identity

    def on_loop_thread(self) -> bool:
        """Say whether the caller runs on the loop's thread."""
        return threading.get_ident() == self._thread

    def new_id(self) -> str:
        """Return 32 hex digits that sort by time (ms) and hold 80 random bits."""
        return f"{int(self.clock.wall() * 1000):012x}{self._id_bits.getrandbits(80):020x}"

    # The tree

    def spawn(
        self,
        path: str,
        factory: Callable[[], Actor],
        *,
        bound: int = 1000,
        overflow: Overflow = Overflow.REFUSE,
    ) -> Ref:
        """Start an actor without a parent: the root, or a test's."""
        cell = self._place(Cell(self, path, factory, None, bound=bound, overflow=overflow, held=False))
        cell._start_actor_loop()
        return cell.ref

    def reserve_under(
        self,
        parent: Cell,
        name: str,
        factory: Callable[[], Actor],
        *,
        bound: int,
        overflow: Overflow,
        held: bool,
    ) -> Cell:
        """Make a child's place without starting it; see Context.reserve."""
        if parent.status >= Status.STOPPING:
            raise ActorStopped(parent.path)
        base = "" if parent.path == "/" else parent.path
        cell = Cell(self, f"{base}/{name}", factory, parent, bound=bound, overflow=overflow, held=held)
        self._place(cell)
        if parent.children is None:
            parent.children = {}
        parent.children[name] = cell
        return cell

    def _place(self, cell: Cell) -> Cell:
        if cell.path in self._cells:
            raise RuntimeFault(f"{cell.path} exists already")
        self._cells[cell.path] = cell
        return cell

    def forget(self, cell: Cell) -> None:
        """Take an ended actor out of the tree."""
        if self._cells.get(cell.path) is cell:
            del self._cells[cell.path]
        siblings = cell.parent.children if cell.parent is not None else None
        if siblings is not None and siblings.get(cell.name) is cell:
            del siblings[cell.name]

    def find(self, path: str) -> Ref | None:
        """Return the live or held actor at ``path``."""
        cell = self._cells.get(path)
        return cell.ref if cell is not None else None

    def cell(self, path: str) -> Cell | None:
        """Return the place at ``path``, for the runtime's own parts."""
        return self._cells.get(path)

    def supervised(self, path: str) -> bool:
        """Say whether the actor at ``path`` would be started again by its supervisor."""
        cell = self._cells.get(path)
        return cell is not None and cell.returns()

    def port(self, name: str, bound: int = 1000) -> Port:
        """Open a place to receive messages for code that is no actor."""
        return Port(self, name, bound)

    async def stop(
        self,
        ref: Ref,
        budget: Budget,
        reason: DownReason = DownReason.SHUTDOWN,
        *,
        by: str = "supervision",
    ) -> StopStatus:
        """
        Stop, then kill what is left of the budget before the end; STILL_ALIVE if its task has swallowed that too.

        Never raises and never waits past the budget. A lost task is unrouted already; what it does is fenced. ``by`` is
        evidence, should it not end.
        """
        (status,) = await self.stop_all([ref], budget, reason, by=by)
        return status

    async def stop_all(
        self,
        refs: Sequence[Ref],
        budget: Budget,
        reason: DownReason = DownReason.SHUTDOWN,
        *,
        by: str = "supervision",
    ) -> list[StopStatus]:
        """Stop many at once, under one deadline; see stop. The answers are in the order of ``refs``."""
        share = budget.share(1 - KILL_SHARE)
        asked = [(ref, self._ask_to_stop(ref, share, reason)) for ref in refs]
        # Before anything is waited for again: one that will not end takes no time from the others.
        late = [ref for ref, reply in asked if reply is not None and not await _answered(reply)]
        for ref in late:
            self.overran.append(ref.path)
            log.warning("actor.stop_overran", path=ref.path)
            ref._cell.kill(by=by, why="did not end within the budget of its stop")
        if tasks := {task for ref in late for task in self.custody.tasks(ref.path)}:
            await asyncio.wait(tasks, timeout=budget.remaining())
        overran = {ref.path for ref in late}
        return [self._end_of(ref.path, reply, killed=ref.path in overran) for ref, reply in asked]

    def _ask_to_stop(self, ref: Ref, budget: Budget, reason: DownReason) -> Reply[StopStatus] | None:
        if ref._cell.status in (Status.QUARANTINED, Status.STOPPED):
            # A kill of a quarantined place, whose parent ends, takes it out of the tree.
            ref._cell.kill()
            return None
        return ref.ask(Stop(reason=reason), budget)

    def _end_of(self, path: str, reply: Reply[StopStatus] | None, *, killed: bool) -> StopStatus:
        if reply is not None and reply.value is StopStatus.STOPPED:
            return StopStatus.STOPPED
        if self.custody.tasks(path):
            return StopStatus.STILL_ALIVE
        return StopStatus.STOPPED if killed else StopStatus.ALREADY_GONE

    def kill(self, path: str, *, by: str = "supervision", why: str = "killed") -> None:
        """End the actor at ``path`` at once, if there is one; its supervisor decides what comes next."""
        cell = self._cells.get(path)
        if cell is not None:
            cell.kill(by=by, why=why)

    # Observation

    def actors(self) -> list[ActorInfo]:
        """Return a row for each live or held actor, by path."""
        now = self.clock.monotonic()
        return [self._cells[path].info(now) for path in sorted(self._cells)]

    def info(self, path: str) -> ActorInfo | None:
        """Return the row of one live or held actor."""
        cell = self._cells.get(path)
        return cell.info(self.clock.monotonic()) if cell is not None else None

    def census(self) -> Census:
        """Return how many actors there are, and what waits for them."""
        return census(self._cells.values(), self.clock.monotonic())

    def busy(self) -> list[tuple[str, float]]:
        """
        Return the running actors with a handler under way, and for how many seconds. Starts and stops have budgets.

        A look at what waits for them comes with it.
        """
        now = self.clock.monotonic()
        for cell in self.active.values():
            cell.mailbox.look(now)
        return [
            (cell.path, now - cell.busy_since)
            for cell in self.active.values()
            if cell.busy_since is not None and cell.status in (Status.RUNNING, Status.SUSPENDED)
        ]

    def publish(self, kind: str, path: str, data: dict[str, str | int | float | bool | None]) -> None:
        """Hand an event to the bus; it never fails and never waits."""
        event = Publish(kind=kind, path=path, data=data, at=self.clock.wall())
        if self._event_sink is None:
            self._early_events.append(event)
            return
        try:
            self._event_sink.tell(event)
        except RuntimeFault:
            log.debug("event.lost", kind=kind, path=path)

    def publish_to(self, sink: Ref | None) -> None:
        """Name the actor that keeps events, and give it those that came before it."""
        self._event_sink = sink
        while sink is not None and self._early_events:
            sink.tell(self._early_events.popleft())

    def handling(self) -> Cell | None:
        """Return the actor whose handler is running now, if it is one that calls."""
        task = asyncio.current_task(self.loop)
        return self.active.get(task) if task is not None else None

    def trace(self, path: str, tracer: Tracer) -> None:
        """Tell ``tracer`` of each message that the actor at ``path`` handles. Raises ActorStopped if there is none."""
        cell = self._cells.get(path)
        if cell is None:
            raise ActorStopped(path, "is not there")
        cell.tracing = cell.tracing or Tracing(cell)
        cell.tracing.tracers.append(tracer)
        cell.ref.tell(TraceChanged())

    def untrace(self, path: str, tracer: Tracer) -> None:
        """End that; one that is not there any more is no error."""
        cell = self._cells.get(path)
        if cell is None or cell.tracing is None:
            return
        if tracer in cell.tracing.tracers:
            cell.tracing.tracers.remove(tracer)
        if not cell.tracing.tracers:
            cell.tracing = None
            cell.ref.tell(TraceChanged())

    # Quiescence

    def rested(self, task: asyncio.Task[None]) -> None:
        """Note that an activation ended."""
        self.active.pop(task, None)
        if not self.active:
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def idle(self) -> None:
        """Return when no actor has work in hand. Outstanding timers, I/O and threads do not count."""
        while self.active:
            waiter = self.loop.create_future()
            self._idle_waiters.append(waiter)
            await waiter


async def _answered(reply: Reply[StopStatus]) -> bool:
    """Say, once it is resolved, whether that was in time."""
    try:
        await reply
    except DeadlineExceeded:
        return False
    except RuntimeFault:
        # It has ended meanwhile.
        pass
    return True
