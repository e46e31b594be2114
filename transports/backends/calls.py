"""The tool calls of one answer, told apart however its backend numbers and names their pieces. No I/O."""

from collections.abc import Iterable

from actors.messages.lane import ToolCallDelta
from transports.backends.chunks import CallPiece

MAX_CALLS = 128
"""Of one answer: as many as OpenAI takes tools."""


MAX_NAME = 512
"""Characters of an id and of a name: what is longer is none, and must not fill a chunk of its own."""


class ImpossibleCalls(Exception):
    """An answer asks for more calls than anybody could mean, or for one whose id or name is no such thing."""


class Calls:
    """
    Numbers the calls of an answer 0, 1, 2 … in the order in which they begin, each with an id.

    Backends give the pieces of one call the same index; or all calls the index 0, and each an id; or whole calls neither.
    So an id leads where there is one, then the index, then a name. Id and name are handed on once; a call that begins
    without an id gets one under ``prefix``.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        # Of each call: its id as the backend wrote it, and whether its name was handed on.
        self._ids: list[str] = []
        self._named: list[bool] = []
        # The newest call of each of the backend's indexes.
        self._of_index: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._ids)

    def feed(self, pieces: Iterable[CallPiece]) -> list[ToolCallDelta]:
        """Return what the pieces add. Raises ImpossibleCalls."""
        return [self._take(piece) for piece in pieces]

    def _take(self, piece: CallPiece) -> ToolCallDelta:
        if max(len(piece.call_id), len(piece.name)) > MAX_NAME:
            raise ImpossibleCalls
        found = self._find(piece)
        number = self._begin(piece) if found is None else found
        call_id = piece.call_id or f"{self._prefix}{number}"
        name = piece.name if piece.name and not self._named[number] else None
        self._named[number] = self._named[number] or name is not None
        return ToolCallDelta(
            index=number,
            call_id=call_id if found is None else None,
            name=name,
            arguments=piece.arguments,
        )

    def _find(self, piece: CallPiece) -> int | None:
        """Return the call that a piece goes on with."""
        if piece.call_id in self._ids and piece.call_id:
            return self._ids.index(piece.call_id)
        if piece.index is None:
            goes_on = self._ids and not piece.call_id and not piece.name
            return len(self._ids) - 1 if goes_on else None
        number = self._of_index.get(piece.index)
        another = number is not None and piece.call_id and self._ids[number]
        return None if another else number

    def _begin(self, piece: CallPiece) -> int:
        number = len(self._ids)
        if number == MAX_CALLS:
            raise ImpossibleCalls
        if piece.index is not None:
            self._of_index[piece.index] = number
        self._ids.append(piece.call_id)
        self._named.append(False)
        return number


def joined(deltas: Iterable[ToolCallDelta]) -> list[ToolCallDelta]:
    """Return the same calls in fewer pieces: neighbours of one call are one."""
    pieces: list[ToolCallDelta] = []
    for delta in deltas:
        last = pieces[-1] if pieces else None
        if last is None or last.index != delta.index:
            pieces.append(delta)
            continue
        pieces[-1] = ToolCallDelta(
            index=last.index,
            call_id=last.call_id or delta.call_id,
            name=last.name or delta.name,
            arguments=last.arguments + delta.arguments,
        )
    return pieces
