"""
PERF-4, PERF-5 and ADM-1: what many sessions cost, beside the same with few of them in the same run.

100,000 dormant sessions in the store: the daemon is ready at most 2 s later than on an empty one and takes at most 20 MiB
more. 10,000 live idle sessions take at most 8 KiB each, and a message costs at most 1.5 × the CPU that it costs beside 10.
``actors.list`` of 1,000 live sessions is answered in under 200 ms.

Run by hand: ``python -m tests.bench.bench_scale [--dormant N] [--live N] [--runs N] [--json]``; a few minutes.
"""

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import psutil

from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.connector import Connector, event

MIB = 1024 * 1024
CONFIG = "[session]\nidle_s = 3600.0\n"
CHATS = 10
FEW = 10
AT_ONCE = 500
"""Sessions that are woken before the next ones are."""

CLONED = ("sessions", "bindings", "history", "inbox", "turns")
OWN = frozenset({"session_id", "session_key", "inbox_id", "turn_id"})
"""Columns that differ from clone to clone."""


async def grown(data_dir: Path, dormant: int) -> None:
    """Make a store of one real session with a few turns, and ``dormant`` clones of it."""
    async with Daemon(data_dir, config=CONFIG) as daemon:
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            for n in range(3):
                await said(wire, "original", f"hello {n}")
        await daemon.stop()
    with closing(sqlite3.connect(data_dir / "turnkeep.db")) as connection:
        for table in CLONED:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]
            values = [f"{name} || '-' || n" if name in OWN else name for name in columns]
            connection.execute(
                f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {dormant})"
                f" INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
                f" FROM (SELECT * FROM {table}), numbers"
            )
        connection.commit()


async def said(wire: AdminWire, chat: str, text: str) -> None:
    """Say something in a console chat and hear the answer."""
    await wire.ask("sessions.send", chat=chat, text=text, watch=True)
    while (await wire.event("turn.state"))["data"]["state"] not in ("idle", "error"):
        pass


@asynccontextmanager
async def running(data_dir: Path) -> AsyncIterator[tuple[Daemon, psutil.Process]]:
    """Run a daemon; it is settled when it is handed out."""
    async with Daemon(data_dir, config=CONFIG) as daemon:
        yield daemon, psutil.Process(daemon.pid)
        await daemon.stop()


async def start(data_dir: Path) -> tuple[float, float]:
    """Return the seconds to ready and the MiB of a daemon that has begun."""
    begun = time.perf_counter()
    async with running(data_dir) as (_, process):
        return time.perf_counter() - begun, process.memory_info().rss / MIB


async def dormant_figures(empty: Path, full: Path, runs: int) -> dict[str, float]:
    """Start on both stores in turn; return the medians."""
    starts: dict[Path, list[tuple[float, float]]] = {empty: [], full: []}
    for _ in range(runs):
        for data_dir, taken in starts.items():
            taken.append(await start(data_dir))
    ready = {path: statistics.median(seconds for seconds, _ in taken) for path, taken in starts.items()}
    memory = {path: statistics.median(mib for _, mib in taken) for path, taken in starts.items()}
    return {
        "ready_empty_s": ready[empty],
        "ready_full_s": ready[full],
        "memory_empty_mib": memory[empty],
        "memory_full_mib": memory[full],
    }


async def list_figures(data_dir: Path) -> dict[str, float]:
    """Return what a list of actors takes, with few sessions and with 1,000."""
    async with running(data_dir) as (daemon, _), AdminWire(daemon.url, daemon.admin_token) as wire:
        woken = Woken(wire)
        await woken.up_to(FEW)
        few = await listed(wire)
        await woken.up_to(1000)
        return {"ps_few_ms": few, "ps_1000_ms": await listed(wire)}


async def live_figures(data_dir: Path, live: int, messages: int) -> dict[str, float]:
    """Return what live sessions take in memory, and what a message costs beside few and beside many of them."""
    async with running(data_dir) as (daemon, process), AdminWire(daemon.url, daemon.admin_token) as wire:
        secret = (await wire.ask("peers.add", name="bench", identities=["discord:bot-1"]))["secret"]
        connector = await Connector(daemon.url, "bench", secret).dial()
        load = Load(connector, process)
        # The first messages pay for what is made once.
        await load.run(messages)
        woken = Woken(wire)
        await woken.up_to(FEW)
        few = await load.run(messages)
        before = process.memory_info().rss
        await woken.up_to(live)
        taken = process.memory_info().rss - before
        many = await load.run(messages)
        info = await wire.ask("system.info")
        assert info["sessions_live"] >= live, info["sessions_live"]
        listing = await listed(wire)
        await connector.close()
    return {
        "live_kib": taken / 1024 / (live - FEW),
        "cpu_few_ms": few,
        "cpu_many_ms": many,
        "ps_many_ms": listing,
    }


