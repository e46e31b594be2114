"""The real composition in this process: real sockets, a real database, failpoints that a test can set."""

import asyncio
from pathlib import Path
from typing import Any

from actors.messages.front import FrontInfo
from actors.messages.lane import ReloadLanes
from actors.runtime import Budget, Ref, System
from actors.runtime.clock import Clock
from bin.compose import compose
from bin.config import Config, load
from bin.first_run import ensure_credentials
from storage import open_database

SECONDS = 20.0


class Harness:
    """
    One tree on a data directory, on any free port.

    ``settings`` are dotted keys as in the configuration file, for example ``{"session.idle_s": 0.1}``.
    """

    def __init__(self, data_dir: Path, *, clock: Clock | None = None, **settings: Any) -> None:
        self.data_dir = data_dir
        self._clock = clock
        self._arguments = {"data_dir": str(data_dir), "server.port": 0, **settings}
        self.config: Config = load(environment={}, arguments=self._arguments).config

    async def start(self) -> "Harness":
        """Start it and wait until it serves."""
        self.system = System(clock=self._clock)
        self.calls = self.system.port("/daemon")
        self.database = await open_database(self.data_dir, self.config.store)
        self.root = compose(self.system, self.config, self.database, self.calls, lambda: self.config)
        try:
            await self.root.started(self.within())
            await ensure_credentials(self.system, self.store, self.data_dir)
            self.url: str = (await self.at("/front").ask(FrontInfo(), self.within())).url
        except BaseException:
            await self.stop()
            raise
        return self

    async def stop(self) -> None:
        """Stop the tree in order."""
        await self.system.stop(self.root, self.within())
        # A store that a test has killed leaves its connection behind.
        await self.database.disconnect()
        self.database.close()

    async def crash(self) -> None:
        """End the tree at once, as a kill of the process would, but for what SQLite's thread has begun."""
        self.root._cell.kill()
        await self.database.disconnect()
        self.database.close()

    async def __aenter__(self) -> "Harness":
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def reload(self, *lanes: dict[str, Any]) -> tuple[str, ...]:
        """Have these lanes configured and read again; return the names of those that it changed."""
        self.config = load(environment={}, arguments={**self._arguments, "lane": list(lanes)}).config
        changed: tuple[str, ...] = await self.ask("/lanes", ReloadLanes(by="test"))
        return changed

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

    @property
    def store(self) -> Ref:
        return self.at("/store")

    @property
    def sessions(self) -> Ref:
        return self.at("/sessions")

    @property
    def relays(self) -> Ref:
        return self.at("/relays")

    @property
    def ws_url(self) -> str:
        return self.url.replace("http://", "ws://")

    @property
    def admin_token(self) -> str:
        return (self.data_dir / "admin.token").read_text().strip()

    @property
    def api_key(self) -> str:
        return (self.data_dir / "api.key").read_text().strip()

    @property
    def api_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"}


async def until(condition: Any, seconds: float = SECONDS) -> Any:
    """
    Let the loop run until ``condition()`` (awaited if it is a coroutine) is true, and return what it returned.

    For states of other processes and sockets, which no probe can announce; everything else has better ways to wait.
    """
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.002)
