"""A backend that answers each request with bytes it was given, whatever they are, and hangs up."""

import asyncio
from typing import Self


class Parrot:
    """Says ``answer`` to every request; ``requests`` counts them."""

    def __init__(self) -> None:
        self.answer = b""
        self.requests = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
            await reader.readexactly(int(fields.get(b"content-length", b"0")))
            self.requests += 1
            writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
