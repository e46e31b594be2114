"""The reading of one answer, from bytes to deltas and an outcome. No I/O, no clock."""

import enum
import itertools
from collections.abc import Iterable

import msgspec

from actors.messages.lane import TOOL_CALLS, FailureClass, ToolCallDelta
from transports.backends import chunks, failures
from transports.backends.calls import Calls, ImpossibleCalls, joined
from transports.backends.chunks import CallPiece, Chunk, MalformedChunk
from transports.backends.finish import finish_reason
from transports.backends.sse import SseParser
from transports.backends.stream import Failure


class Progress(enum.IntEnum):
    """How far the answer is; it only goes forward."""

    OPEN = 0
    TRAILING = 1
    """The finish reason is there: nothing that comes can make it a failure."""
    CLOSED = 2


class Piece(msgspec.Struct, frozen=True):
    """Text, reasoning or tool calls that belong together: one of the three."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()

    def kind(self) -> tuple[bool, bool]:
        """Return what tells one kind of pieces from another."""
        return bool(self.text), bool(self.reasoning)

    @classmethod
    def of(cls, like: Iterable["Piece"]) -> "Piece":
        """Return pieces of one kind as one."""
        pieces = list(like)
        return cls(
            text="".join(piece.text for piece in pieces),
            reasoning="".join(piece.reasoning for piece in pieces),
            tool_calls=tuple(joined(call for piece in pieces for call in piece.tool_calls)),
        )


NOTHING = Chunk()


class Reading:
    """
    Takes what a backend sends after its 200.

    What one read brings is one piece, as far as its kind does not change: a backend that is faster than its turn
    costs a message for each read and not for each token. Tool calls that come without an id get one under ``call_ids``.
    """

    def __init__(self, *, max_event_bytes: int, finish_optional: bool, call_ids: str = "call_") -> None:
        self.progress = Progress.OPEN
        self.usage: dict[str, int] | None = None
        # Why it failed, once closed.
        self.failure: Failure | None = None
        # What the backend said about it, for a debug log.
        self.error: chunks.BackendError | None = None
        # The backend said that it is done, so its connection is good for another request.
        self.done = False
        self._finish_optional = finish_optional
        self._finish_reason: str | None = None
        self._calls = Calls(call_ids)
        self._parser = SseParser(max_event_bytes)

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ends; ``tool_calls`` if there are any, as not every backend says so."""
        asks = self._calls and self._finish_reason in (None, "stop")
        return TOOL_CALLS if asks else self._finish_reason

    def feed(self, data: bytes) -> list[Piece]:
        """Return what ``data`` adds to the answer."""
        pieces = self._take(self._parser.feed(data))
        if self._parser.overflowed:
            self._close(Failure(FailureClass.PROTOCOL, "EventTooLarge"))
        return pieces

    def end(self) -> list[Piece]:
        """Note the orderly end of the response; return what its last event still adds."""
        pieces = self._take(self._parser.end())
        self._close(None if self._finish_optional else failures.INCOMPLETE)
        return pieces

    def broke(self, failure: Failure) -> None:
        """Note that nothing more comes, although the response has not ended."""
        self._close(failure)

    def _take(self, events: list[bytes]) -> list[Piece]:
        said: list[Piece] = []
        for event in events:
            if self.progress is Progress.CLOSED:
                break
            chunk = self._decode(event)
            if chunk.reasoning:
                said.append(Piece(reasoning=chunk.reasoning))
            if chunk.text:
                said.append(Piece(text=chunk.text))
            if chunk.calls:
                said += self._number(chunk.calls)
            self._note(chunk)
        return said if len(said) < 2 else [Piece.of(like) for _, like in itertools.groupby(said, Piece.kind)]

    def _decode(self, event: bytes) -> Chunk:
        data = event.strip()
        if not data:
            return NOTHING
        if data == chunks.DONE:
            self.done = True
            self._close(None if self._finish_optional else failures.INCOMPLETE)
            return NOTHING
        try:
            chunk = chunks.decode(data)
        except MalformedChunk:
            self._close(Failure(FailureClass.PROTOCOL, MalformedChunk.__name__))
            return NOTHING
        if chunk.error is not None:
            self.error = chunk.error
            self._close(failures.of_error(chunk.error))
            return NOTHING
        return chunk

    def _number(self, calls: tuple[CallPiece, ...]) -> list[Piece]:
        try:
            return [Piece(tool_calls=tuple(self._calls.feed(calls)))]
        except ImpossibleCalls:
            self._close(Failure(FailureClass.PROTOCOL, ImpossibleCalls.__name__))
            return []

    def _note(self, chunk: Chunk) -> None:
        if chunk.usage is not None:
            self.usage = chunk.usage
        if chunk.finish_reason is not None and self.progress is Progress.OPEN:
            if chunk.finish_reason == "error":
                self._close(Failure(FailureClass.SERVER_ERROR, "ServerError"))
            else:
                self._finish_reason = finish_reason(chunk.finish_reason)
                self.progress = Progress.TRAILING

    def _close(self, failure: Failure | None) -> None:
        if self.progress is Progress.OPEN:
            self.failure = failure
        self.progress = Progress.CLOSED
