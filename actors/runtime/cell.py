"""
The pykka actor behind every ref: a mailbox, an activation while there is work, and the life of its behaviours.

An idle cell owns no thread and no task. The first message makes an activation task, which drains bounded batches and
ends when the mailbox is empty; cancelling that one task is the kill.
"""

import asyncio
import contextlib
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pykka
import structlog

from actors.exceptions import (
    ActorStopped,
    DeadlineExceeded,
    HandlerFailed,
    MailboxFull,
    Refusal,
    StartFailed,
    TurnkeepError,
)
from actors.messages.base import Lane, Message
from actors.messages.lifecycle import (
    ActorInfo,
    DeadLetterReason,
    Down,
    DownReason,
    Resume,
    Status,
    Stop,
    StopStatus,
    Suspend,
    Watch,
)
from actors.runtime.actor import DEFERRED, Actor
from actors.runtime.budget import Budget
from actors.runtime.context import Context
from actors.runtime.envelope import Envelope
from actors.runtime.incarnation import Incarnation
from actors.runtime.internal import TaskFailed, TimerFired
from actors.runtime.mailbox import Mailbox, Overflow
from actors.runtime.ref import Address, Ref
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.system import System

BATCH_MESSAGES = 64
BATCH_SECONDS = 0.001
"""What an activation handles before it yields to the loop: the measured knee of throughput against latency."""

EVENT_KINDS = {
    DownReason.SHUTDOWN: "actor.stopped",
    DownReason.CRASHED: "actor.crashed",
    DownReason.START_FAILED: "actor.start_failed",
    DownReason.KILLED: "actor.killed",
}
"""The ends that are events. An actor that ends itself, such as a turn, has its own to tell."""

UNBORN = Actor()
"""Stands in for the behaviour of a place that has not started."""

log = structlog.get_logger("turnkeep.runtime")


