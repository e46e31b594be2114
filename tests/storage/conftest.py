"""A real store on a real file."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from actors.messages.rows import Entry, Origin, Route
from actors.messages.store import AcceptMessage, EndTurn, TakeTurn
from actors.runtime import Budget, Ref, System
from storage import Store, open_database


class StoreBox:
    """A store actor with short forms for what tests ask it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.now = 1000.0
        self._n = 0

    async def open(self) -> "StoreBox":
        self.system = System()
        self.database = await open_database(self.data_dir)
        self.ref: Ref = self.system.spawn("/store", lambda: Store(self.database), bound=100_000)
        await self.ref.started(Budget.of(self.system.clock, 10))
        return self

    async def close(self) -> None:
        await self.system.stop(self.ref, Budget.of(self.system.clock, 10))
        self.database.close()

    def send(self, request: Any, seconds: float = 10) -> Any:
        return self.ref.ask(request, Budget.of(self.system.clock, seconds))

    async def ask(self, request: Any, seconds: float = 10) -> Any:
        return await self.send(request, seconds)

    def id(self, prefix: str = "x") -> str:
        self._n += 1
        return f"{prefix}{self._n}"

    def message(self, text: str = "hi", **changes: Any) -> AcceptMessage:
        fields: dict[str, Any] = {
            "inbox_id": self.id("i"),
            "origin": Origin.RELAY,
            "peer": "p",
            "scope": None,
            "session_key": "agent:main:discord:group:C1",
            "new_session_id": self.id("s"),
            "entries": (Entry(role="user", content=text),),
            "route": Route(platform="discord", chat_id="C1"),
            "at": self.now,
        }
        return AcceptMessage(**{**fields, **changes})

    def accept(self, text: str = "hi", **changes: Any) -> Any:
        return self.ask(self.message(text, **changes))

    def take(self, session_id: str) -> Any:
        return self.ask(TakeTurn(session_id=session_id, turn_id=self.id("t"), at=self.now))

    def end(self, taken: Any, state: Any, **fields: Any) -> Any:
        return self.ask(
            EndTurn(turn_id=taken.turn_id, turn_gen=taken.turn_gen, state=state, at=self.now, **fields)
        )


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StoreBox]:
    box = await StoreBox(tmp_path / "data").open()
    yield box
    await box.close()


@pytest.fixture
def reopened(store: StoreBox) -> Callable[[], Any]:
    async def reopen() -> StoreBox:
        await store.close()
        return await store.open()

    return reopen
