"""
What bench_chunk measures the daemon beside: a small gateway on aiohttp that parses each event and serialises it again.

``python -m tests.bench.chunk_gateway URL`` prints its own URL. It keeps nothing and knows no retries; its loop, its HTTP
library and its JSON library are those of the daemon.
"""

import asyncio
import sys

import aiohttp
import msgspec
import uvloop
from aiohttp import web


class Gateway:
    """Passes completions on."""

    def __init__(self, backend: str) -> None:
        self._url = f"{backend}/chat/completions"

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Stream an answer, event by event."""
        body = msgspec.json.encode(msgspec.json.decode(await request.read()))
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        async with self._client.post(self._url, data=body, headers=headers) as answer:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            async for line in answer.content:
                if not line.startswith(b"data: "):
                    continue
                data = line[6:].strip()
                if data != b"[DONE]":
                    data = msgspec.json.encode(msgspec.json.decode(data))
                await response.write(b"data: " + data + b"\n\n")
            await response.write_eof()
        return response

    async def run(self) -> None:
        """Serve until the process is told to end."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._client:
            app = web.Application()
            app.router.add_post("/v1/chat/completions", self.complete)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
            await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(Gateway(sys.argv[1]).run())
