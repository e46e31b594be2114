"""
The pykka actor behind every ref: one place in the tree, with a mailbox that outlives its incarnations.

An idle cell owns no thread and no task. The first message makes an activation task, which ends when the mailbox is empty;
cancelling that one task is the kill.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextvars import Context as Variables
from typing import TYPE_CHECKING, Any

import pykka

from actors.exceptions import ActorQuarantined, ActorStopped, StartFailed
from actors.messages.base import Lane, Message
from actors.messages.lifecycle import (
    ActorInfo,
    DeadLetterReason,
    Down,
    DownReason,
    Status,
    Stop,
)
from actors.runtime import ending
from actors.runtime.activation import Activation
from actors.runtime.actor import Actor
from actors.runtime.budget import Budget
from actors.runtime.burial import bury, bury_all, bury_stale
from actors.runtime.context import Context
from actors.runtime.envelope import Envelope
from actors.runtime.inbox import ForeignFuture
from actors.runtime.incarnation import Incarnation
from actors.runtime.internal import Own
from actors.runtime.mailbox import Mailbox, Overflow
from actors.runtime.ref import Address, Ref
from actors.runtime.reply import Reply, message_of
from actors.runtime.room import announce_room, make_room

if TYPE_CHECKING:
    from actors.runtime.system import System
    from actors.runtime.trace import Tracing


class Cell(pykka.Actor):
    """One place in the tree. Everything but ``post``, and what it calls, belongs to the loop's thread."""

    # Defaults of the class: what most actors never have, an idle one should not pay for.
    # The living incarnation. Another one, or None, tells whatever belonged to the former that it has ended.
    own: Incarnation | None = None
    children: "dict[str, Cell] | None" = None
    # The position in the life cycle; only enter changes it.
    status = Status.CREATED
    # Restarts of this cell.
    incarnation = 0
    handled = 0
    last_error: str | None = None
    # When the handler in hand began, for the sweeper; None between activations.
    busy_since: float | None = None
    watchers: "tuple[Address, ...]" = ()
    room_waiters: "tuple[asyncio.Event, ...]" = ()
    end: DownReason | None = None
    # Whether it is to start as soon as its place is free.
    wanted = False
    tracing: "Tracing | None" = None
    # The answer that the handler in hand awaits.
    waits_for: "Reply[Any] | None" = None
    _kind = "actor"
    _task: "asyncio.Task[None] | None" = None
    _start_waiters: "tuple[Reply[None], ...]" = ()
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
        self.parent = parent
        self.mailbox = Mailbox(bound, overflow)
        # Of a ref that somebody has. Its ref holds the actor, not the other way round: an actor that has ended goes at
        # once, instead of waiting, with thousands of others, for a full collection that would hold the loop (REL-5).
        self._ref: weakref.ReferenceType[Ref] | None = None
        self.since = system.clock.monotonic()
        self._factory = factory
        self._held = held

    def __str__(self) -> str:
        return f"<Cell {self.path}>"

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def ref(self) -> Ref:
        """What it is addressed by: the same one for everybody who has it at a time."""
        ref = self._ref() if self._ref is not None else None
        if ref is None:
            ref = Ref(self)
            self._ref = weakref.ref(ref)
        return ref

    @property
    def behaviour(self) -> Actor:
        """The living incarnation's behaviour."""
        assert self.own is not None
        return self.own.behaviour

    def offspring(self) -> "list[Cell]":
        """Return the children, in the order in which they were started."""
        return list(self.children.values()) if self.children is not None else []

    # pykka's hooks for a new actor type, and what its refs read

    @staticmethod
    def _create_actor_inbox() -> Any:
        return Mailbox(0, Overflow.REFUSE)

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return ForeignFuture()

    def _start_actor_loop(self) -> None:
        if self._must_wait():
            return
        assert self.status in (Status.CREATED, Status.DOWN)
        try:
            behaviour = self._factory()
        except Exception as error:
            # It is this child that does not start: its supervisor, which makes it, decides about that.
            ending.crash(self, error, DownReason.START_FAILED)
            return
        own = self.own = Incarnation(self, behaviour)
        self._kind = own.behaviour.kind
        own.behaviour.ctx = Context(self, own)
        if own.starts():
            self.enter(Status.STARTING)
            self._wake()
            return
        # Nothing is to be run: most actors need no activation to begin.
        self.ready()
        if not self.mailbox.empty():
            self._wake()

    def ready(self) -> None:
        """Serve from here on."""
        self.enter(Status.RUNNING)
        for waiter in self.take_start_waiters():
            waiter.set(None)

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

    def post(self, envelope: "Envelope") -> bool | None:
        """
        Put a message in from any thread; False if there is no room.

        None if the actor has ended: the message is answered and dead by then.
        """
        mailbox, message = self.mailbox, message_of(envelope)
        if message.mailbox_lane is Lane.ORDINARY and mailbox.full() and not make_room(self, message):
            return False
        mailbox.append(envelope)
        return True if mailbox.awake or self.appended(envelope) else None

    def appended(self, entry: "Envelope") -> bool:
        """Follow a put up while no activation is known to be under way; False if the actor has ended."""
        if self.mailbox.closed:
            bury_all(self)
            return False
        if self.tracing is not None:
            self.tracing.put(entry)
        self._wake()
        return not self.mailbox.closed

    # Activation

    def _wake(self) -> None:
        # While it is traced each put has to come here, to be noted.
        self.mailbox.awake = self.tracing is None
        loop = self.system.loop
        if loop.is_closed():
            # Nobody will ever drain this mailbox but us.
            self.shut()
        elif self.system.on_loop_thread():
            self._activate()
        else:
            try:
                loop.call_soon_threadsafe(self._activate)
            except RuntimeError:
                # It was closed between.
                self.shut()

    def _activate(self) -> None:
        if self._task is not None:
            return
        if self.own is None or (self.mailbox.empty() and self.status is not Status.STARTING):
            # A reserved place keeps what is sent to it until it starts, a crashed one until it starts again, and a
            # suspended one until it goes on.
            self.mailbox.awake = False
            self.mailbox.look(self.system.clock.monotonic())
            if self.status in (Status.CREATED, Status.DOWN):
                self._serve_stops()
            return
        # The constructor never runs the coroutine eagerly, whatever the loop's task factory: with an eager one the
        # receiver would run inside the sender's tell.
        # Nor does it see the sender's context variables: whoever happened to wake it is not the sender of all.
        variables = Variables()
        activation = Activation(self, self.own, variables)
        self._task = asyncio.Task(activation.run(), loop=self.system.loop, name=self.path, context=variables)
        self.system.active[self._task] = self

    def rest(self) -> None:
        """End the running activation, unless a kill has taken it away; begin another if something came meanwhile."""
        task = asyncio.current_task()
        if task is None or task is not self._task:
            return
        self._task = None
        self.mailbox.awake = False
        self.busy_since = None
        self.system.rested(task)
        if self.status is Status.STARTING or (self.own is not None and not self.mailbox.empty()):
            self.mailbox.awake = self.tracing is None
            self._activate()

    def take_task(self) -> "asyncio.Task[None] | None":
        """Take the activation's task away: what it still does is nobody's."""
        task, self._task = self._task, None
        return task

    # The life cycle

    def enter(self, status: Status) -> None:
        """Move on in the life cycle."""
        self.status = status

    def restart(self) -> None:
        """Start a crashed cell again with a new behaviour. The message that failed is not run again."""
        if self._must_wait():
            return
        self.incarnation += 1
        self.since = self.system.clock.monotonic()
        self.end = None
        # What the last incarnation sent itself, and the ends of its children, and of what it watched: the next has none
        # of them, and may give their names to its own.
        for message in self.mailbox.drop((Own, Down)):
            if isinstance(message, Own):
                bury_stale(self, message)
        self.system.publish("actor.restarted", self.path, {"incarnation": self.incarnation})
        self._start_actor_loop()

    def discard(self) -> None:
        """End a crashed cell for good."""
        if self.status is Status.DOWN:
            self.close()

    def kill(
        self, reason: DownReason = DownReason.KILLED, *, by: str = "supervision", why: str = "killed"
    ) -> None:
        """End at once. ``by`` and ``why`` are evidence, should it not end."""
        ending.kill(self, reason, by=by, why=why)

    def _must_wait(self) -> bool:
        """Say whether its place is held by the runtime, and start once it is free."""
        held = self.system.custody.holds(self.path)
        if self.wanted is not held:
            self.wanted = held
        if held and self.system.custody.is_quarantined(self.path):
            self.seclude(again=True)
        return held

    def seclude(self, *, again: bool) -> None:
        """Let no message in and answer those that lie there, until it is set free; ``again``: start then."""
        self.wanted = self.wanted or again
        self.enter(Status.QUARANTINED)
        self.shut()
        announce_room(self)
        for waiter in self.take_start_waiters():
            waiter.set_exception(self.gone())

    def set_free(self) -> None:
        """Take messages again, and start if that was wanted meanwhile; else its supervisor decides."""
        if self.status is Status.QUARANTINED:
            self.enter(Status.CREATED if self.end is None else Status.DOWN)
            self.mailbox.closed = False
        if not self.wanted:
            return
        if self.status is Status.DOWN:
            self.restart()
        elif self.status is Status.CREATED:
            self._start_actor_loop()

    def returns(self) -> bool:
        """Say whether a supervisor will decide about this cell once it is down."""
        return self._held and self.has_parent()

    def has_parent(self) -> bool:
        """Say whether there is a parent that has not begun to end."""
        return self.parent is not None and self.parent.status < Status.STOPPING

    def gone(self) -> ActorStopped:
        """Return the error of whoever sends to it, now that it takes nothing."""
        return ActorQuarantined(self.path) if self.status is Status.QUARANTINED else ActorStopped(self.path)

    def go_down(self) -> None:
        """Wait for the supervisor's decision; what is sent meanwhile is kept."""
        self.enter(Status.DOWN)
        self.mailbox.held = False
        # Whoever sends from now on has to look again, as there is no activation that would.
        self.mailbox.awake = False

    def shut(self) -> None:
        """Let no message in any more. The order matters: see Mailbox."""
        self.mailbox.closed = True
        self.mailbox.awake = False
        bury_all(self)

    def close(self) -> None:
        """Leave the tree: no message reaches it from here on, and each that lies there is answered."""
        self.enter(Status.STOPPED)
        self.shut()
        if self._stopped is not None:
            self._stopped.set()
        announce_room(self)
        for waiter in self.take_start_waiters():
            waiter.set_exception(ActorStopped(self.path))
        self.system.forget(self)

    def down(self) -> Down:
        """The message that says how it ended."""
        return Down(
            path=self.path,
            incarnation=self.incarnation,
            reason=self.end or DownReason.NORMAL,
            error=self.last_error,
        )

    def when_started(self, budget: Budget, after: int = -1) -> Reply[None]:
        """See Ref.started."""
        reply: Reply[None] = Reply(self, Message(), budget)
        if self.status is Status.QUARANTINED:
            reply.set_exception(self.gone())
        elif self.incarnation <= after and self.status is not Status.STOPPED:
            self._start_waiters += (reply,)
        elif self.status in (Status.RUNNING, Status.SUSPENDED):
            reply.set(None)
        elif self.status >= Status.STOPPING and not self.wanted:
            reply.set_exception(StartFailed(self.path, self.last_error or self.status.name))
        else:
            self._start_waiters += (reply,)
        return reply

    def take_start_waiters(self) -> "tuple[Reply[None], ...]":
        """Take those who wait for the start, to be answered."""
        waiters, self._start_waiters = self._start_waiters, ()
        return waiters

    def _serve_stops(self) -> None:
        """
        A cell that is not started, or has crashed, handles nothing, but it may be told to stop.

        One that its supervisor starts again has stopped already, and does start again: as if it had been told before.
        """
        stops = [envelope for envelope in self.mailbox.control if isinstance(message_of(envelope), Stop)]
        if stops and self.status is Status.DOWN and self.returns():
            for stop in stops:
                self.mailbox.control.remove(stop)
                bury(self, stop, DeadLetterReason.STOPPED, self.gone())
        elif stops:
            self.close()

    # Observation

    def info(self, now: float) -> ActorInfo:
        """Its row in ``ps``."""
        self.mailbox.look(now)
        oldest = self.mailbox.oldest()
        return ActorInfo(
            path=self.path,
            kind=self._kind,
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
            since=self.system.clock.wall() - (now - self.since),
        )
