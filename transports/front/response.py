"""Answering an HTTP request by hand: for the route that watches its client while it streams."""

from typing import Any

from transports.front.errors import ApiError
from transports.front.feed import ClientGone

Pairs = tuple[tuple[str, str], ...]


class Exchange:
    """One HTTP request and its response, on the raw ASGI callables."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._receive = receive
        self._send = send
        self.started = False

    def header(self, name: bytes) -> str | None:
        """Return a request header's value."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    async def body(self, limit: int) -> bytes:
        """Read the request's body. Raises ApiError 413 over ``limit`` bytes, ClientLeft if the client went."""
        too_large = ApiError(413, "body_too_large", f"The body is larger than {limit} bytes.")
        declared = self.header(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise too_large
            if not message.get("more_body", False):
                return b"".join(parts)

    async def watch(self, port: Any) -> None:
        """Tell ``port`` when the client closes its connection."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                port.tell(ClientGone())
                return

    async def answer(self, status: int, body: bytes, headers: Pairs = ()) -> None:
        """Send a whole JSON response."""
        await self.start(
            status, (("content-type", "application/json"), ("content-length", str(len(body))), *headers)
        )
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, error: ApiError, headers: Pairs = (), session_id: str | None = None) -> None:
        """Send an error."""
        await self.answer(error.status, error.body(session_id), (*error.headers, *headers))

    async def start(self, status: int, headers: Pairs) -> None:
        """Send the status and the headers."""
        self.started = True
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, chunk: bytes) -> None:
        """Send a part of the body; waits while the client does not read."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """End the body."""
        await self._send({"type": "http.response.body", "body": b""})


class ClientLeft(Exception):
    """The client went before its request was whole."""
