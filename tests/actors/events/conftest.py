"""A bus over a real store, and subscribers that keep what they hear."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.events import EventBus, EventSettings
from actors.exceptions import StoreUnavailable
from actors.messages.events import Event, Gap, Publish, ReadBack, Subscribe, Unsubscribe
from actors.messages.store import LastEventSeq
from actors.runtime import Budget, Port, Ref, System
from storage import Database, Store, open_database

SECONDS = 10.0


class BusBox:
    """One system with /store and /events on a data directory."""

    def __init__(self, data_dir: Path, settings: EventSettings) -> None:
        self.data_dir = data_dir
        self.settings = settings

    async def open(self) -> "BusBox":
        self.system = System()
        self.database: Database = await open_database(self.data_dir)
        self.store: Ref = self.system.spawn("/store", lambda: Store(self.database))
        await self.store.started(self.within())
        await self.start_bus()
        return self

    async def start_bus(self) -> None:
        self.bus: Ref = self.system.spawn(
            "/events", lambda: EventBus(store=self.store, settings=self.settings), bound=100_000
        )
        await self.bus.started(self.within())

    async def close(self) -> None:
        await self.system.stop(self.bus, self.within())
        await self.system.stop(self.store, self.within())
        self.database.close()

    async def crash(self) -> None:
        """End the bus as a kill of the process would: nothing that it still holds is stored."""
        self.bus._cell.kill()
        await self.system.stop(self.store, self.within())
        self.database.close()

    def within(self, seconds: float = SECONDS) -> Budget:
        return Budget.of(self.system.clock, seconds)

    def publish(self, kind: str, **data: Any) -> None:
        self.bus.tell(Publish(kind=kind, path="/test", data=data, at=1.0))

    async def subscribe(self, subscriber: Any, from_seq: int | None = None, *kinds: str) -> int:
        return await self.bus.ask(
            Subscribe(subscriber=subscriber, from_seq=from_seq, kinds=kinds), self.within()
        )

    def unsubscribe(self, subscriber: Any) -> None:
        self.bus.tell(Unsubscribe(subscriber=subscriber))

    async def page(self, from_seq: int, *kinds: str, limit: int = 500) -> Any:
        return await self.bus.ask(ReadBack(from_seq=from_seq, kinds=kinds, limit=limit), self.within())

    async def settled(self, seq: int) -> None:
        """Return when the store has everything up to ``seq``: what comes next lets go of nothing unstored."""
        stored = 0
        while stored < seq:
            with contextlib.suppress(StoreUnavailable):
                stored = await self.store.ask(LastEventSeq(), self.within())

    async def hear(self, port: Port, n: int) -> list[int | str]:
        """Return the next ``n`` things that a subscriber hears: a number, or ``gap:`` and the next number."""
        heard: list[int | str] = []
        for _ in range(n):
            message = await port.receive(self.within())
            if isinstance(message, Gap):
                heard.append(f"gap:{message.next_seq}")
            elif isinstance(message, Event):
                heard.append(message.seq)
        return heard


@pytest.fixture
def settings() -> EventSettings:
    return EventSettings(kept=100, flush_s=0.001, batch=10, retry_base_s=0.001, retry_cap_s=0.002)


@pytest.fixture
async def box(tmp_path: Path, settings: EventSettings) -> AsyncIterator[BusBox]:
    made = await BusBox(tmp_path / "data", settings).open()
    yield made
    await made.close()
