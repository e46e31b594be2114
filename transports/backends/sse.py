"""Server-sent events, from bytes to data, however the bytes are cut. No I/O."""

BOM = b"\xef\xbb\xbf"


class SseParser:
    """
    Takes a stream of bytes and returns the data of each event in it.

    Field names other than ``data`` and comments are skipped, as no backend needs them. Time is linear in the bytes, and
    what is kept is at most ``max_bytes`` and the piece in hand.

    An event or a line that is longer sets ``overflowed``: nothing that comes is read any more.
    """

    def __init__(self, max_bytes: int) -> None:
        self.overflowed = False
        self._max_bytes = max_bytes
        # A line whose end has not come yet.
        self._line = bytearray()
        # Data of the event whose end has not come yet, and the length of its lines.
        self._data: list[bytes] = []
        self._size = 0
        # The last piece ended in CR: a LF that follows is the same line end.
        self._after_cr = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that ``piece`` completes."""
        if self.overflowed:
            return []
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece.removeprefix(b"\n")
        self._line += piece
        if b"\n" not in piece and b"\r" not in piece:
            self._bound(len(self._line))
            return []
        whole = bytes(self._line)
        lines = whole.splitlines()
        self._line.clear()
        if whole.endswith(b"\r"):
            self._after_cr = True
        elif not whole.endswith(b"\n"):
            self._line += lines.pop()
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(BOM)
        events: list[bytes] = []
        for line in lines:
            if not line:
                events += self.end()
            elif not self._take(line):
                return events
        self._bound(len(self._line))
        return events

    def end(self) -> list[bytes]:
        """Return the data of the event in hand, if it has any: not every backend ends its last one."""
        if not self._data:
            return []
        event = b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        return [event]

    def _take(self, line: bytes) -> bool:
        """Take a line that is not empty; False if it is one too many."""
        if not self._bound(len(line)):
            return False
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            self._size += len(line) + 1
        elif line == b"data":
            self._data.append(b"")
            self._size += len(line) + 1
        return True

    def _bound(self, more: int) -> bool:
        if self._size + more > self._max_bytes:
            self.overflowed = True
            self._data.clear()
            self._line.clear()
        return not self.overflowed
