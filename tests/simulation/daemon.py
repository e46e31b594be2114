"""turnkeepd as a process of the simulation: the real composition, started, stopped in order, and killed as by kill -9."""

import asyncio
import contextvars
import shutil
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from actors.runtime import Budget, Failpoints, Ref, System
from bin import daemon as real
from bin.compose import compose
from bin.config import Config
from bin.first_run import ensure_credentials
from storage import Database, open_database
from tests.simulation.loop import Process, VirtualClock, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.threads import Threads

START_SECONDS = 60.0


class Daemon:
    """One run on a data directory. Whatever it does belongs to its process."""

    def __init__(
        self,
        name: str,
        config: Config,
        *,
        clock: VirtualClock,
        rng: Any,
        network: Network,
        threads: Threads,
    ) -> None:
        self.config = config
        self.process = Process(name)
        self.failpoints = Failpoints()
        self.system: System
        self.root: Ref
        self.exit_code: int | None = None
        # What had outlived an ordered stop.
        self.left: list[str] = []
        self.alive = False
        self._clock = clock
        self._rng = rng
        self._network = network
        self._threads = threads
        self._database: Database | None = None

    @property
    def loop(self) -> VirtualLoop:
        return self._network.loop

    @property
    def within(self) -> Budget:
        return Budget.of(self._clock, START_SECONDS)

    def inside(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something as part of the process."""
        return self.loop.create_task(work, context=contextvars.Context())

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call something as part of the process."""
        return contextvars.Context().run(function, *args, **kwargs)

    def ask(self, path: str, message: Any) -> Any:
        """Ask an actor, as part of the process; None if there is none at the path."""
        ref = self.system.find(path)
        return self.call(ref.ask, message, self.within) if ref is not None else None

    async def start(self) -> None:
        """Start, as bin.daemon does, and return when it serves. Only one at a time is alive."""
        assert self.loop.process is None
        self.loop.process = self.process
        await self.inside(self._start())

    async def _start(self) -> None:
        self.alive = True
        self._database = await open_database(self.config.data_path, self.config.store)
        self.system = System(self._clock, self._rng, self.failpoints)
        self.calls = self.system.port("/daemon")
        self.root = compose(self.system, self.config, self._database, self.calls, lambda: self.config)
        await self.root.started(self.within)
        store = self.system.find("/store")
        assert store is not None
        await ensure_credentials(self.system, store, self.config.data_path)

    async def stop(self) -> int:
        """Drain and stop in order; return the exit code."""
        self.exit_code = await self.inside(self._stop())
        self.alive = False
        await asyncio.sleep(0)
        self.left = self._left_behind()
        if self.left:
            await self._dispose()
        self.loop.process = None
        return self.exit_code

    async def _stop(self) -> int:
        assert self._database is not None
        code = await real._stop(self.system, self.root, self.config)
        await real._close(self._database)
        return code

    async def kill(self) -> None:
        """
        End it as SIGKILL does: from this moment nothing of it reaches the disk or the network any more.

        What it leaves is what its files hold now; the log of the database is left to the next start. Then its tasks
        are disposed of: Python has no other way to be rid of them, and nobody can see what they still do.
        """
        self.alive = False
        self._network.kill(self.process)
        data = self.config.data_path
        left = data.with_name(f"{data.name}.left")
        shutil.copytree(data, left, ignore=shutil.ignore_patterns("*-shm"))
        self._threads.kill(self.process)
        for timer in list(self.loop.timers()):
            timer.cancel()
        if hasattr(self, "root"):
            self.call(self.root._cell.kill)
        await self._dispose()
        if self._database is not None:
            connection = self._database._connection
            self._database.close()
            if connection is not None:
                connection._thread.join()
        shutil.rmtree(data)
        left.rename(data)
        self.loop.process = None

    async def _dispose(self) -> None:
        while tasks := self.process.tasks:
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
        for timer in list(self.loop.timers()):
            timer.cancel()

    def _left_behind(self) -> list[str]:
        """Return what has outlived an ordered stop: tasks, timers, answers that nobody got."""
        tasks = [f"task {task.get_name()}" for task in self.process.tasks]
        timers = [
            f"timer {timer!r}"
            for timer in self.loop.timers()
            # Shared by many asks, and not cancelled when the last of them is answered.
            if getattr(timer._callback, "__func__", None) is not type(self.system.deadlines)._expire
        ]
        waiting = [repr(reply) for grain in self.system.deadlines._grains.values() for reply in grain]
        actors = [f"actor {info.path} {info.state}" for info in self.system.actors()]
        return [*tasks, *timers, *waiting, *actors, *(path for path, _ in self.system.custody.lost())]


def read(data: Path, sql: str) -> list[sqlite3.Row]:
    """Read the database from outside."""
    connection = sqlite3.connect(data / "turnkeep.db")
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
