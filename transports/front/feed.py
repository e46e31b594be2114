"""What an HTTP request hears of its turn, reduced to what it needs: text, and one end."""

from typing import Any

import msgspec

from actors.exceptions import ActorStopped, DeadlineExceeded, MailboxFull
from actors.messages.base import Message
from actors.messages.rows import TurnRow, TurnState
from actors.messages.session import TurnOutcome
from actors.messages.turn import (
    Cancelled,
    Content,
    RunPhase,
    Snapshot,
    StateChange,
    StatusUpdate,
    TurnCommitted,
    TurnError,
)
from actors.runtime import Budget, Port


class ClientGone(Message, frozen=True, kw_only=True):
    """The client has closed its connection."""


class Text(msgspec.Struct, frozen=True):
    """A piece of the answer."""

    text: str


class End(msgspec.Struct, frozen=True):
    """How the turn ended: well with a finish reason, or with a code and a sentence."""

    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    code: str | None = None
    message: str = ""

    @property
    def failed(self) -> bool:
        """Say whether there is no whole answer."""
        return self.code is not None


class Gone(msgspec.Struct, frozen=True):
    """The client is gone."""


class Silence(msgspec.Struct, frozen=True):
    """Nothing came in time."""


Heard = Text | End | Gone | Silence

FAILED = "turn_failed"


class Feed:
    """Reads a port that watches one turn."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._finish_reason: str | None = None
        self._usage: dict[str, int] | None = None
        self._error: TurnError | None = None
        self._cancelled = False
        self._shown = False

    async def next(self, budget: Budget) -> Heard:
        """Return the next thing worth telling the client; Silence at the end of ``budget``."""
        while True:
            try:
                message = await self._port.receive(budget)
            except DeadlineExceeded:
                return Silence()
            except MailboxFull:
                return End(
                    code="slow_reader", message="The client read too slowly; the answer is in the session."
                )
            except ActorStopped:
                return End(code=FAILED, message="The turn's events ended early.")
            heard = self._hear(message)
            if heard is not None:
                return heard

    def _hear(self, message: Any) -> Heard | None:
        match message:
            case Content(text=text):
                self._shown = True
                return Text(text)
            case Snapshot(text=text):
                # Only at the beginning: what was shown before this watcher came.
                if text and not self._shown:
                    self._shown = True
                    return Text(text)
            case StatusUpdate(usage=usage):
                self._usage = usage
            case TurnCommitted(finish_reason=reason):
                self._finish_reason = reason or "stop"
            case TurnError():
                self._error = message
            case Cancelled():
                self._cancelled = True
            case StateChange(state=RunPhase.IDLE):
                return self._ended()
            case StateChange(state=RunPhase.ERROR, text=text):
                told = self._error.text if self._error is not None else text
                return End(code=FAILED, message=told or "The turn was interrupted.")
            case TurnOutcome(turn=turn):
                return self._stored_outcome(turn)
            case ClientGone():
                return Gone()
        return None

    def _ended(self) -> End:
        # A turn that somebody stopped is a whole answer as far as it goes.
        return End(finish_reason=self._finish_reason or "stop", usage=self._usage)

    def _stored_outcome(self, turn: TurnRow | None) -> Heard:
        if turn is None or turn.state is TurnState.CANCELLED:
            return End(code="cancelled", message="The message was cancelled before it was answered.")
        if turn.state is not TurnState.COMMITTED:
            return End(code=FAILED, message="The turn did not end well; what it had is in the session.")
        if self._shown or not turn.text:
            return End(finish_reason=turn.reason or "stop", usage=turn.usage)
        self._port.tell(TurnOutcome(inbox_id=turn.inbox_id, turn=turn))
        self._shown = True
        return Text(turn.text)
