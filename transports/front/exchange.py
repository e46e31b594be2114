"""Answering an HTTP request by hand: for the route that watches its client while it streams."""

import asyncio
from typing import Any

from actors.runtime import Address
from transports.front.errors import ApiError, Headers
from transports.front.feed import ClientGone
from transports.front.session_header import response_headers


class ClientLeft(Exception):
    """The client went before its request was whole."""


class Exchange:
    """One HTTP request and its response, on the raw ASGI callables."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        # The chat's name, once it is known: from then on every answer carries it.
        self.token: str | None = None
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> str | None:
        """Return a request header's value."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    async def body(self, limit: int, seconds: float) -> bytes:
        """
        Read the request's body.

        Raises ApiError 413 over ``limit`` bytes and 408 after ``seconds``, ClientLeft if the client went.
        """
        declared = self.header(b"content-length")
        if declared is not None and declared.isdecimal() and int(declared) > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(seconds):
                return await self._read(limit)
        except TimeoutError:
            # The rest of the body may still come; on this connection nobody could tell it from a request.
            closing = (("connection", "close"),)
            raise ApiError(408, "body_timeout", "The body did not come in time.", headers=closing) from None

    async def _read(self, limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise _too_large(limit)
            if not message.get("more_body", False):
                return b"".join(parts)

    async def watch(self, address: Address) -> None:
        """Tell ``address`` when the client closes its connection. Only after the body."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        address.tell(ClientGone())

    async def answer(self, status: int, body: bytes, headers: Headers = ()) -> None:
        """Send a whole JSON response."""
        length = ("content-length", str(len(body)))
        await self.start(status, (("content-type", "application/json"), length, *headers))
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, error: ApiError) -> None:
        """Send an error."""
        await self.answer(error.status, error.body(self.token), error.headers)

    async def start(self, status: int, headers: Headers) -> None:
        """Send the status and the headers, with both session headers."""
        shown = (*headers, *response_headers(self.token))
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in shown]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, chunk: bytes) -> None:
        """Send a part of the body; waits while the client does not read."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """Send the last part of the body, and end it."""
        await self._send({"type": "http.response.body", "body": chunk})


def _too_large(limit: int) -> ApiError:
    return ApiError(413, "body_too_large", f"The body is larger than {limit} bytes.")
