"""How an actor is addressed: pykka's ref, with asks that are awaited under a budget."""

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import pykka

from actors.exceptions import ActorStopped, MailboxFull
from actors.messages.base import ControlRequest, Message, Request
from actors.messages.lifecycle import Watch
from actors.runtime.budget import Budget
from actors.runtime.envelope import Envelope
from actors.runtime.mailbox import Put
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.cell import Cell

R = TypeVar("R")


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

    It holds the actor through the inbox, so an idle actor that nobody else knows is not collected.
    """

    def __init__(self, cell: "Cell") -> None:
        super().__init__(cell)
        self._cell = cell
        self.path = cell.path

    def __repr__(self) -> str:
        return f"<Ref {self.path}>"

    __str__ = __repr__

    def tell(self, message: Message) -> None:
        """Send without waiting. Raises ActorStopped or MailboxFull; the message is then a dead letter too."""
        cell = self._cell
        outcome = cell.post(Envelope(message, cell.system.clock.monotonic()))
        if outcome is Put.FULL:
            raise MailboxFull(self.path)
        if outcome is None:
            raise ActorStopped(self.path)

    async def send(self, message: Message, budget: Budget) -> None:
        """
        Send, waiting for room in the ordinary lane: how a socket's reader passes its peer's pressure on.

        Raises ActorStopped, or DeadlineExceeded when no room came in the budget. Cancelling it sends nothing.
        """
        await self._cell.wait_for_room(budget)
        self.tell(message)

    def ask(self, message: Request[R] | ControlRequest[R], budget: Budget) -> Reply[R]:  # type: ignore[override]  # pykka's blocks
        """
        Send and return the awaitable answer. Never blocks and never raises: a failure is the answer.

        The receiver does not run a message whose budget is over; an answer that comes later is dropped.
        """
        cell = self._cell
        reply: Reply[R] = Reply(cell.system, budget, self.path, type(message).__name__)
        envelope = Envelope(message, cell.system.clock.monotonic(), cast("Reply[Any]", reply), budget)
        if cell.post(envelope) is Put.FULL:
            reply.set_exception(MailboxFull(self.path))
        return reply

    def started(self, budget: Budget) -> Reply[None]:
        """Return an answer that comes when ``on_start`` has run, and fails with StartFailed if it raised."""
        return self._cell.when_started(budget)

    def watch(self, watcher: Address) -> None:
        """Let ``watcher`` have a Down when this actor ends; at once if it has ended already."""
        try:
            self.tell(Watch(watcher=watcher))
        except ActorStopped:
            watcher.tell(self._cell.down())
