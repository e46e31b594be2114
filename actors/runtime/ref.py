"""How an actor is addressed: pykka's ref, with asks that are awaited under a budget."""

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pykka

from actors.exceptions import ActorStopped, BlockingCall, MailboxFull
from actors.messages.base import ControlRequest, Lane, Message, Request
from actors.messages.lifecycle import Stop, StopStatus, Unwatch, Watch
from actors.runtime.budget import Budget
from actors.runtime.inbox import Inbox
from actors.runtime.reply import Reply
from actors.runtime.room import make_room, wait_for_room

if TYPE_CHECKING:
    from actors.runtime.cell import Cell

R = TypeVar("R")

ORDINARY = Lane.ORDINARY


class Address(Protocol):
    """Whatever can be told something: an actor's ref, or a port's."""

    @property
    def path(self) -> str:
        """Where it stands in the tree."""

    def tell(self, message: Any) -> None:
        """Send without waiting."""


class Ref(pykka.ActorRef[Any]):
    """
    A reference that stays good over restarts. Any thread may use it.

    It holds the actor, so an idle one that nobody else knows is not collected.
    """

    __slots__ = ("_cell", "_mailbox")

    def __init__(self, cell: "Cell") -> None:
        # The base copies what is made on demand here: an idle actor should not pay for it.
        self._cell = cell
        self._mailbox = cell.mailbox

    def __repr__(self) -> str:
        return f"<Ref {self._cell.path}>"

    __str__ = __repr__

    # What pykka knows of a ref

    @property
    def path(self) -> str:
        """Where it stands in the tree."""
        return self._cell.path

    @property
    def actor_class(self) -> Any:  # type: ignore[override]  # an attribute in the base
        """The class of the referenced actor."""
        return type(self._cell)

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # an attribute in the base
        """Its path, which is unique while it lives."""
        return self._cell.path

    @property
    def actor_inbox(self) -> Any:  # type: ignore[override]  # an attribute in the base
        """Where plain pykka refs put their envelopes."""
        return Inbox(self._cell)

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # an attribute in the base
        """Set once it has ended for good."""
        return self._cell.actor_stopped

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """
        Stop as pykka's refs do, from another thread, for at most ``timeout`` seconds: True unless it had ended before.

        Raises BlockingCall on the loop's own thread; there await System.stop.
        """
        system = self._cell.system
        if block and system.on_loop_thread():
            raise BlockingCall(f"stop() of {self!r} on the event loop's thread; await System.stop")
        budget = Budget.of(system.clock, timeout if timeout is not None else system.stop_seconds)
        reply = self.ask(Stop(), budget)
        return reply.get() is StopStatus.STOPPED if block else reply

    def proxy(self) -> Any:
        """Refuse."""
        raise NotImplementedError(f"{self.path} has no proxy; send it messages")

    def is_alive(self) -> bool:
        """Say whether it has not ended for good."""
        return not self._cell.mailbox.closed

    # Sending

    def tell(self, message: Message) -> None:
        """Send without waiting. Raises ActorStopped or MailboxFull; the message is then a dead letter too."""
        # The hottest path of all: what post() does for the general case, without its calls.
        mailbox = self._mailbox
        if message.mailbox_lane is ORDINARY:
            ordinary = mailbox.ordinary
            if len(ordinary) >= mailbox.bound and not make_room(self._cell, message):
                raise MailboxFull(self.path)
            ordinary.append(message)
        else:
            mailbox.control.append(message)
        if not mailbox.awake and not self._cell.appended(message):
            raise self._cell.gone()

    async def send(self, message: Message, budget: Budget) -> None:
        """
        Send, waiting for room in the ordinary lane: how a socket's reader passes its peer's pressure on.

        Raises ActorStopped, or DeadlineExceeded when no room came in the budget. Cancelling it sends nothing.
        """
        await wait_for_room(self._cell, budget)
        self.tell(message)

    def ask(self, message: Request[R] | ControlRequest[R], budget: Budget) -> Reply[R]:  # type: ignore[override]  # pykka's blocks
        """
        Send and return the awaitable answer. Never blocks and never raises: a failure is the answer.

        The receiver does not run a message whose budget is over; an answer that comes later is dropped.
        """
        cell, mailbox = self._cell, self._mailbox
        reply: Reply[R] = Reply(cell, message, budget)
        if message.mailbox_lane is not ORDINARY:
            mailbox.control.append(reply)
        elif len(mailbox.ordinary) < mailbox.bound or make_room(cell, message):
            mailbox.ordinary.append(reply)
        else:
            reply.set_exception(MailboxFull(cell.path))
            return reply
        if not mailbox.awake:
            cell.appended(reply)
        return reply

    def started(self, budget: Budget, after: int = -1) -> Reply[None]:
        """
        Return an answer that comes when ``on_start`` has run, and fails with StartFailed if it raised.

        With ``after`` it is about an incarnation later than that one, which may not have begun.
        """
        return self._cell.when_started(budget, after)

    def watch(self, watcher: Address) -> None:
        """Let ``watcher`` have a Down when this actor ends; at once if it has ended already."""
        # One that has ended answers with its Down before it says that it has.
        with contextlib.suppress(ActorStopped):
            self.tell(Watch(watcher=watcher))

    def unwatch(self, watcher: Address) -> None:
        """Take that back; a Down that is under way already still arrives."""
        with contextlib.suppress(ActorStopped):
            self.tell(Unwatch(watcher=watcher))
