"""What an actor may do besides handling a message: spawn, defer, pipe, set timers, publish."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from actors.exceptions import ActorStopped
from actors.messages.base import Message
from actors.messages.lifecycle import DownReason, Status
from actors.messages.quarantine import QuarantineReason
from actors.runtime.actor import Actor
from actors.runtime.budget import Budget
from actors.runtime.mailbox import Overflow
from actors.runtime.ref import Ref
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.incarnation import Incarnation
    from actors.runtime.system import System

T = TypeVar("T")


class Context:
    """The runtime as one incarnation of one actor sees it. Only its own handlers may use it."""

    def __init__(self, cell: "Cell", own: "Incarnation") -> None:
        self._cell = cell
        self._own = own

    # Public attributes

    @property
    def system(self) -> "System":
        """The system that it runs in: clock, randomness, failpoints."""
        return self._cell.system

    @property
    def path(self) -> str:
        """Where it stands in the tree, for example ``/sessions/0a1b``."""
        return self._cell.path

    @property
    def ref(self) -> Ref:
        """Its own ref."""
        return self._cell.ref

    @property
    def parent(self) -> Ref | None:
        """Its parent's ref; None for the root."""
        return self._cell.parent.ref if self._cell.parent is not None else None

    @property
    def incarnation(self) -> int:
        """How often it was started again, from 0."""
        return self._cell.incarnation

    @property
    def suspended(self) -> bool:
        """Whether its ordinary lane is held (ADM-7)."""
        return self._cell.mailbox.held

    @property
    def budget(self) -> Budget | None:
        """The budget of the message in hand, if it was asked."""
        current = self._own.current
        return current.budget if isinstance(current, Reply) else None

    def now(self) -> float:
        """Monotonic seconds."""
        return self.system.clock.monotonic()

    def wall(self) -> float:
        """Unix seconds."""
        return self.system.clock.wall()

    def within(self, seconds: float) -> Budget:
        """Return a new budget, for an outcome that this actor itself wants."""
        return Budget.of(self.system.clock, seconds)

    # Children

    def spawn(
        self,
        name: str,
        factory: Callable[[], Actor],
        *,
        bound: int = 1000,
        overflow: Overflow = Overflow.REFUSE,
        held: bool = False,
    ) -> Ref:
        """
        Start a child; it tells this actor a Down when it ends.

        ``held`` keeps a crashed child's ref and mailbox until ``restart`` or ``discard`` is called on it.
        """
        ref = self.reserve(name, factory, bound=bound, overflow=overflow, held=held)
        self.start(name)
        return ref

    def reserve(
        self,
        name: str,
        factory: Callable[[], Actor],
        *,
        bound: int = 1000,
        overflow: Overflow = Overflow.REFUSE,
        held: bool = False,
    ) -> Ref:
        """
        Make a child's place in the tree: its ref is good and keeps what is sent until ``start``.

        So children can know each other whatever the order in which they start.
        """
        self._fence()
        return self.system.reserve_under(
            self._cell, name, factory, bound=bound, overflow=overflow, held=held
        ).ref

    def start(self, name: str) -> None:
        """Start a reserved child."""
        self._child(name)._start_actor_loop()

    def child(self, name: str) -> Ref | None:
        """Return the child of that name, if it lives or is held."""
        children = self._cell.children
        cell = children.get(name) if children is not None else None
        return cell.ref if cell is not None else None

    def children(self) -> list[Ref]:
        """Return the children, in the order in which they were started."""
        return [cell.ref for cell in self._cell.offspring()]

    def is_down(self, name: str) -> bool:
        """Say whether a held child has ended and waits for ``restart`` or ``discard``."""
        return self._child(name).status is Status.DOWN

    def wait_for_place(self, name: str) -> bool:
        """
        Say whether a child of that name may start now; if not, this actor is told PlaceFree when it may.

        It may not while a task of an earlier one still runs, or while its place is quarantined.
        """
        return self.system.custody.wait_for(f"{self.path.rstrip('/')}/{name}")

    def quarantine(self, name: str, *, why: str) -> None:
        """Hold the place of a child that ended too often until an operator releases it."""
        path = self._child(name).path
        self.system.custody.quarantine(path, QuarantineReason.INTENSITY, by=self.path, why=why)

    def restart(self, name: str) -> None:
        """Start a held child again: new behaviour, same ref, same mailbox, incarnation + 1."""
        self._child(name).restart()

    def discard(self, name: str) -> None:
        """Give a held child up: what lies in its mailbox becomes dead letters."""
        self._child(name).discard()

    def _fence(self) -> None:
        """Raise ActorStopped in a task of an incarnation that has ended: the tree is its successor's now."""
        if self._cell.own is not self._own:
            raise ActorStopped(self.path, "has ended: what is left of it may not act for it")

    def _child(self, name: str) -> "Cell":
        self._fence()
        assert self._cell.children is not None
        return self._cell.children[name]

    # Answers and outcomes

    def defer(self) -> Reply[Any] | None:
        """
        Take over the answer to the message in hand; return DEFERRED from the handler.

        None if the message was told. If this incarnation ends first, the asker gets ActorStopped.
        """
        return self._own.defer()

    def forward(self, ref: Ref) -> None:
        """Hand the message in hand, and the duty to answer it, to another actor; return DEFERRED from the handler."""
        self._own.forward(ref)

    def pipe(
        self,
        reply: Reply[T],
        on_value: Callable[[T], Message],
        on_error: Callable[[Exception], Message],
    ) -> None:
        """
        Turn an answer into a message to this actor, so that it goes on receiving while it waits.

        The message overtakes ordinary ones and is dropped if this incarnation has ended.
        """
        self._own.pipe(reply, on_value, on_error)

    def run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run I/O beside the handlers. It ends with this incarnation; if it raises, the incarnation crashes."""
        self._own.run_beside(work, name)

    def left_behind(self, end: "asyncio.Future[None]") -> None:
        """Hold this actor's place until ``end``: something of its last incarnation, which has ended, still runs."""
        custody = self.system.custody
        custody.take(self._cell, (end,), by="supervision", why="a thread of it has not ended")

    def stop(self, reason: DownReason = DownReason.NORMAL) -> None:
        """End after the message in hand."""
        self._fence()
        self._own.stop(reason)

    # Timers

    def set_timer(self, key: str, delay: float, message: Message) -> None:
        """Tell this actor ``message`` in ``delay`` seconds; a timer of the same key is replaced."""
        self._own.set_timer(key, delay, message)

    def cancel_timer(self, key: str) -> None:
        """Make sure that the timer does not fire, nor its message arrive if it has just fired."""
        self._own.cancel_timer(key)

    # Observation

    def publish(self, kind: str, **data: str | int | float | bool | None) -> None:
        """Put an event on the bus, with this actor's path."""
        self.system.publish(kind, self.path, data)
