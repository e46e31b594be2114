"""A cell as pykka's own refs see it."""

from typing import TYPE_CHECKING, Any

from pykka import messages as pykka_messages

from actors.exceptions import MailboxFull
from actors.messages.lifecycle import Stop
from actors.runtime.budget import Budget
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.cell import Cell

FOREIGN_ASK_SECONDS = 86_400.0
"""The budget of an ask that a plain pykka ref sent without one."""


class Inbox:
    """A place to put pykka's own envelopes; only the activation takes messages out."""

    __slots__ = ("_cell",)

    def __init__(self, cell: "Cell") -> None:
        self._cell = cell

    def put(self, envelope: Any, /) -> None:
        """Post what a plain pykka ref sends, its future included."""
        system = self._cell.system
        if system.on_loop_thread():
            self._put(envelope)
        else:
            system.loop.call_soon_threadsafe(self._put, envelope)

    def get(self) -> Any:
        """Refuse."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Say whether nothing waits."""
        return self._cell.mailbox.empty()

    def _put(self, envelope: Any) -> None:
        cell = self._cell
        message = envelope.message
        if isinstance(message, pykka_messages._ActorStop):
            message = Stop()
        if envelope.reply_to is None:
            cell.post(message)
            return
        reply: Reply[Any] = Reply(cell, message, Budget.of(cell.system.clock, FOREIGN_ASK_SECONDS))
        reply.on_done(lambda done: _hand_over(done, envelope.reply_to))
        if cell.post(reply) is False:
            reply.set_exception(MailboxFull(cell.path))


def _hand_over(done: Reply[Any], future: Any) -> None:
    try:
        future.set(done.result())
    except Exception as error:
        future.set_exception((type(error), error, None))
