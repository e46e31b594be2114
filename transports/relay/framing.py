"""Lines out of messages: several lines may come in one message, and one line over several (relay.md, section 2)."""

LONGEST_LINE = 1 << 20
"""Bytes of UTF-8, its newline not counted."""


class LineTooLong(ValueError):
    """
    A line grows beyond the limit; the connection has to end with 1009.

    ``lines`` are the complete ones before it in the same message: they are good, and are still to be served.
    """

    def __init__(self, limit: int, lines: list[bytes]) -> None:
        super().__init__(f"a line is longer than {limit} bytes")
        self.lines = lines


class LineSplitter:
    """
    Cuts what one connection sends into lines.

    Every byte is copied a constant number of times however small the pieces are, and never more than one unfinished
    line is kept. Lines are bytes, so that a character may be spread over two binary messages; whether they are valid
    UTF-8 is for whoever decodes them to see.
    """

    def __init__(self, limit: int = LONGEST_LINE) -> None:
        self._limit = limit
        # The beginning of a line whose end has not come yet.
        self._tail = bytearray()

    def feed(self, message: str | bytes) -> list[bytes]:
        """
        Take one WebSocket message and return the lines that it completes, without newlines and without blank ones.

        Raises LineTooLong; the splitter is empty then, and the rest of the message is lost.
        """
        data = message.encode(errors="surrogatepass") if isinstance(message, str) else message
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            line = self._finish(end)
            if len(line) > self._limit:
                raise LineTooLong(self._limit, lines)
            if line.strip():
                lines.append(line)
        self._tail += rest
        if len(self._tail) > self._limit:
            self._tail = bytearray()
            raise LineTooLong(self._limit, lines)
        return lines

    def _finish(self, end: bytes) -> bytes:
        if not self._tail:
            return end
        self._tail += end
        line = bytes(self._tail)
        self._tail = bytearray()
        return line
