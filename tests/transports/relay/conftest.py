"""The endpoint on a real server, with the real store and relays; what reaches the sessions is recorded."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from actors.messages.rows import PeerRole, PeerRow
from actors.messages.secret import Secret
from actors.messages.store import PutPeer
from actors.relay.relays import Relays
from actors.relay.settings import RelaySettings
from actors.runtime import Actor, Budget, Ref, System
from storage import Store, open_database
from tests.fakes.connector import Connector, Gateway
from transports.relay.endpoint import RelayEndpoint

SECRET = "s3cret-of-the-peer"


class Recorder(Actor):
    """Stands where the sessions are, and remembers what it is told."""

    def __init__(self, heard: list[Any]) -> None:
        self._heard = heard

    async def on_receive(self, message: Any) -> Any:
        self._heard.append(message)
        return True


class Bench:
    """Everything that one test needs of the relay's side."""

    def __init__(self, settings: RelaySettings) -> None:
        self.settings = settings
        self.woken: list[Any] = []
        self.events: list[Any] = []
        self.peers: list[Connector | Gateway] = []

    async def start(self, path: Any) -> None:
        self.system = System()
        database = await open_database(path)
        self.store = self.system.spawn("/store", lambda: Store(database))
        self.sessions = self.system.spawn("/sessions", lambda: Recorder(self.woken))
        self.events_ref = self.system.spawn("/events", lambda: Recorder(self.events))
        self.system.publish_to(self.events_ref)
        self.relays = self.system.spawn(
            "/relays",
            lambda: Relays(
                store=self.store,
                sessions=self.sessions,
                console_platforms=("discord",),
                settings=self.settings,
            ),
        )
        await self.relays.started(self.budget())
        self.endpoint = RelayEndpoint(
            system=self.system,
            store=self.store,
            relays=self.relays,
            sessions=self.sessions,
            settings=self.settings,
        )
        config = uvicorn.Config(
            self.endpoint, port=0, ws="websockets-sansio", lifespan="off", log_config=None,
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        self.server = uvicorn.Server(config)
        self.serving = asyncio.create_task(self.server.serve())
        while not self.server.started:
            await asyncio.sleep(0)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        for peer in self.peers:
            with contextlib.suppress(Exception):
                await peer.close()
        self.server.should_exit = True
        await self.serving
        for ref in (self.relays, self.sessions, self.events_ref, self.store):
            await self.system.stop(ref, self.budget())

    def budget(self) -> Budget:
        return Budget.of(self.system.clock, 10.0)

    async def ask(self, ref: Ref, message: Any) -> Any:
        return await ref.ask(message, self.budget())

    async def put_peer(
        self,
        name: str,
        role: PeerRole,
        identities: tuple[str, ...] = ("discord:b1",),
        scopes: tuple[str, ...] = (),
    ) -> PeerRow:
        request = PutPeer(
            at=0.0,
            name=name,
            role=role,
            identities=identities,
            scopes=scopes,
            secret=Secret(f"{SECRET}-{name}"),
        )
        return await self.store.ask(request, self.budget())

    async def connector(
        self, name: str = "cn", *platforms: str, dial: bool = True, **fields: Any
    ) -> Connector:
        identities = tuple(f"{platform}:b1" for platform in platforms or ("discord",))
        await self.put_peer(name, PeerRole.CONNECTOR, identities, fields.pop("scopes", ()))
        peer = Connector(self.url, name, f"{SECRET}-{name}", *platforms, **fields)
        self.peers.append(peer)
        return await peer.dial() if dial else peer

    async def gateway(
        self, name: str = "gw", *identities: tuple[str, str], dial: bool = True, **fields: Any
    ) -> Gateway:
        named = identities or (("discord", "bot-1"),)
        await self.put_peer(
            name, PeerRole.GATEWAY, tuple(":".join(one) for one in named), fields.pop("scopes", ())
        )
        peer = Gateway(self.url, name, f"{SECRET}-{name}", *named)
        self.peers.append(peer)
        return await peer.dial() if dial else peer


@pytest.fixture
def settings() -> RelaySettings:
    return RelaySettings(retry_base_s=0.02, retry_cap_s=0.05)


@pytest.fixture
async def bench(tmp_path: Any, settings: RelaySettings) -> AsyncIterator[Bench]:
    bench = Bench(settings)
    await bench.start(tmp_path)
    try:
        yield bench
    finally:
        await bench.stop()
