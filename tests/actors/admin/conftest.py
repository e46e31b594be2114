"""/admin in the real composition, asked as the socket asks it."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors.messages.admin import AdminRequest, Perform
from actors.messages.events import Event, Subscribe
from actors.messages.rows import KeyRow, KeyScope
from actors.runtime import Port
from tests.fakes.backend import FakeBackend
from tests.harness import Harness


def key(*scopes: KeyScope) -> KeyRow:
    return KeyRow(key_id="k1", name="tester", owner="tester", scopes=scopes, created_at=0.0)


class AdminBox:
    """A harness with short forms for what tests ask /admin."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.watcher: Port = harness.system.port("/watcher")
        self.audit: Port = harness.system.port("/audit")

    async def listen(self) -> None:
        await self.harness.ask("/events", Subscribe(subscriber=self.audit, kinds=("admin.",)))

    async def perform(self, request: AdminRequest, *scopes: KeyScope) -> Any:
        perform = Perform(request=request, caller=key(*(scopes or (KeyScope.ADMIN,))), watcher=self.watcher)
        return await self.harness.ask("/admin", perform)

    async def audited(self) -> Event:
        """Return the next audit event."""
        event = await self.audit.receive(self.harness.within())
        assert isinstance(event, Event)
        return event

    async def turn(self) -> list[Any]:
        """Return what the watcher hears, up to a turn's end."""
        heard: list[Any] = []
        while not heard or getattr(heard[-1], "state", None) not in ("idle", "error"):
            heard.append(await self.watcher.receive(self.harness.within()))
        return heard


@pytest.fixture
async def backend() -> AsyncIterator[FakeBackend]:
    async with FakeBackend() as fake:
        yield fake


@pytest.fixture
async def boot(tmp_path: Path, backend: FakeBackend) -> AsyncIterator[Callable[..., Awaitable[AdminBox]]]:
    """Start a harness with settings, once."""
    async with contextlib.AsyncExitStack() as running:

        async def start(**settings: Any) -> AdminBox:
            lane = {"name": "fake", "base_url": backend.url, "model": "fake-1"}
            harness = Harness(tmp_path / "data", lane=[lane], **settings)
            box = AdminBox(await running.enter_async_context(harness))
            await box.listen()
            return box

        yield start


@pytest.fixture
async def box(boot: Callable[..., Awaitable[AdminBox]]) -> AdminBox:
    return await boot()