class Woken:
    """Dormant sessions that are brought back: a look at a turn that has ended activates its session."""

    def __init__(self, wire: AdminWire) -> None:
        self._wire = wire
        self._offset = 0
        self.count = 0

    async def up_to(self, live: int) -> None:
        """Wake until so many live."""
        while self.count < live:
            limit = min(AT_ONCE, live - self.count)
            page = await self._wire.ask("sessions.list", peer="console", limit=limit, offset=self._offset)
            ids = [row["session_id"] for row in page["sessions"]]
            assert ids, "too few dormant sessions"
            self._offset += len(ids)
            for session_id in ids:
                await self._wire.ask("sessions.watch", session_id=session_id, inbox_id="none")
            self.count += len(ids)
            self._wire.events.clear()


class Load:
    """Messages through a connector's link, a chat at a time with one under way each."""

    def __init__(self, connector: Connector, process: psutil.Process) -> None:
        self._connector = connector
        self._process = process
        self._sent = 0

    async def run(self, messages: int) -> float:
        """Return the daemon's CPU for one message, from the frame that brings it to the result of its answer, in ms."""
        begun = self._cpu()
        for _ in range(messages // CHATS):
            heard = len(self._connector.of("outbound"))
            for chat in range(CHATS):
                self._sent += 1
                name = f"bench-{self._sent}"
                await self._connector.buffered(name, event("hello", name, chat_id=f"C{chat}"))
            await self._connector.frames("outbound", heard + CHATS)
        return (self._cpu() - begun) / messages * 1000

    def _cpu(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


async def listed(wire: AdminWire) -> float:
    """Return the median ms of an ``actors.list``, from the request to the parsed answer."""
    taken = []
    for _ in range(10):
        begun = time.perf_counter()
        await wire.ask("actors.list")
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1000


async def measure(dormant: int, live: int, messages: int, runs: int) -> dict[str, float]:
    """Return all figures."""
    with tempfile.TemporaryDirectory() as directory:
        empty, full = Path(directory) / "empty", Path(directory) / "full"
        await start(empty)
        await grown(full, dormant)
        figures = await dormant_figures(empty, full, runs)
        return {**figures, **await list_figures(full), **await live_figures(full, live, messages)}


def judged(figures: dict[str, float]) -> list[dict[str, Any]]:
    """Set each figure beside its baseline and its goal."""

    def row(name: str, value: float, baseline: float, goal: float, ratio: float) -> dict[str, Any]:
        return {
            "figure": name,
            "value": round(value, 3),
            "baseline": round(baseline, 3),
            "compared": round(ratio, 3),
            "goal": goal,
            "met": ratio <= goal,
        }

    f = figures
    later = f["ready_full_s"] - f["ready_empty_s"]
    more = f["memory_full_mib"] - f["memory_empty_mib"]
    return [
        row("PERF-4 ready, s later than empty", f["ready_full_s"], f["ready_empty_s"], 2.0, later),
        row("PERF-4 memory, MiB more than empty", f["memory_full_mib"], f["memory_empty_mib"], 20.0, more),
        row("PERF-4 live idle session, KiB", f["live_kib"], 0.0, 8.0, f["live_kib"]),
        row(
            "PERF-5 CPU a message, x with few",
            f["cpu_many_ms"],
            f["cpu_few_ms"],
            1.5,
            f["cpu_many_ms"] / f["cpu_few_ms"],
        ),
        row("ADM-1 ps of 1,000 sessions, ms", f["ps_1000_ms"], f["ps_few_ms"], 200.0, f["ps_1000_ms"]),
        row("ps of all live sessions, ms", f["ps_many_ms"], f["ps_few_ms"], float("inf"), f["ps_many_ms"]),
    ]


def main() -> None:
    """Print each figure, its baseline of the same run, how they compare, and the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--dormant", type=int, default=100_000)
    parser.add_argument("--live", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.dormant, options.live, options.messages, options.runs))
    rows = judged(figures)
    if options.json:
        print(json.dumps({"figures": figures, "rows": rows}))
    else:
        for row in rows:
            met = "met" if row["met"] else "MISSED"
            print(
                f"{row['figure']:36} {row['value']:9.2f}  baseline {row['baseline']:9.2f}"
                f"  compared {row['compared']:8.2f}  goal {row['goal']:6g}  {met}"
            )
    sys.exit(0 if all(row["met"] for row in rows) else 1)


if __name__ == "__main__":
    main()
