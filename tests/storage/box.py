"""A store actor on a real file, with short forms for what tests ask it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from actors.messages.rows import Entry, Origin, Route
from actors.messages.store import AcceptMessage, EndTurn, PostToChat, TakeTurn
from actors.runtime import Budget, Ref, System
from actors.runtime.clock import Clock
from storage import Database, Store, open_database

Opener = Callable[[Path], Awaitable[Database]]
"""What the contract tests need of a database: another one has another opener, and the same tests."""


class StoreBox:
    """One data directory and the store that owns it."""

    def __init__(self, data_dir: Path, opener: Opener = open_database, clock: Clock | None = None) -> None:
        self.data_dir = data_dir
        self.now = 1000.0
        self._opener = opener
        self._clock = clock
        self._n = 0

    async def open(self) -> "StoreBox":
        self.system = System(clock=self._clock)
        self.database = await self._opener(self.data_dir)
        self.ref: Ref = self.system.spawn("/store", lambda: Store(self.database), bound=100_000)
        await self.ref.started(self.within(10))
        return self

    async def close(self) -> None:
        await self.system.stop(self.ref, self.within(10))
        self.database.close()

    async def reopen(self) -> "StoreBox":
        await self.close()
        return await self.open()

    def within(self, seconds: float) -> Budget:
        return Budget.of(self.system.clock, seconds)

    def send(self, request: Any, seconds: float = 10) -> Any:
        """Ask without waiting."""
        return self.ref.ask(request, self.within(seconds))

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

    def post(self, text: str) -> Any:
        """Say something in the chat that ``accept`` takes messages from, which no message of it asked for."""
        chat = {
            name: getattr(self.message(), name) for name in ("peer", "scope", "session_key", "new_session_id")
        }
        return self.ask(PostToChat(**chat, post_id=self.id("o"), author="bot", content=text, at=self.now))

    def take(self, session_id: str) -> Any:
        return self.ask(TakeTurn(session_id=session_id, turn_id=self.id("t"), at=self.now))

    def end(self, taken: Any, state: Any, **fields: Any) -> Any:
        return self.ask(
            EndTurn(turn_id=taken.turn_id, turn_gen=taken.turn_gen, state=state, at=self.now, **fields)
        )

    async def raw(self, work: Callable[[Any], Any]) -> Any:
        """Run something on the store's own connection, on its thread."""
        connection = self.ref._cell.behaviour._connection
        return await connection.run(work)
