"""A front on a real store and a real socket, with sessions that only take notes: what it does by itself."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any, Self

import msgspec

from actors.lane.lanes import Lanes
from actors.lane.roster import Roster
from actors.messages.front import FrontInfo
from actors.messages.lane import Capability, LaneSpec
from actors.messages.rows import KeyScope
from actors.messages.store import PutKey
from actors.metrics.metrics import Metrics
from actors.runtime import Actor, Budget, Ref, System
from actors.supervision import ChildSpec, Supervisor
from storage import Store, open_database
from transports.backends import LaneSettings, spec
from transports.front.edges import Edges
from transports.front.front import Front
from transports.front.listener import Listener
from transports.front.settings import FrontSettings

KEY = "tk_test"
HEADERS = {"Authorization": f"Bearer {KEY}"}
SECONDS = 20.0


class Notes(Actor):
    """Remembers what it is told."""

    def __init__(self, heard: list[Any]) -> None:
        self._heard = heard

    async def on_receive(self, message: Any) -> bool:
        self._heard.append(message)
        return True


async def no_socket(scope: Any, receive: Any, send: Any) -> None:
    """Refuse a WebSocket."""
    await send({"type": "websocket.close"})


class FrontBox:
    """``settings`` are fields of FrontSettings; ``lanes`` are names, all with the same ``capabilities``."""

    def __init__(
        self,
        data_dir: Path,
        *,
        lanes: tuple[str, ...] = ("fake",),
        capabilities: frozenset[Capability] = frozenset(Capability),
        relay_endpoint: Any = no_socket,
        port: int = 0,
        **settings: Any,
    ) -> None:
        self._data_dir = data_dir
        self._lanes = lanes
        self._capabilities = capabilities
        self._relay_endpoint = relay_endpoint
        self.settings = FrontSettings(port=port, **settings)
        self.listener = Listener(self.settings.host, port)
        # What the sessions were told.
        self.heard: list[Any] = []
        self._clients: list[Raw] = []

    async def __aenter__(self) -> Self:
        self.system = System(stop_seconds=10.0)
        self.database = await open_database(self._data_dir)
        specs = (
            ChildSpec(name="store", factory=lambda: Store(self.database)),
            ChildSpec(name="sessions", factory=lambda: Notes(self.heard)),
            ChildSpec(name="metrics", factory=Metrics),
            ChildSpec(name="lanes", factory=lambda: Lanes(Roster(self._specs()), self._specs)),
            ChildSpec(name="front", factory=self._front),
        )
        self.root = self.system.spawn("/", lambda: Supervisor(specs))
        try:
            await self.root.started(self.within())
            await self.ask(
                "/store",
                PutKey(
                    key_id="k1",
                    name="test",
                    owner="test",
                    scopes=(KeyScope.API,),
                    key_hash=hashlib.sha256(KEY.encode()).hexdigest(),
                    at=self.system.clock.wall(),
                ),
            )
            self.url: str = (await self.ask("/front", FrontInfo())).url
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop the tree in order, and hang up."""
        for client in self._clients:
            client.close()
        await self.system.stop(self.root, self.within())
        # A store that a test has killed leaves its connection behind.
        await self.database.disconnect()
        self.database.close()

    async def connect(self) -> "Raw":
        """Return a client that writes by hand."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        client = Raw(*await asyncio.open_connection(host, int(port)))
        self._clients.append(client)
        return client

    def _specs(self) -> tuple[LaneSpec, ...]:
        return tuple(
            spec(
                LaneSettings(
                    name=name,
                    base_url="http://127.0.0.1:1/v1",
                    model=f"{name}-1",
                    capabilities=self._capabilities,
                )
            )
            for name in self._lanes
        )

    def _front(self) -> Actor:
        edges = Edges(
            system=self.system,
            store=self.at("/store"),
            sessions=self.at("/sessions"),
            metrics=self.at("/metrics"),
            lanes=self.at("/lanes"),
            relay_endpoint=self._relay_endpoint,
            admin_endpoint=no_socket,
            settings=self.settings,
        )
        return Front(edges, self.listener)

    def within(self, seconds: float = SECONDS) -> Budget:
        """Return a budget."""
        return Budget.of(self.system.clock, seconds)

    def at(self, path: str) -> Ref:
        """Return the actor at a path."""
        ref = self.system.find(path)
        assert ref is not None, f"nothing is at {path}"
        return ref

    async def ask(self, path: str, message: Any) -> Any:
        """Ask the actor at a path."""
        return await self.at(path).ask(message, self.within())

    def told(self, kind: type) -> list[Any]:
        """Return what the sessions were told of one kind."""
        return [message for message in self.heard if isinstance(message, kind)]


class Raw:
    """A client that writes its requests by hand, and reads whole responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def begin(self, path: str = "/v1/chat/completions", **headers: Any) -> None:
        """Send the head of a POST; its body is up to the caller."""
        shown = {"Host": "x", **HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in shown.items())]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def post(self, **body: Any) -> None:
        """Send a whole request."""
        data = msgspec.json.encode(body)
        self.begin(Content_Length=len(data))
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read status and headers of a response."""
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = raw.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return int(first.split(" ")[1]), headers

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Read a JSON response."""
        status, headers = await self.head()
        return (
            status,
            headers,
            msgspec.json.decode(await self.reader.readexactly(int(headers["content-length"]))),
        )

    def close(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()
