"""The admin protocol as a program of its own would speak it: bare JSON over a bare WebSocket."""

import asyncio
import itertools
import json
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

SECONDS = 20.0


class AdminWire:
    """One connection. ``ask`` keeps the events that come in between."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = f"{url.replace('http://', 'ws://')}/admin"
        self._headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self.socket: ClientConnection

    async def __aenter__(self) -> Self:
        self.socket = await connect(
            self._url, additional_headers=self._headers, max_size=None, compression=None, proxy=None
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()

    async def send(self, message: Any) -> None:
        """Send an object as JSON, or text and bytes as they are."""
        await self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def receive(self) -> Any:
        """Return the next message. Raises ConnectionClosed."""
        async with asyncio.timeout(SECONDS):
            return json.loads(await self.socket.recv())

    async def ask(self, request_type: str, **fields: Any) -> Any:
        """Return the answer to a request: its result, or its error's code."""
        number = next(self._numbers)
        await self.send({"id": number, "type": request_type, **fields})
        while True:
            message = await self.receive()
            if "event" in message:
                self.events.append(message)
            else:
                assert message["id"] == number
                return message["result"] if message["ok"] else message["error"]["code"]

    async def event(self, kind: str | None = None) -> Any:
        """Return the next event, or the next one of a kind."""
        while True:
            message = self.events.pop(0) if self.events else await self.receive()
            if kind is None or message.get("event") == kind:
                return message

    async def closed(self) -> int:
        """Wait for the end, before which nothing is said; return the close code."""
        async with asyncio.timeout(SECONDS):
            try:
                message = await self.socket.recv()
            except ConnectionClosed:
                assert self.socket.close_code is not None
                return self.socket.close_code
        raise AssertionError(f"something was said: {message!r}")

    async def last(self) -> Any:
        """Read on to the end; return the last message."""
        message = None
        while True:
            try:
                message = await self.receive()
            except ConnectionClosed:
                return message
