"""A cable between a client and a server that a test can hold or cut."""

import asyncio
from typing import Self


class Cable:
    """Listens on ``url`` and carries bytes to a server; ``hold`` keeps back what the server says, ``cut`` ends all."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._passing = asyncio.Event()
        self._passing.set()
        self._open: set[asyncio.StreamWriter] = set()
        # Connections that were made so far.
        self.count = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        self.release()
        await self._server.wait_closed()

    def hold(self) -> None:
        """Let nothing through from the server."""
        self._passing.clear()

    def release(self) -> None:
        """Let it through again."""
        self._passing.set()

    def cut(self) -> None:
        """End every connection at once."""
        for writer in self._open:
            writer.transport.abort()

    async def _carry(self, near: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        far, requests = await asyncio.open_connection("127.0.0.1", self._port)
        self.count += 1
        ends = {answers, requests}
        self._open |= ends
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(near, requests, None))
                group.create_task(self._pump(far, answers, self._passing))
        except* OSError:
            # One end was cut: so is the other.
            pass
        finally:
            for writer in ends:
                writer.transport.abort()
            self._open -= ends

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passing: asyncio.Event | None
    ) -> None:
        while data := await source.read(65536):
            if passing is not None:
                await passing.wait()
            sink.write(data)
            await sink.drain()
        raise ConnectionResetError
