"""
One run: messages in, faults, restarts, and in the end a calm in which everything has to come to its end.

The daemon is the real composition on a real SQLite file; the relay's WebSocket, the API's HTTP and the backend's HTTP
are the real protocols over connections in memory (tests.simulation.network says why). One seed decides the load, the
faults, the moods of the far ends, the order of tasks, and how long each piece of work and each packet takes.
"""

import asyncio
import contextlib
import gc
import hashlib
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog

from actors.exceptions import RuntimeFault, TurnkeepError
from actors.runtime.reply import Reply
from bin.config import Config, load
from tests.simulation import books
from tests.simulation.daemon import Daemon, read
from tests.simulation.far_ends import Client, Model, Platform, texts
from tests.simulation.faults import draw
from tests.simulation.first_run import PEER, PORT, first_run, own_address
from tests.simulation.loop import outside
from tests.simulation.simulation import Simulation

BACKEND = ("127.0.0.1", 11_434)

CALM_SECONDS = 1800.0
"""How long everything may take to come to its end once nothing fails any more."""

LIVE_RETRY_SECONDS = 20.0
"""A message that nobody sends again may still be on its way into the store for so long."""


class World:
    """What a run consists of. ``violations`` are the sentences that were found untrue."""

    def __init__(self, seed: int, directory: Path, secret: str) -> None:
        self.seed = seed
        self.simulation = Simulation(seed)
        self.random = self.simulation.rng("world")
        self.network = self.simulation.network
        self.directory = directory
        self.data = directory / "data"
        self.events: list[tuple[Any, ...]] = []
        self.logged: list[tuple[float, str, str, dict[str, Any]]] = []
        self.violations: list[str] = []
        self.exit_codes: list[int] = []
        self.digest = ""
        self.chats = [f"r{n}" for n in range(self.random.randint(1, 4))]
        self.settings: dict[str, Any] = {
            "data_dir": str(self.data),
            "server.host": own_address(),
            "server.port": PORT,
            "supervision.sweep_s": 1.0,
            "session.idle_s": self.random.choice([0.2, 5.0, 60.0]),
            "session.on_restart": self.random.choice(["report", "retry"]),
            "turn.budget_s": self.random.choice([30.0, 120.0]),
            "relay.edit_delay_s": self.random.choice([0.0, 0.5]),
            "relay.edit_interval_s": self.random.choice([0.1, 1.0]),
            "relay.live_retry_s": LIVE_RETRY_SECONDS,
            "server.keepalive_s": self.random.choice([1.0, 15.0]),
        }
        self.config: Config
        self.configure_lanes()
        self.place = (self.config.server.host, PORT)
        self.backend_place = BACKEND
        url = f"http://{self.place[0]}:{PORT}"
        self.platform = Platform(url, PEER, secret, self.simulation.rng("platform"), self.trace)
        key = (self.data / "api.key").read_text().strip()
        self.client = Client(url, key, self.simulation.rng("client"), self.trace)
        self.backend = Model(BACKEND[1], self.simulation.rng("backend"), self.trace)
        self.daemon: Daemon
        self._boots = 0
        self._changing = asyncio.Lock()
        self._dying: asyncio.Task[None] | None = None
        self._asked: list[asyncio.Task[None]] = []

    def _lane(self, name: str, **settings: Any) -> dict[str, Any]:
        window = self.random.choice([None, None, 20])
        return {
            "name": name,
            "base_url": f"http://{BACKEND[0]}:{BACKEND[1]}/{name}/v1",
            "model": f"{name}-1",
            "idle_timeout_s": 20.0,
            # aiohttp reads the real clock to tell how old a connection is.
            "keepalive_s": 3600.0,
            "think_tags": self.random.choice(["off", "leading", "anywhere"]),
            "hold_back": self.random.random() < 0.2,
            **({"context_window": window} if window is not None else {}),
            **settings,
        }

    def configure_lanes(self) -> list[str]:
        """Draw other lanes; return their names. A daemon that runs has to be told."""
        lanes = [self._lane("fake"), self._lane("spare", order=1)][: self.random.randint(1, 2)]
        self.settings["lane"] = lanes
        self.config = load(environment={}, arguments=self.settings).config
        return [lane["name"] for lane in lanes]

    # What happens

    def run(self) -> None:
        """Run to the end and read the books."""
        self.simulation.loop.set_exception_handler(self._unhandled)
        with _logging_to(self), _replies(self), _collected():
            self.simulation.run(self._main)

    def trace(self, *what: Any) -> None:
        """Note what was seen to happen."""
        self.events.append((round(self.simulation.loop.time() - 1000.0, 6), *what))

    def violated(self, sentence: str) -> None:
        """Note what is not as it has to be."""
        self.violations.append(sentence)

    async def _main(self) -> None:
        async with self.backend:
            await self.start_daemon()
            staying = asyncio.ensure_future(self.platform.stay())
            seconds = self.random.uniform(3.0, 30.0)
            load = [asyncio.ensure_future(self._chat(chat, seconds)) for chat in self.chats]
            load += [asyncio.ensure_future(self._api(n, seconds)) for n in range(self.random.randint(0, 3))]
            faults = [
                asyncio.ensure_future(self._fault(moment, fault))
                for moment, fault in draw(self.random, self.random.randint(1, 8), seconds)
            ]
            await asyncio.gather(*load, *faults)
            await self._calm_down()
            settled = await self._settle()
            self.trace("settled", settled)
            await self._let_asks_end()
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)
            await self.stop_daemon()
            self.platform.cut()
            await asyncio.sleep(1)
            books.check(self)
            self.digest = self._digest()

    async def _chat(self, chat: str, seconds: float) -> None:
        source = texts(chat)
        for _ in range(self.random.randint(1, 6)):
            await asyncio.sleep(self.random.random() * seconds / 4)
            await self.platform.say(chat, next(source), buffered=self.random.random() < 0.85)

    async def _api(self, n: int, seconds: float) -> None:
        source = texts(f"a{n}")
        for _ in range(self.random.randint(1, 3)):
            await asyncio.sleep(self.random.random() * seconds / 3)
            await self.client.say(f"a{n}", next(source))

    async def _fault(self, moment: float, fault: Any) -> None:
        await asyncio.sleep(moment)
        async with self._changing:
            # None while a daemon is being started or stopped, except for those that do it.
            pass
        if self.daemon.alive:
            await fault(self)

    # The daemon

    async def start_daemon(self) -> None:
        """Start it, however often that takes."""
        async with self._changing:
            while not (self._boots and self.daemon.alive):
                self._boots += 1
                self.daemon = Daemon(
                    f"daemon-{self._boots}",
                    self.config,
                    clock=self.simulation.clock,
                    rng=self.simulation.rng(f"daemon-{self._boots}"),
                    network=self.network,
                    threads=self.simulation.threads,
                )
                try:
                    await self.daemon.start()
                    self.trace("started")
                except TurnkeepError as error:
                    self.trace("not started", str(error))
                    await self.daemon.kill()
                    await asyncio.sleep(1)

    async def stop_daemon(self) -> None:
        """Stop it in order, if it runs; what is left of it then is a violation."""
        async with self._changing:
            if not self.daemon.alive:
                return
            daemon = self.daemon
            self.daemon.failpoints.clear("store.connect")
            code = await daemon.stop()
            self.trace("stopped", code)
            self.exit_codes.append(code)
            if daemon.left and code == 0:
                self.violated(f"after an ordered stop there is left: {daemon.left}")

    async def kill_daemon(self) -> None:
        """End it with SIGKILL, if it runs."""
        async with self._changing:
            if self.daemon.alive:
                self.trace("killed")
                await self.daemon.kill()

    def die(self) -> Any:
        """End the daemon in the middle of whatever calls this, and start it again in a moment."""
        self._dying = self.simulation.loop.create_task(self._die(), context=outside())
        # The process is at its end: nothing that comes after this line ever happens.
        raise asyncio.CancelledError

    async def _die(self) -> None:
        await self.kill_daemon()
        await asyncio.sleep(self.random.uniform(0.0, 1.0))
        await self.start_daemon()

    def expect(self, reply: Any) -> None:
        """Let somebody wait for an answer, whatever it is."""
        if reply is not None:
            self._asked.append(self.daemon.inside(_hear(reply)))

    # The end

    async def _calm_down(self) -> None:
        self.platform.calm = self.backend.calm = True
        for _ in range(2):
            # A kill at a point may still be on its way.
            if self._dying is not None:
                await self._dying
            await self.start_daemon()
            for name in list(self.daemon.failpoints._actions):
                self.daemon.failpoints.clear(name)
        self.network.restore(self.place)
        self.network.refusing.clear()
        if self._quarantined():
            # An operator restarts what has given a part of itself up.
            self.trace("quarantined")
            await self.stop_daemon()
            await self.start_daemon()

    def _quarantined(self) -> bool:
        return any(event == "actor.quarantined" for _, _, event, _ in self.logged)

    async def _settle(self) -> bool:
        """Wait until nothing is under way any more, and nothing has come since."""
        now = self.simulation.loop.time
        end, quiet_since = now() + CALM_SECONDS, now()
        while now() < quiet_since + LIVE_RETRY_SECONDS + 5:
            if under_way := books.under_way(self):
                quiet_since = now()
                if quiet_since > end:
                    self.violated(f"does not come to its end: {under_way}")
                    return False
            await asyncio.sleep(2)
        return True

    async def _let_asks_end(self) -> None:
        await asyncio.gather(*self._asked, return_exceptions=True)

    # Observation

    def read(self, sql: str) -> list[sqlite3.Row]:
        """Read the database from outside."""
        return read(self.data, sql)

    def _digest(self) -> str:
        """Return what tells this run from any other: all that was seen, all that was stored, every step, every moment."""
        tables = ("inbox", "seen", "turns", "history", "deliveries", "sessions", "bindings", "events")
        rows = [tuple(row) for table in tables for row in self.read(f"SELECT * FROM {table} ORDER BY 1, 2")]
        loop = self.simulation.loop
        text = repr((self.events, rows, loop.steps, loop.time())).replace(str(self.directory), "")
        return hashlib.sha256(text.encode()).hexdigest()

    def log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Take a line that the daemon has logged."""
        self.logged.append((self.simulation.loop.time() - 1000.0, level, event, fields))

    def _unhandled(self, loop: Any, context: dict[str, Any]) -> None:
        fields = {key: repr(value) for key, value in context.items() if key != "message"}
        self.log("error", f"loop: {context['message']}", fields)


async def _hear(reply: Any) -> None:
    with contextlib.suppress(TurnkeepError, RuntimeFault):
        await reply


@contextlib.contextmanager
def _collected() -> Iterator[None]:
    """Let nothing be collected in a run: finalizers would run whenever the memory of the process wants it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _logging_to(world: World) -> Iterator[None]:
    """Let what is logged be kept instead of printed."""

    def keep(_: Any, level: str, fields: Any) -> Any:
        world.log(level, fields.pop("event"), fields)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextlib.contextmanager
def _replies(world: World) -> Iterator[None]:
    """Remember every answer that is waited for, by its system, so that none is forgotten."""
    world.replies = []
    make = Reply.__init__

    def noting(self: Any, cell: Any, message: Any, budget: Any) -> None:
        make(self, cell, message, budget)
        world.replies.append(self)

    Reply.__init__ = noting
    try:
        yield
    finally:
        Reply.__init__ = make


def simulate(seed: int) -> World:
    """Run one seed on a directory of its own, which is gone afterwards."""
    with first_run() as (directory, secret):
        world = World(seed, directory, secret)
        world.run()
        return world
