"""
A real HTTP server in the place of a model backend, scripted request by request.

In a test::

    async with FakeBackend() as backend:
        backend.script(Text("Hel"), Die("rst"))
        ...
        exchange = await backend.request(0)
        await exchange.connection_closed.wait()

As a program, ``python -m tests.fakes.backend --port 0`` prints its URL. Scripts are then posted as JSON:
``POST /control/script`` (a list of steps; ``?times=N&when=TEXT``), ``POST /control/release/GATE``,
``GET /control/requests``. A request without a script is answered ``reply to: <last user message>``.
"""

import argparse
import asyncio
from collections import defaultdict
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.fakes.backend_http import Connection, Exchange
from tests.fakes.backend_script import (
    AnyStep,
    Die,
    Drip,
    Head,
    Hold,
    Pause,
    Reply,
    Silence,
    Step,
    answer,
    payload,
)

COMPLETIONS = "/chat/completions"

_SCRIPT = msgspec.json.Decoder(tuple[AnyStep, ...])


class Gate:
    """A point at which a script waits for the test."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


class Planned:
    """A script that waits for its requests."""

    def __init__(self, steps: tuple[Step, ...], times: int, when: str | None) -> None:
        self.steps = steps
        self.left = times
        self.when = when

    def suits(self, exchange: Exchange) -> bool:
        """Say whether the request is one of those that it waits for."""
        return self.when is None or self.when in exchange.last_user_message


class FakeBackend:
    """Serves scripts, and remembers requests in the order in which they came."""

    def __init__(self, *, port: int = 0, interval_s: float = 0.0) -> None:
        self._port = port
        # The pace of answers without a script.
        self._interval_s = interval_s
        self._planned: list[Planned] = []
        self._gates: defaultdict[str, Gate] = defaultdict(Gate)
        self._arrived = asyncio.Condition()
        self._connections: set[Connection] = set()
        self.exchanges: list[Exchange] = []
        # Connections that were ever made.
        self.connections_made = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Refuse connections from here on, and break those there are."""
        self._server.close()
        for connection in list(self._connections):
            connection.transport.abort()
            await connection.closed.wait()
        await self._server.wait_closed()

    # What a test says

    @property
    def url(self) -> str:
        """What a lane gets as its ``base_url``."""
        return f"http://127.0.0.1:{self._port}/v1"

    def script(self, *steps: Step, times: int = 1, when: str | None = None) -> None:
        """Serve the next ``times`` requests so; only those whose last user message holds ``when``, if it is given."""
        self._planned.append(Planned(steps, times, when))

    def gate(self, name: str) -> Gate:
        """Return the gate of that name, whether or not a script has come to it."""
        return self._gates[name]

    def release(self, name: str) -> None:
        """Let every script pass the gate, now and later."""
        self._gates[name].released.set()

    async def request(self, index: int) -> Exchange:
        """Return the request of that number, from 0, as soon as it is there."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.exchanges) > index)
        return self.exchanges[index]

    # Serving

    def _connect(self) -> Connection:
        self.connections_made += 1
        return Connection(self._serve, self._connections)

    async def _serve(self, connection: Connection, exchange: Exchange) -> None:
        path = urlsplit(exchange.path).path
        if path.startswith("/control/"):
            await self._control(connection, exchange)
        elif path.endswith("/models"):
            await _json(connection, {"object": "list", "data": [{"id": "fake-model", "object": "model"}]})
        elif path.endswith(COMPLETIONS):
            async with self._arrived:
                self.exchanges.append(exchange)
                self._arrived.notify_all()
            await self._play(connection, self._steps(exchange))
        else:
            await _json(connection, {"error": {"message": "no such path"}}, 404)

    def _steps(self, exchange: Exchange) -> tuple[Step, ...]:
        for planned in self._planned:
            if planned.suits(exchange):
                planned.left -= 1
                if planned.left <= 0:
                    self._planned.remove(planned)
                return planned.steps
        usage = bool((exchange.body.get("stream_options") or {}).get("include_usage"))
        text = f"reply to: {exchange.last_user_message}"
        return answer(text, usage=usage, interval_s=self._interval_s)

    async def _play(self, connection: Connection, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Head(status=status, headers=headers, framing=framing):
                    await connection.head(status, headers, chunked=framing == "chunked")
                case Reply(status=status, body=body, headers=headers):
                    await _reply(connection, status, body, headers)
                    return
                case Hold(gate=name):
                    self._gates[name].reached.set()
                    await self._gates[name].released.wait()
                case Drip(data=data):
                    for place in range(len(data)):
                        await connection.body(data[place : place + 1])
                        # Else the transport would join them.
                        await asyncio.sleep(0)
                case Pause(seconds=seconds):
                    await asyncio.sleep(seconds)
                case Silence():
                    await connection.closed.wait()
                    return
                case Die(how=how):
                    connection.die(how)
                    return
                case _:
                    await connection.body(payload(step) or b"")
        await connection.end()

    async def _control(self, connection: Connection, exchange: Exchange) -> None:
        parts = urlsplit(exchange.path)
        query = parse_qs(parts.query)
        answer: Any = {}
        if parts.path == "/control/script":
            times, when = query.get("times", ["1"])[0], query.get("when", [None])[0]
            self.script(*_SCRIPT.decode(exchange.raw), times=int(times), when=when)
        elif parts.path.startswith("/control/release/"):
            self.release(parts.path.rpartition("/")[2])
        elif parts.path == "/control/requests":
            answer = [exchange.record() for exchange in self.exchanges]
        await _json(connection, answer)


async def _json(connection: Connection, body: Any, status: int = 200) -> None:
    await _reply(connection, status, body, {})


async def _reply(connection: Connection, status: int, body: Any, headers: dict[str, str]) -> None:
    if isinstance(body, str):
        content, kind = body.encode(), "text/plain"
    else:
        content, kind = msgspec.json.encode(body), "application/json"
    await connection.whole(status, content, {"content-type": kind, **headers})


async def main() -> None:
    """Serve until the process is told to end."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible backend.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--interval-ms", type=float, default=0.0, help="pause before each word")
    options = parser.parse_args()
    async with FakeBackend(port=options.port, interval_s=options.interval_ms / 1000) as backend:
        print(backend.url, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
