"""A client's side of an event stream, read as strictly as a careful client would."""

import json
from typing import Any

import aiohttp


class Stream:
    """An open response of chunks. ``comments`` counts keepalives."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.status = response.status
        self.headers = response.headers
        self.chunks: list[Any] = []
        self.comments = 0
        self.done = False

    async def next(self) -> Any:
        """Return the next chunk, None at ``[DONE]``."""
        while True:
            line = (await self.response.content.readline()).decode()
            assert line, "the stream ended without [DONE]"
            line = line.rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
                continue
            if not line:
                continue
            assert line.startswith("data: "), line
            if line == "data: [DONE]":
                self.done = True
                assert (await self.response.content.read()).strip() == b""
                return None
            self.chunks.append(json.loads(line.removeprefix("data: ")))
            return self.chunks[-1]

    async def until_text(self) -> str:
        """Read up to the first piece of text and return it."""
        while True:
            chunk = await self.next()
            assert chunk is not None
            if chunk["choices"] and chunk["choices"][0]["delta"].get("content"):
                return str(chunk["choices"][0]["delta"]["content"])

    async def rest(self) -> list[Any]:
        """Read to the end; return all chunks of the stream."""
        while await self.next() is not None:
            pass
        return self.chunks

    @property
    def text(self) -> str:
        """The answer so far."""
        deltas = [choice["delta"] for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(delta.get("content", "") for delta in deltas)

    def leave(self) -> None:
        """Close the connection in mid-stream."""
        self.response.close()
