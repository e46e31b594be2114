"""
The pykka actor behind every ref: a mailbox, an activation while there is work, and the life of its behaviours.

An idle cell owns no thread and no task. The first message makes an activation task, which drains bounded batches and
ends when the mailbox is empty; cancelling that one task is the kill.
"""

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import pykka
import structlog
from pykka import messages as pykka_messages

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
from actors.runtime.clock import Timer
from actors.runtime.context import Context
from actors.runtime.envelope import Envelope
from actors.runtime.internal import TaskFailed, TimerFired
from actors.runtime.mailbox import Mailbox, Overflow, Put
from actors.runtime.ref import Address, Ref
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.system import System

T = TypeVar("T")

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

FOREIGN_ASK_SECONDS = 86_400.0
"""The budget of an ask that a plain pykka ref sent without one."""

log = structlog.get_logger("turnkeep.runtime")


class Inbox:
    """The cell as pykka's refs see it: a place to put pykka's own envelopes."""

    def __init__(self, cell: "Cell") -> None:
        self._cell = cell

    def put(self, envelope: Any, /) -> None:
        """Post what a plain pykka ref sends, its future included."""
        cell = self._cell
        if cell.system.on_loop_thread():
            self._put(envelope)
        else:
            cell.system.loop.call_soon_threadsafe(self._put, envelope)

    def _put(self, envelope: Any) -> None:
        cell = self._cell
        message = envelope.message
        if isinstance(message, pykka_messages._ActorStop):
            message = Stop()
        reply: Reply[Any] | None = None
        if envelope.reply_to is not None:
            budget = Budget.of(cell.system.clock, FOREIGN_ASK_SECONDS)
            reply = Reply(cell.system, budget, cell.path, type(message).__name__)
            reply.on_done(lambda done: _forward(done, envelope.reply_to))
        if (
            cell.post(Envelope(message, cell.system.clock.monotonic(), reply)) is Put.FULL
            and reply is not None
        ):
            reply.set_exception(MailboxFull(cell.path))

    def get(self) -> Any:
        """Refuse: only the activation takes messages out."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Say whether nothing waits."""
        return self._cell.mailbox.empty()


