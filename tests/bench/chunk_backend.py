"""
The far end of bench_chunk: streams of known length and pace, for next to no CPU.

``python -m tests.bench.chunk_backend`` prints its URL. The model says what comes: ``b-50-5-x`` is a stream of 50 chunks, 5 ms
apart, and without a pace (``b-50-0-x``) they come at once. What follows is of no meaning.
"""

import asyncio
import itertools
from typing import cast

import msgspec
import uvloop

from tests.fakes.chunks import chunk, event

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = (
    event(chunk({}, finish_reason="stop"))
    + event({**chunk(None), "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}})
    + b"data: [DONE]\n\n"
)


def framed(data: bytes) -> bytes:
    """Return one piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


FIRST = HEAD + framed(event(chunk({"role": "assistant", "content": ""})))
PIECES = [framed(event(chunk({"content": f"word{n:03} "}))) for n in range(1000)]
LAST = framed(END) + b"0\r\n\r\n"


class Far(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer a request once it is whole."""
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
        length = int(fields.get(b"content-length", b"0"))
        if len(body) < length:
            return
        self._buffer = b""
        if not body:
            # Somebody looks whether there is a list of models.
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        _, count, pace, *_ = msgspec.json.decode(body)["model"].split("-")
        self._send(itertools.islice(PIECES, int(count)), int(pace) / 1000)

    def _send(self, pieces: "itertools.islice[bytes]", pace: float) -> None:
        write = self._transport.write
        if not pace:
            write(b"".join((FIRST, *pieces, LAST)))
            return
        write(FIRST)
        loop = asyncio.get_running_loop()
        due = loop.time()

        def next_piece() -> None:
            nonlocal due
            if self._transport.is_closing():
                return
            piece = next(pieces, None)
            write(LAST if piece is None else piece)
            if piece is not None:
                due += pace
                loop.call_at(due, next_piece)

        due += pace
        loop.call_at(due, next_piece)


async def main() -> None:
    """Serve until the process is told to end."""
    server = await asyncio.get_running_loop().create_server(Far, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
