"""A cell as pykka's own refs see it: for a ThreadingActor, or any thread, that speaks with ours in pykka's words."""

import asyncio
from typing import TYPE_CHECKING, Any

import pykka
from pykka import messages as pykka_messages

from actors.exceptions import ActorStopped, BlockingCall, MailboxFull
from actors.messages.base import Message
from actors.messages.lifecycle import Stop
from actors.runtime.budget import Budget
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.cell import Cell


FOREIGN_ASK_SECONDS = 86_400.0
"""The budget of an ask that a plain pykka ref sent, which has none: its sender waits as long as it likes."""


class ForeignFuture(pykka.ThreadingFuture[Any]):
    """The future of an ask by a plain pykka ref: a wait on an event loop's thread raises instead of blocking the loop."""

    def get(self, *, timeout: float | None = None) -> Any:
        """Wait in a thread. Raises BlockingCall where a loop runs, and what pykka's future raises."""
        if self._result is None and asyncio._get_running_loop() is not None:
            raise BlockingCall(
                "a plain pykka ref waits for its answer on the event loop's thread; ask with ours"
            )
        return super().get(timeout=timeout)


class Inbox:
    """A place to put pykka's own envelopes, from any thread; only the activation takes messages out."""

    __slots__ = ("_cell",)

    def __init__(self, cell: "Cell") -> None:
        self._cell = cell

    def put(self, envelope: Any, /) -> None:
        """
        Post what a plain pykka ref sends, its future included.

        Raises TypeError for what is no message, such as a proxy's call; of a tell also ActorDeadError and MailboxFull.
        """
        cell, message = self._cell, envelope.message
        if isinstance(message, pykka_messages._ActorStop):
            message = Stop()
        elif not isinstance(message, Message):
            raise TypeError(f"{cell.path} takes Messages, not {type(message).__name__}: it has no proxies")
        if envelope.reply_to is not None:
            reply: Reply[Any] = Reply(cell, message, Budget.of(cell.system.clock, FOREIGN_ASK_SECONDS))
            reply.on_done(lambda done: _hand_over(done, envelope.reply_to), expiring=False)
            if cell.post(reply) is False:
                reply.set_exception(MailboxFull(cell.path))
            return
        posted = cell.post(message)
        if posted is False:
            raise MailboxFull(cell.path)
        if posted is None:
            raise pykka.ActorDeadError(f"{cell.path} stopped")

    def get(self) -> Any:
        """Refuse."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Say whether nothing waits."""
        return self._cell.mailbox.empty()


def _hand_over(done: Reply[Any], future: Any) -> None:
    try:
        future.set(done.result())
    except ActorStopped as gone:
        future.set_exception((pykka.ActorDeadError, pykka.ActorDeadError(str(gone)), None))
    except Exception as error:
        future.set_exception((type(error), error, None))
