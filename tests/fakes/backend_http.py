"""One connection of a fake backend: HTTP/1.1 by hand, so that a test decides how it ends."""

import asyncio
import http
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

_END_OF_HEAD = b"\r\n\r\n"
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Exchange:
    """One request, and what became of its connection."""

    def __init__(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.raw = raw
        self.body: Any = msgspec.json.decode(raw) if raw else None
        # Set when the client has closed, or the script has ended.
        self.connection_closed = asyncio.Event()
        self.served = asyncio.Event()

    @property
    def last_user_message(self) -> str:
        """What the client wants to be answered."""
        messages = self.body.get("messages", []) if isinstance(self.body, dict) else []
        said = [message["content"] for message in messages if message["role"] == "user"]
        return said[-1] if said else ""

    def record(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "method": self.method,
            "path": self.path,
            "headers": self.headers,
            "body": self.body,
            "connection_closed": self.connection_closed.is_set(),
            "served": self.served.is_set(),
        }


class Connection(asyncio.Protocol):
    """Reads requests one after the other and lets ``serve`` answer each."""

    def __init__(
        self,
        serve: Callable[["Connection", Exchange], Awaitable[None]],
        open_connections: set["Connection"],
    ) -> None:
        self._serve = serve
        self._open_connections = open_connections
        self._buffer = bytearray()
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._chunked: bool | None = None
        self.closed = asyncio.Event()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports are no subclasses of asyncio's.
        self.transport = cast("asyncio.Transport", transport)
        self._open_connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Collect a request."""
        self._buffer += data
        self._next()

    def eof_received(self) -> bool:
        """Take the client's FIN as the end, and close our side too."""
        self._gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the script in hand."""
        self._gone()
        self._open_connections.discard(self)

    def pause_writing(self) -> None:
        """The client reads slower than the script writes."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()

    def _gone(self) -> None:
        self.closed.set()
        self._writable.set()
        if self._exchange is not None:
            self._exchange.connection_closed.set()
        if self._task is not None:
            self._task.cancel()

    # Requests

    def _next(self) -> None:
        if self._exchange is not None:
            return
        exchange = self._take()
        if exchange is not None:
            self._exchange = exchange
            self._chunked = None
            self._task = asyncio.create_task(self._run(exchange))

    def _take(self) -> Exchange | None:
        head, separator, rest = bytes(self._buffer).partition(_END_OF_HEAD)
        if not separator:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return None
        self._buffer = bytearray(rest[length:])
        return Exchange(method, path, headers, rest[:length])

    async def _run(self, exchange: Exchange) -> None:
        try:
            await self._serve(self, exchange)
        finally:
            exchange.served.set()
            self._exchange = None
            self._task = None
        if not self.transport.is_closing():
            self._next()

    # What a script does

    async def head(self, status: int, headers: dict[str, str], *, chunked: bool) -> None:
        """Send status and headers of a body that is chunked or ends with the connection."""
        self._chunked = chunked
        framing = {"transfer-encoding": "chunked"} if chunked else {"connection": "close"}
        await self._write(_head(status, {"content-type": "text/event-stream", **framing, **headers}))

    async def body(self, data: bytes) -> None:
        """Send bytes of the body, after the head of an event stream if there was none yet."""
        if self._chunked is None:
            await self.head(200, {}, chunked=True)
        if data:
            await self._write(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    async def end(self) -> None:
        """End the body as its framing wants it."""
        if self._chunked is None:
            await self.head(200, {}, chunked=True)
        if self._chunked:
            await self._write(b"0\r\n\r\n")
        else:
            self.transport.close()

    async def whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send a response that is no stream."""
        self._chunked = True
        await self._write(_head(status, {"content-length": str(len(body)), **headers}) + body)

    def die(self, how: str) -> None:
        """Break the connection now."""
        if how == "rst":
            sock = self.transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
            self.transport.abort()
        else:
            self.transport.close()

    async def _write(self, data: bytes) -> None:
        self.transport.write(data)
        await self._writable.wait()


def _head(status: int, headers: dict[str, str]) -> bytes:
    # Some backends answer with numbers that no standard knows, 529 for one.
    phrase = http.HTTPStatus(status).phrase if status in set(http.HTTPStatus) else "Overloaded"
    lines = [f"HTTP/1.1 {status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
