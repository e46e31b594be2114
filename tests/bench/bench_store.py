"""
PERF-7: the store's shared commits against one-by-one commits, on the same file system and in the same run.

64 writers share commits: at least 10 × the writes per second of the same path when each write is committed alone. Beside
it stands the ratio to bare aiosqlite, which pays for no messages, answers and deadlines. A lone writer waits at most
1.3 × as long as for a bare insert and commit. The sides take turns in short rounds, so that a busy machine disturbs all;
the median of the rounds' ratios counts.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiosqlite
import uvloop

from actors.messages.events import Event
from actors.messages.rows import Entry, Origin, Route
from actors.messages.store import AcceptMessage, AppendEvents, StoreInfo
from actors.runtime import Budget, Ref, System
from storage import Store, open_database

WRITERS = 64
SHARED_GOAL = 10.0
LONE_GOAL = 1.3

Write = Callable[[int], Awaitable[object]]


class Bare:
    """One table in a file of its own, with the store's durability and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __aenter__(self) -> "Bare":
        self._connection = await aiosqlite.connect(self._path)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            await self._connection.execute(f"PRAGMA {pragma}")
        await self._connection.execute(
            "CREATE TABLE events (seq INTEGER PRIMARY KEY, kind TEXT, path TEXT, at REAL, data BLOB)"
        )
        await self._connection.commit()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def write(self, n: int) -> None:
        await self._connection.execute(
            "INSERT INTO events (seq, kind, path, at, data) VALUES (?, ?, ?, ?, ?)",
            (n, "bench", "/bench", 1.0, "{}"),
        )
        await self._connection.commit()


class Asker:
    """Asks the store for the same row, and for a whole acceptance."""

    def __init__(self, system: System, store: Ref) -> None:
        self._system = system
        self._store = store

    async def write(self, n: int) -> None:
        event = Event(seq=n, kind="bench", path="/bench", at=1.0, data={})
        await self._store.ask(AppendEvents(events=(event,), at=1.0), Budget.of(self._system.clock, 10))

    async def accept(self, n: int) -> None:
        request = AcceptMessage(
            inbox_id=f"i{n}",
            origin=Origin.RELAY,
            peer="bench",
            scope="G1",
            session_key=f"agent:main:discord:group:C{n}",
            new_session_id=f"s{n}",
            entries=(Entry(role="user", content="hello"),),
            route=Route(platform="discord", chat_id=f"C{n}", scope_id="G1"),
            message_id=f"m{n}",
            buffer_id=f"b{n}",
            body_hash="0",
            at=1.0,
        )
        await self._store.ask(request, Budget.of(self._system.clock, 10))

    async def commits(self) -> int:
        info = await self._store.ask(StoreInfo(), Budget.of(self._system.clock, 10))
        return int(info["commits"])


class Numbers:
    """Fresh row numbers."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self) -> int:
        self._next += 1
        return self._next


async def rate(write: Write, number: Numbers, writers: int, seconds: float) -> float:
    """Return writes per second of ``writers``, each with one in flight."""
    started = time.perf_counter()
    ends = started + seconds

    async def writer() -> int:
        done = 0
        while time.perf_counter() < ends:
            await write(number())
            done += 1
        return done

    counts = await asyncio.gather(*(writer() for _ in range(writers)))
    return sum(counts) / (time.perf_counter() - started)


async def waits(bare: Write, shared: Write, number: Numbers, times: int) -> tuple[float, float]:
    """Return the medians of a lone writer's waits on either side, in microseconds."""
    sides: dict[Write, list[float]] = {bare: [], shared: []}
    for _ in range(times):
        for write, taken in sides.items():
            started = time.perf_counter()
            await write(number())
            taken.append(time.perf_counter() - started)
    return statistics.median(sides[bare]) * 1e6, statistics.median(sides[shared]) * 1e6


async def measure(directory: Path, rounds: int, seconds: float, times: int) -> dict[str, float]:
    """Let both sides write in turns; return the medians of the figures and of their ratios."""
    system = System()
    database = await open_database(directory / "data")
    store = system.spawn("/store", lambda: Store(database), bound=100_000)
    await store.started(Budget.of(system.clock, 10))
    asker, number = Asker(system, store), Numbers()
    figures: dict[str, list[float]] = defaultdict(list)
    async with Bare(directory / "bare.db") as bare:
        for _ in range(rounds):
            commits = await rate(bare.write, number, 1, seconds)
            alone = await rate(asker.write, number, 1, seconds)
            before, first = await asker.commits(), number()
            writes = await rate(asker.write, number, WRITERS, seconds)
            figures["bare_commits_per_s"].append(commits)
            figures["store_writes_per_s"].append(writes)
            figures["writes_per_commit"].append((number() - first) / (await asker.commits() - before))
            figures["store_one_by_one_per_s"].append(alone)
            figures["shared_ratio"].append(writes / alone)
            figures["bare_ratio"].append(writes / commits)
            figures["store_accepts_per_s"].append(await rate(asker.accept, number, WRITERS, seconds))
            bare_wait, store_wait = await waits(bare.write, asker.write, number, times)
            figures["bare_wait_us"].append(bare_wait)
            figures["store_wait_us"].append(store_wait)
            figures["lone_ratio"].append(store_wait / bare_wait)
    await system.stop(store, Budget.of(system.clock, 10))
    database.close()
    return {name: statistics.median(values) for name, values in figures.items()}


def main() -> None:
    """Print the figures; with --json as one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument(
        "--directory", type=Path, help="the file system to measure (default: a temporary directory)"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each measurement of throughput")
    parser.add_argument("--times", type=int, default=300, help="writes of each measurement of latency")
    parser.add_argument("--uvloop", action="store_true", help="on the daemon's loop instead of asyncio's own")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    loop = uvloop.new_event_loop if options.uvloop else None
    with (
        tempfile.TemporaryDirectory(dir=options.directory) as directory,
        asyncio.Runner(loop_factory=loop) as runner,
    ):
        figures = runner.run(measure(Path(directory), options.rounds, options.seconds, options.times))
    if options.json:
        print(json.dumps(figures))
        return
    print(
        f"one by one, bare aiosqlite   {figures['bare_commits_per_s']:9.0f} commits/s\n"
        f"one by one, by the store     {figures['store_one_by_one_per_s']:9.0f} commits/s\n"
        f"{WRITERS} writers through the store {figures['store_writes_per_s']:9.0f} writes/s, "
        f"{figures['writes_per_commit']:.0f} a commit: {figures['shared_ratio']:.1f} × (goal {SHARED_GOAL:.0f} ×), "
        f"{figures['bare_ratio']:.1f} × bare\n"
        f"  the same, whole acceptances {figures['store_accepts_per_s']:8.0f} messages/s\n"
        f"a lone writer waits          {figures['store_wait_us']:9.0f} µs, bare {figures['bare_wait_us']:.0f} µs: "
        f"{figures['lone_ratio']:.2f} × (goal {LONE_GOAL} ×)"
    )


if __name__ == "__main__":
    main()
