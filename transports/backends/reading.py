"""The reading of one answer, from bytes to deltas and an outcome. No I/O, no clock."""

import enum

import msgspec

from actors.messages.lane import FailureClass
from transports.backends import chunks, failures
from transports.backends.chunks import Chunk, MalformedChunk
from transports.backends.sse import SseParser
from transports.backends.stream import Failure


class Progress(enum.IntEnum):
    """How far the answer is; it only goes forward."""

    OPEN = 0
    TRAILING = 1
    """The finish reason is there: nothing that comes can make it a failure."""
    CLOSED = 2


class Piece(msgspec.Struct, frozen=True):
    """Text or reasoning that belongs together."""

    text: str = ""
    reasoning: str = ""


class Reading:
    """
    Takes what a backend sends after its 200.

    What one read brings is one piece, as far as its kind does not change: a backend that is faster than its turn
    costs a message for each read and not for each token.
    """

    def __init__(self, *, max_event_bytes: int, finish_optional: bool) -> None:
        self.progress = Progress.OPEN
        self.finish_reason: str | None = None
        self.usage: dict[str, int] | None = None
        # Why it failed, once closed.
        self.failure: Failure | None = None
        # What the backend said about it, for a debug log.
        self.error: chunks.BackendError | None = None
        # The backend said that it is done, so its connection is good for another request.
        self.done = False
        self._finish_optional = finish_optional
        self._parser = SseParser(max_event_bytes)

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
        pieces: list[Piece] = []
        texts: list[str] = []
        reasonings: list[str] = []
        for event in events:
            if self.progress is Progress.CLOSED:
                break
            chunk = self._decode(event)
            if (chunk.text and reasonings) or (chunk.reasoning and texts):
                pieces.append(Piece("".join(texts), "".join(reasonings)))
                texts.clear()
                reasonings.clear()
            if chunk.reasoning:
                reasonings.append(chunk.reasoning)
            if chunk.text:
                texts.append(chunk.text)
        if texts or reasonings:
            pieces.append(Piece("".join(texts), "".join(reasonings)))
        return pieces

    def _decode(self, event: bytes) -> Chunk:
        data = event.strip()
        if not data:
            return Chunk()
        if data == chunks.DONE:
            self.done = True
            self._close(None if self._finish_optional else failures.INCOMPLETE)
            return Chunk()
        try:
            chunk = chunks.decode(data)
        except MalformedChunk:
            self._close(Failure(FailureClass.PROTOCOL, MalformedChunk.__name__))
            return Chunk()
        if chunk.error is not None:
            self.error = chunk.error
            self._close(failures.of_error(chunk.error))
            return Chunk()
        if chunk.usage is not None:
            self.usage = chunk.usage
        if chunk.finish_reason is not None and self.progress is Progress.OPEN:
            if chunk.finish_reason == "error":
                self._close(Failure(FailureClass.SERVER_ERROR, "ServerError"))
            else:
                self.finish_reason = chunk.finish_reason
                self.progress = Progress.TRAILING
        return chunk

    def _close(self, failure: Failure | None) -> None:
        if self.progress is Progress.OPEN:
            self.failure = failure
        self.progress = Progress.CLOSED