class Cell(pykka.Actor):
    """One place in the tree. Everything but ``post``, and what it calls, belongs to the loop's thread."""

    # Defaults of the class: what most actors never have, an idle one should not pay for.
    behaviour: Actor = UNBORN
    own: Incarnation | None = None
    children: "dict[str, Cell] | None" = None
    # The position in the life cycle; only _enter changes it.
    status = Status.CREATED
    # Whether an activation is under way or called for; a put that sees it need not wake anybody.
    awake = False
    # Restarts of this cell; everything that may come late carries it.
    incarnation = 0
    # The right of an incarnation's activation to go on: another object, or None, once it has ended.
    lease: object | None = None
    handled = 0
    last_error: str | None = None
    # When the handler in hand began, for the sweeper; None between activations.
    busy_since: float | None = None
    current: "Envelope | None" = None
    _task: "asyncio.Task[None] | None" = None
    _watchers: "tuple[Address, ...]" = ()
    _start_waiters: "tuple[Reply[None], ...]" = ()
    _room_waiters: "tuple[asyncio.Future[None], ...]" = ()
    _end: DownReason | None = None
    _stopped: threading.Event | None = None

    def __init__(
        self,
        system: "System",
        path: str,
        factory: Callable[[], Actor],
        parent: "Cell | None",
        *,
        bound: int,
        overflow: Overflow,
        held: bool,
    ) -> None:
        # The base's constructor is left out: its event and its random name cost more than the rest of an idle actor.
        self.system = system
        self.path = path
        self.factory = factory
        self.parent = parent
        self.held = held
        self.mailbox = Mailbox(bound, overflow)
        self.ref = Ref(self)
        self.since = system.clock.monotonic()

    def __str__(self) -> str:
        return f"<Cell {self.path}>"

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rsplit("/", 1)[-1]

    # pykka's hooks for a new actor type, and what its refs read

    @staticmethod
    def _create_actor_inbox() -> Any:
        return Mailbox(0, Overflow.REFUSE)

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def _start_actor_loop(self) -> None:
        assert self.status is Status.CREATED
        self.lease = object()
        self.behaviour = self.factory()
        self._enter(Status.STARTING)
        self._wake()

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # an attribute in the base
        """Its path."""
        return self.path

    @property
    def actor_inbox(self) -> Any:  # type: ignore[override]  # an attribute in the base
        """Where plain pykka refs put their envelopes."""
        return self.ref.actor_inbox

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # an attribute in the base
        """Set once it has ended for good; made when somebody looks."""
        if self._stopped is None:
            self._stopped = threading.Event()
            if self.status is Status.STOPPED:
                self._stopped.set()
        return self._stopped

    # Sending

    def post(self, envelope: Envelope) -> bool | None:
        """
        Put a message in from any thread; False if there is no room.

        None if the actor has ended: the message is answered and dead by then.
        """
        mailbox = self.mailbox
        if (
            envelope[0].mailbox_lane is Lane.ORDINARY
            and len(mailbox.ordinary) >= mailbox.bound
            and not self.make_room(envelope[0])
        ):
            return False
        mailbox.append(envelope)
        return True if self.awake or self.appended() else None

    def make_room(self, message: Message) -> bool:
        """Apply the policy of a full ordinary lane; False if ``message`` is the one that has no room."""
        mailbox = self.mailbox
        letters = self.system.dead_letters
        if mailbox.overflow is not Overflow.DROP_OLDEST:
            letters.add(self.path, type(message).__name__, DeadLetterReason.OVERFLOW)
            return False
        with contextlib.suppress(IndexError):
            self._bury(mailbox.ordinary.popleft(), DeadLetterReason.OVERFLOW, MailboxFull(self.path))
        return True

    def appended(self) -> bool:
        """Follow a put up while no activation is known to be under way; False if the actor has ended."""
        if self.mailbox.closed:
            self._bury_all()
            return False
        if not self.awake:
            self._wake()
        return True

    async def wait_for_room(self, budget: Budget) -> None:
        """Return when the ordinary lane has room. Raises ActorStopped or DeadlineExceeded."""
        while self.mailbox.full():
            if self.mailbox.closed:
                raise ActorStopped(self.path)
            room = self.system.loop.create_future()
            self._room_waiters += (room,)
            timer = self.system.clock.call_later(budget.remaining(), _finish, room)
            try:
                await room
            finally:
                timer.cancel()
            if budget.expired():
                raise DeadlineExceeded(f"room in the mailbox of {self.path}")

    # Activation

    def _wake(self) -> None:
        self.awake = True
        if self.system.on_loop_thread():
            self._activate()
            return
        try:
            self.system.loop.call_soon_threadsafe(self._activate)
        except RuntimeError:
            # The loop is closed: nobody will ever drain this mailbox but us.
            self._shut()

    def _activate(self) -> None:
        if self._task is not None:
            return
        if self.status in (Status.CREATED, Status.DOWN, Status.STOPPED):
            # A reserved place keeps what is sent to it until it starts, a crashed one until it starts again.
            self.awake = False
            if self.status is Status.DOWN:
                self._serve_stops()
            return
        # The constructor never runs the coroutine eagerly, whatever the loop's task factory: with an eager one the
        # receiver would run inside the sender's tell.
        self._task = asyncio.Task(self._run(self.lease), loop=self.system.loop, name=self.path)
        self.system.active.add(self)

    async def _run(self, lease: object) -> None:
        try:
            if self.status is Status.STARTING:
                await self._start(lease)
            # It waits for nothing: between batches it lets the loop breathe.
            while self.lease is lease and not await self._batch(lease):  # noqa: ASYNC110
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Only a kill, or the end of the loop, cancels an activation; the kill has done its bookkeeping already.
            if self.lease is lease:
                self.kill()
        finally:
            if self._task is asyncio.current_task():
                self._rest()

    async def _batch(self, lease: object) -> bool:
        """Handle one batch; True when the mailbox has run dry or the incarnation has ended."""
        system, mailbox = self.system, self.mailbox
        monotonic = system.clock.monotonic
        ordinary, control = mailbox.ordinary, mailbox.control
        receive = self.behaviour.on_receive
        now = system.tick = monotonic()
        ends = now + BATCH_SECONDS
        for _ in range(BATCH_MESSAGES):
            if control:
                envelope = control.pop(0)
                if await self._handle_system(envelope, now):
                    if self.lease is not lease:
                        return True
                    continue
                message = envelope[0]
                if type(message) is TimerFired:
                    message = message.message
            elif ordinary and not mailbox.held:
                envelope = ordinary.popleft()
                message = envelope[0]
                if self._room_waiters:
                    self._announce_room()
            else:
                self.current = self.busy_since = None
                await self._idle()
                return mailbox.empty()
            reply, budget = envelope[2], envelope[3]
            if budget is not None and budget.deadline <= now:
                self._bury(envelope, DeadLetterReason.EXPIRED, DeadlineExceeded(type(message).__name__))
                continue
            self.current = envelope
            self.busy_since = now
            try:
                answer = await receive(message)
            except BaseException as error:
                await self._failed(envelope, error, lease)
            else:
                self.handled += 1
                if reply is not None and answer is not DEFERRED:
                    reply.set(answer)
            if self.lease is not lease:
                return True
            now = monotonic()
            if now > ends:
                break
        self.current = None
        return False

    async def _failed(self, envelope: Envelope, error: BaseException, lease: object) -> None:
        """Decide about what a handler raised: a refusal is an answer, everything else ends the incarnation."""
        if isinstance(error, Refusal):
            self.handled += 1
            if envelope[2] is not None:
                envelope[2].set_exception(error)
            else:
                name = type(envelope[0]).__name__
                self.system.dead_letters.add(self.path, name, DeadLetterReason.REFUSED)
            return
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise error
            # It came from something that the handler awaited, so it is the handler's failure and no kill.
        elif not isinstance(error, Exception):
            raise error
        if self.lease is lease:
            await self._crash(error, DownReason.CRASHED)

    def _rest(self) -> None:
        self._task = None
        self.awake = False
        self.busy_since = None
        self.system.rested(self)
        if self.status is Status.STARTING or (self.status < Status.DOWN and not self.mailbox.empty()):
            self.awake = True
            self._activate()

    async def _start(self, lease: object) -> None:
        self.busy_since = self.system.clock.monotonic()
        self.behaviour.ctx = Context(self)
        try:
            await self.behaviour.on_start()
        except Exception as error:
            await self._crash(error, DownReason.START_FAILED)
            return
        if self.lease is lease:
            self._enter(Status.RUNNING)
            for waiter in self._take_start_waiters():
                waiter.set(None)

    async def _idle(self) -> None:
        if self.status is Status.RUNNING:
            try:
                await self.behaviour.on_idle()
            except Exception as error:
                await self._crash(error, DownReason.CRASHED)

    async def _handle_system(self, envelope: Envelope, now: float) -> bool:
        """Serve what every actor understands; False for a message that is the behaviour's own."""
        message, _, reply, budget = envelope
        if budget is not None and budget.deadline <= now:
            self._bury(envelope, DeadLetterReason.EXPIRED, DeadlineExceeded(type(message).__name__))
            return True
        match message:
            case TimerFired():
                return self.own is None or not self.own.still_set(message)
            case TaskFailed(error=error):
                await self._crash(error, DownReason.CRASHED)
                return True
            case Stop(reason=reason):
                await self._terminate(envelope, reason)
                return True
            case Suspend():
                self.mailbox.held = True
                self._enter(Status.SUSPENDED)
            case Resume():
                self.mailbox.held = False
                self._enter(Status.RUNNING)
            case Watch(watcher=watcher):
                self._watchers += (watcher,)
            case _:
                return False
        if reply is not None:
            reply.set(None)
        return True

    # For the context

    def owned(self) -> Incarnation:
        """Return what belongs to the present incarnation."""
        if self.own is None:
            self.own = Incarnation(self)
        return self.own

    def defer(self) -> Reply[Any] | None:
        """See Context.defer."""
        reply = self.current[2] if self.current is not None else None
        if reply is not None:
            self.owned().owe(reply)
        return reply

    def forward(self, ref: Ref) -> None:
        """See Context.forward."""
        assert self.current is not None
        message, put_at, reply, budget = self.current
        # From here on only the receiver answers: a crash of this actor must not.
        self.current = (message, put_at, None, budget)
        if ref._cell.post((message, put_at, reply, budget)) is False and reply is not None:
            reply.set_exception(MailboxFull(ref.path))

    # The end of an incarnation

    async def _crash(self, error: BaseException, reason: DownReason) -> None:
        self.last_error = type(error).__name__
        where = [
            f"{frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        # The class and the place, not the text: texts of errors may quote what a message held.
        log.error("actor.crashed", path=self.path, error=self.last_error, where=where[-6:])
        self._release(HandlerFailed(self.path, self.last_error))
        for waiter in self._take_start_waiters():
            waiter.set_exception(StartFailed(self.path, _tell_of(error)))
        self._end = reason
        self._leave()
        # Only now: a child that sees its parent gone leaves the tree too, instead of waiting for a decision.
        for child in self.offspring():
            child.kill(DownReason.SHUTDOWN)
        self._announce_end(reason)

    async def _terminate(self, envelope: Envelope, reason: DownReason) -> None:
        self._enter(Status.STOPPING)
        self._end = reason
        if not self._returns():
            self._shut()
        budget = envelope[3] or Budget.of(self.system.clock, self.system.stop_seconds)
        try:
            await self._stop_children(budget)
            await self.behaviour.on_stop(reason)
        except Exception as error:
            self.last_error = type(error).__name__
            log.error("actor.stop_failed", path=self.path, error=self.last_error)
        self._release(ActorStopped(self.path))
        self._leave()
        if envelope[2] is not None:
            envelope[2].set(StopStatus.STOPPED)
        self._announce_end(reason)

    async def _stop_children(self, budget: Budget) -> None:
        """Stop the children all at once or, if the behaviour ``stops_in_order``, the last started first."""
        children = [child.ref for child in self.offspring()]
        if self.behaviour.stops_in_order:
            for ref in reversed(children):
                await self.system.stop(ref, budget)
        elif children:
            await asyncio.gather(*(self.system.stop(ref, budget) for ref in children))

    def kill(self, reason: DownReason = DownReason.KILLED) -> None:
        """
        End at once: unroute first, cancel second, never await the lost task; what it says later is fenced.
        """
        if self.status is Status.STOPPED:
            return
        self._end = reason
        task, self._task = self._task, None
        self._release(ActorStopped(self.path, "was killed"))
        self.incarnation += 1
        self._leave()
        for child in self.offspring():
            child.kill(reason)
        if task is not None and task is not asyncio.current_task(self.system.loop):
            task.cancel()
            self.system.lost(self.path, task)
            self.system.rested(self)
        self._announce_end(reason)

    def restart(self) -> None:
        """Start a crashed cell again with a new behaviour. The message that failed is not run again."""
        assert self.status is Status.DOWN
        self.incarnation += 1
        self.lease = object()
        self.behaviour = self.factory()
        self.since = self.system.clock.monotonic()
        self._end = None
        self._enter(Status.STARTING)
        self.system.publish("actor.restarted", self.path, {"incarnation": self.incarnation})
        if self._task is None:
            self._wake()

    def discard(self) -> None:
        """End a crashed cell for good."""
        if self.status is Status.DOWN:
            self._close()

    def _returns(self) -> bool:
        """Say whether a supervisor will decide about this cell once it is down."""
        return self.held and self.parent is not None and self.parent.status < Status.STOPPING

    def _release(self, error: Exception) -> None:
        """Answer everybody who waits for this incarnation, and end its timers and tasks."""
        if self.current is not None and self.current[2] is not None:
            self.current[2].set_exception(error)
        self.current = None
        if self.own is not None:
            self.own.release(error)
            self.own = None

    def _leave(self) -> None:
        """Wait for the supervisor's decision if there is one to come, else leave the tree."""
        self.lease = None
        if self._returns():
            self._enter(Status.DOWN)
            self.mailbox.held = False
            # Whoever sends from now on has to look again, as there is no activation that would.
            self.awake = False
        else:
            self._close()

    def _shut(self) -> None:
        """Let no message in any more. The order matters: see Mailbox."""
        self.mailbox.closed = True
        self.awake = False
        self._bury_all()

    def _close(self) -> None:
        """Leave the tree: no message reaches it from here on, and each that lies there is answered."""
        self.lease = None
        self._enter(Status.STOPPED)
        self._shut()
        if self._stopped is not None:
            self._stopped.set()
        self._announce_room()
        for waiter in self._take_start_waiters():
            waiter.set_exception(ActorStopped(self.path))
        self.system.forget(self)

    def _announce_end(self, reason: DownReason) -> None:
        down = self.down()
        receivers: list[Address] = [*self._watchers]
        if self.parent is not None:
            receivers.append(self.parent.ref)
        for receiver in receivers:
            with contextlib.suppress(ActorStopped):
                receiver.tell(down)
        if reason in EVENT_KINDS:
            self.system.publish(EVENT_KINDS[reason], self.path, {"error": self.last_error})

    def down(self) -> Down:
        """The message that says how it ended."""
        return Down(
            path=self.path,
            incarnation=self.incarnation,
            reason=self._end or DownReason.NORMAL,
            error=self.last_error,
        )

    # Private methods

    def _enter(self, status: Status) -> None:
        self.status = status

    def offspring(self) -> "list[Cell]":
        """Return the children, in the order in which they were started."""
        return list(self.children.values()) if self.children is not None else []

    def _serve_stops(self) -> None:
        """A crashed cell handles nothing, but it may be told to stop."""
        if any(isinstance(envelope[0], Stop) for envelope in self.mailbox.control):
            self._close()

    def _bury(self, envelope: Envelope, reason: DeadLetterReason, error: Exception) -> None:
        message, _, reply, _ = envelope
        if isinstance(message, Down):
            # An end that was announced to an actor that ended itself meanwhile.
            return
        if reply is not None:
            if isinstance(message, Stop):
                reply.set(StopStatus.ALREADY_GONE)
                return
            reply.set_exception(error)
        elif isinstance(message, Watch):
            message.watcher.tell(self.down())
            return
        self.system.dead_letters.add(self.path, type(message).__name__, reason)

    def _bury_all(self) -> None:
        for envelope in self.mailbox.drain():
            self._bury(envelope, DeadLetterReason.STOPPED, ActorStopped(self.path))

    def _announce_room(self) -> None:
        waiters, self._room_waiters = self._room_waiters, ()
        for waiter in waiters:
            _finish(waiter)

    def when_started(self, budget: Budget) -> Reply[None]:
        """See Ref.started."""
        reply: Reply[None] = Reply(self, Message(), budget)
        if self.status in (Status.RUNNING, Status.SUSPENDED):
            reply.set(None)
        elif self.status >= Status.STOPPING:
            reply.set_exception(StartFailed(self.path, self.last_error or self.status.name))
        else:
            self._start_waiters += (reply,)
        return reply

    def _take_start_waiters(self) -> "tuple[Reply[None], ...]":
        waiters, self._start_waiters = self._start_waiters, ()
        return waiters

    def info(self, now: float) -> ActorInfo:
        """Its row in ``ps``."""
        oldest = self.mailbox.oldest()
        return ActorInfo(
            path=self.path,
            kind=self.behaviour.kind,
            state=self.status.name.lower(),
            incarnation=self.incarnation,
            parent=self.parent.path if self.parent is not None else None,
            control_depth=len(self.mailbox.control),
            ordinary_depth=len(self.mailbox.ordinary),
            oldest_age=now - oldest if oldest is not None else 0.0,
            busy_for=now - self.busy_since if self.busy_since is not None else 0.0,
            handled=self.handled,
            restarts=self.incarnation,
            last_error=self.last_error,
            age=now - self.since,
        )


def _tell_of(error: BaseException) -> str:
    """Our own exceptions have texts made for people; of others only the class is told."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, TurnkeepError) else name


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