class Cell(pykka.Actor):
    """One place in the tree. Everything but ``post`` belongs to the loop's thread."""

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
        super().__init__()
        self.system = system
        self.path = path
        self.name = path.rsplit("/", 1)[-1]
        self.factory = factory
        self.parent = parent
        self.held = held
        self.mailbox = Mailbox(bound, overflow)
        self.actor_inbox = Inbox(self)
        self.ref = Ref(self)
        self._actor_ref = self.ref
        self.children: dict[str, Cell] = {}
        # Made when the cell starts; a reserved place has none yet.
        self.behaviour: Actor = Actor()
        # The position in the life cycle; only _enter changes it.
        self.status = Status.CREATED
        # Restarts of this cell; everything that may come late carries it.
        self.incarnation = 0
        self.handled = 0
        self.last_error: str | None = None
        self.since = system.clock.monotonic()
        # When the handler in hand began, for the sweeper; None between messages.
        self.busy_since: float | None = None
        self.current: Envelope | None = None
        self._task: asyncio.Task[None] | None = None
        self._awake = False
        self._timers: dict[str, tuple[Timer, object]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._deferred: set[Reply[Any]] = set()
        self._watchers: list[Address] = []
        self._start_waiters: list[Reply[None]] = []
        self._room_waiters: list[asyncio.Future[None]] = []
        self._end: DownReason | None = None

    # pykka's hooks for a new actor type

    @staticmethod
    def _create_actor_inbox() -> Any:
        return Mailbox(0, Overflow.REFUSE)

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def _start_actor_loop(self) -> None:
        assert self.status is Status.CREATED
        self.behaviour = self.factory()
        self._enter(Status.STARTING)
        self._wake()

    # Sending

    def post(self, envelope: Envelope) -> Put | None:
        """
        Put a message in from any thread. None if the actor has ended: the message is answered and dead by then.
        """
        outcome, displaced = self.mailbox.put(envelope)
        if displaced is not None:
            self._bury(displaced, DeadLetterReason.OVERFLOW, MailboxFull(self.path))
        if outcome is Put.FULL:
            self.system.dead_letters.add(
                self.path, type(envelope.message).__name__, DeadLetterReason.OVERFLOW
            )
            return outcome
        if self.mailbox.closed:
            self._bury_all()
            return None
        if not self._awake:
            self._wake()
        return outcome

    async def wait_for_room(self, budget: Budget) -> None:
        """Return when the ordinary lane has room. Raises ActorStopped or DeadlineExceeded."""
        while self.mailbox.full():
            if self.mailbox.closed:
                raise ActorStopped(self.path)
            room = self.system.loop.create_future()
            self._room_waiters.append(room)
            timer = self.system.clock.call_later(budget.remaining(), _finish, room)
            try:
                await room
            finally:
                timer.cancel()
            if budget.expired():
                raise DeadlineExceeded(f"room in the mailbox of {self.path}")

    # Activation

    def _wake(self) -> None:
        self._awake = True
        if self.system.on_loop_thread():
            self._activate()
            return
        try:
            self.system.loop.call_soon_threadsafe(self._activate)
        except RuntimeError:
            # The loop is closed: nobody will ever drain this mailbox but us.
            self.mailbox.closed = True
            self._bury_all()

    def _activate(self) -> None:
        if self._task is not None:
            return
        if self.status is Status.DOWN:
            self._serve_stops()
            self._awake = False
            return
        if self.status in (Status.CREATED, Status.STOPPED):
            # A reserved place keeps what is sent to it until it starts.
            self._awake = False
            return
        # The constructor never runs the coroutine eagerly, whatever the loop's task factory: with an eager one the
        # receiver would run inside the sender's tell.
        self._task = asyncio.Task(self._run(self.incarnation), loop=self.system.loop, name=self.path)
        self.system.active.add(self)

    async def _run(self, incarnation: int) -> None:
        try:
            if self.status is Status.STARTING:
                await self._start(incarnation)
            # It waits for nothing: between batches it lets the loop breathe.
            while self._lives(incarnation) and not await self._batch(incarnation):  # noqa: ASYNC110
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Only a kill, or the end of the loop, cancels an activation; the kill has done its bookkeeping already.
            if self.incarnation == incarnation and self.status is not Status.STOPPED:
                self.kill()
        finally:
            if self._task is asyncio.current_task():
                self._rest()

    async def _batch(self, incarnation: int) -> bool:
        """Handle one batch; True when the mailbox has run dry."""
        monotonic = self.system.clock.monotonic
        ends = monotonic() + BATCH_SECONDS
        for _ in range(BATCH_MESSAGES):
            envelope = self.mailbox.get()
            if envelope is None:
                await self._idle()
                return self.mailbox.empty()
            await self._handle(envelope, incarnation)
            if not self._lives(incarnation):
                return True
            if monotonic() > ends:
                return False
        return False

    def _rest(self) -> None:
        self._task = None
        self._awake = False
        self.busy_since = None
        self.system.rested(self)
        if self.status is Status.STARTING or (self.status < Status.DOWN and not self.mailbox.empty()):
            self._awake = True
            self._activate()

    async def _start(self, incarnation: int) -> None:
        self.busy_since = self.system.clock.monotonic()
        self.behaviour.ctx = Context(self)
        try:
            await self.behaviour.on_start()
        except Exception as error:
            await self._crash(error, DownReason.START_FAILED)
            return
        if self._lives(incarnation):
            self._enter(Status.RUNNING)
            for waiter in self._take_start_waiters():
                waiter.set(None)

    async def _idle(self) -> None:
        if self.status is Status.RUNNING:
            try:
                await self.behaviour.on_idle()
            except Exception as error:
                await self._crash(error, DownReason.CRASHED)

    async def _handle(self, envelope: Envelope, incarnation: int) -> None:
        if self._room_waiters and not self.mailbox.full():
            self._announce_room()
        message = envelope.message
        if envelope.budget is not None and envelope.budget.expired():
            self._bury(envelope, DeadLetterReason.EXPIRED, DeadlineExceeded(type(message).__name__))
            return
        if message.mailbox_lane is Lane.CONTROL and await self._handle_system(envelope):
            return
        self.current = envelope
        self.busy_since = self.system.clock.monotonic()
        try:
            answer = await self.behaviour.on_receive(
                message.message if isinstance(message, TimerFired) else message
            )
        except Refusal as refusal:
            self._refuse(envelope, refusal)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # It came from something that the handler awaited, so it is the handler's failure and no kill.
            await self._crash(error, DownReason.CRASHED)
        except Exception as error:
            await self._crash(error, DownReason.CRASHED)
        else:
            self.handled += 1
            if envelope.reply is not None and answer is not DEFERRED:
                envelope.reply.set(answer)
        finally:
            if self.incarnation == incarnation:
                self.current = None
                self.busy_since = None

    async def _handle_system(self, envelope: Envelope) -> bool:
        message = envelope.message
        if isinstance(message, TimerFired):
            return not self._still_set(message)
        if isinstance(message, TaskFailed):
            await self._crash(message.error, DownReason.CRASHED)
            return True
        if isinstance(message, Stop):
            await self._terminate(envelope, message.reason)
            return True
        if isinstance(message, Suspend):
            self.mailbox.held = True
            self._enter(Status.SUSPENDED)
        elif isinstance(message, Resume):
            self.mailbox.held = False
            self._enter(Status.RUNNING)
        elif isinstance(message, Watch):
            self._watchers.append(message.watcher)
        else:
            return False
        if envelope.reply is not None:
            envelope.reply.set(None)
        return True

    def _refuse(self, envelope: Envelope, refusal: Refusal) -> None:
        self.handled += 1
        if envelope.reply is not None:
            envelope.reply.set_exception(refusal)
        else:
            self.system.dead_letters.add(self.path, type(envelope.message).__name__, DeadLetterReason.REFUSED)

    # Answers, timers and tasks of the incarnation

    def defer(self) -> Reply[Any] | None:
        """See Context.defer."""
        reply = self.current.reply if self.current is not None else None
        if reply is not None:
            self._deferred.add(reply)
            reply.on_done(self._deferred.discard)
        return reply

    def forward(self, ref: Ref) -> None:
        """See Context.forward."""
        current = self.current
        assert current is not None
        envelope = Envelope(current.message, current.put_at, current.reply, current.budget)
        if ref._cell.post(envelope) is Put.FULL and current.reply is not None:
            current.reply.set_exception(MailboxFull(ref.path))
        # From here on only the receiver answers: a crash of this actor must not.
        current.reply = None

    def pipe(
        self, reply: Reply[T], on_value: Callable[[T], Message], on_error: Callable[[Exception], Message]
    ) -> None:
        """See Context.pipe."""
        incarnation = self.incarnation

        def arrive(done: Reply[T]) -> None:
            try:
                message = on_value(done.result())
            except Exception as error:
                message = on_error(error)
            self._post_own(message, incarnation)

        reply.on_done(arrive)

    def run_beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """See Context.run."""
        incarnation = self.incarnation
        task = asyncio.Task(work, loop=self.system.loop, name=f"{self.path}:{name}")
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._post_own(TaskFailed(error=error), incarnation)

        task.add_done_callback(ended)

    def set_timer(self, key: str, delay: float, message: Message) -> None:
        """See Context.set_timer."""
        self.cancel_timer(key)
        token = object()
        self._timers[key] = (self.system.clock.call_later(delay, self._fire, key, token, message), token)

    def cancel_timer(self, key: str) -> None:
        """See Context.cancel_timer."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[0].cancel()

    def _fire(self, key: str, token: object, message: Message) -> None:
        timer = self._timers.get(key)
        if timer is not None and timer[1] is token:
            self._post_own(TimerFired(key=key, token=token, message=message), self.incarnation)

    def _still_set(self, fired: TimerFired) -> bool:
        """Say whether the timer was neither cancelled nor replaced since it fired, and forget it."""
        timer = self._timers.get(fired.key)
        if timer is None or timer[1] is not fired.token:
            return False
        del self._timers[fired.key]
        return True

    def _post_own(self, message: Message, incarnation: int) -> None:
        """Put what this incarnation sends itself before all ordinary messages; a stale one is dropped."""
        if incarnation != self.incarnation or self.mailbox.closed or self.status is Status.DOWN:
            self.system.dead_letters.add(self.path, type(message).__name__, DeadLetterReason.STALE)
            return
        self.mailbox.control.append(Envelope(message, self.system.clock.monotonic()))
        if not self._awake:
            self._wake()

    # The end of an incarnation

    async def _crash(self, error: BaseException, reason: DownReason) -> None:
        self.last_error = type(error).__name__
        where = [
            f"{frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        # The class and the place, not the text: texts of errors may quote what a message held.
        log.error("actor.crashed", path=self.path, error=self.last_error, where=where[-6:])
        self._release_incarnation(HandlerFailed(self.path, self.last_error))
        for waiter in self._take_start_waiters():
            waiter.set_exception(StartFailed(self.path, _tell_of(error)))
        self._end = reason
        self._leave()
        # Only now: a child that sees its parent gone leaves the tree too, instead of waiting for a decision.
        for child in list(self.children.values()):
            child.kill(DownReason.SHUTDOWN)
        self._announce_end(reason)

    def _leave(self) -> None:
        """Wait for the supervisor's decision if there is one to come, else leave the tree."""
        if self.held and self.parent is not None and self.parent.status < Status.STOPPING:
            self._enter(Status.DOWN)
        else:
            self._close()

    async def _terminate(self, envelope: Envelope, reason: DownReason) -> None:
        self._enter(Status.STOPPING)
        self._end = reason
        if not self.held or self.parent is None or self.parent.status >= Status.STOPPING:
            self.mailbox.closed = True
            self._bury_all()
        budget = envelope.budget or Budget.of(self.system.clock, self.system.stop_seconds)
        try:
            await self._stop_children(budget)
            await self.behaviour.on_stop(reason)
        except Exception as error:
            self.last_error = type(error).__name__
            log.error("actor.stop_failed", path=self.path, error=self.last_error)
        self._release_incarnation(ActorStopped(self.path))
        self._leave()
        if envelope.reply is not None:
            envelope.reply.set(StopStatus.STOPPED)
        self._announce_end(reason)

    async def _stop_children(self, budget: Budget) -> None:
        """Stop the children all at once or, if the behaviour ``stops_in_order``, the last started first."""
        children = [child.ref for child in self.children.values()]
        if self.behaviour.stops_in_order:
            for ref in reversed(children):
                await self.system.stop(ref, budget)
        else:
            await asyncio.gather(*(self.system.stop(ref, budget) for ref in children))

    def kill(self, reason: DownReason = DownReason.KILLED) -> None:
        """
        End at once: unroute first, cancel second, never await the lost task; what it says later is fenced.
        """
        if self.status is Status.STOPPED:
            return
        self._end = reason
        task, self._task = self._task, None
        self._release_incarnation(ActorStopped(self.path, "was killed"))
        self.incarnation += 1
        self._leave()
        for child in list(self.children.values()):
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

    def _release_incarnation(self, error: Exception) -> None:
        """Answer everybody who waits for this incarnation, and end its timers and tasks."""
        if self.current is not None and self.current.reply is not None:
            self.current.reply.set_exception(error)
        for reply in list(self._deferred):
            reply.set_exception(error)
        self._deferred.clear()
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in list(self._tasks):
            task.cancel()

    def _close(self) -> None:
        """Leave the tree: no message reaches it from here on, and each that lies there is answered."""
        self.mailbox.closed = True
        self._enter(Status.STOPPED)
        self.actor_stopped.set()
        self._bury_all()
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

    def _lives(self, incarnation: int) -> bool:
        return self.incarnation == incarnation and self.status < Status.DOWN

    def _serve_stops(self) -> None:
        """A crashed cell handles nothing, but it may be told to stop."""
        stops = [entry for entry in self.mailbox.control if isinstance(entry.message, Stop)]
        if stops:
            self._close()

    def _bury(self, envelope: Envelope, reason: DeadLetterReason, error: Exception) -> None:
        if isinstance(envelope.message, Down):
            # An end that was announced to an actor that ended itself meanwhile.
            return
        if envelope.reply is not None:
            if isinstance(envelope.message, Stop):
                envelope.reply.set(StopStatus.ALREADY_GONE)
                return
            envelope.reply.set_exception(error)
        elif isinstance(envelope.message, Watch):
            envelope.message.watcher.tell(self.down())
            return
        self.system.dead_letters.add(self.path, type(envelope.message).__name__, reason)

    def _bury_all(self) -> None:
        for envelope in self.mailbox.drain():
            self._bury(envelope, DeadLetterReason.STOPPED, ActorStopped(self.path))

    def _announce_room(self) -> None:
        waiters, self._room_waiters = self._room_waiters, []
        for waiter in waiters:
            _finish(waiter)

    def when_started(self, budget: Budget) -> Reply[None]:
        """See Ref.started."""
        reply: Reply[None] = Reply(self.system, budget, self.path, "start")
        if self.status in (Status.RUNNING, Status.SUSPENDED):
            reply.set(None)
        elif self.status >= Status.STOPPING:
            reply.set_exception(StartFailed(self.path, self.last_error or self.status.name))
        else:
            self._start_waiters.append(reply)
        return reply

    def _take_start_waiters(self) -> list[Reply[None]]:
        waiters, self._start_waiters = self._start_waiters, []
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


def _forward(done: Reply[Any], future: Any) -> None:
    try:
        future.set(done.result())
    except Exception as error:
        future.set_exception((type(error), error, None))


def _tell_of(error: BaseException) -> str:
    """Our own exceptions have texts made for people; of others only the class is told."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, TurnkeepError) else name


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
