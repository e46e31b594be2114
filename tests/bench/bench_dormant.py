"""
PERF-4: a daemon with 100,000 dormant sessions in its store is ready at most 2 s later, with at most 20 MiB more, than one
with none.

Run by hand: ``python -m tests.bench.bench_dormant [--sessions N] [--runs N] [--json]``.
"""

import argparse
import asyncio
import contextlib
import json
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from tests.daemon import Daemon

LATER_GOAL_S = 2.0
MORE_GOAL_MIB = 20.0

ROWS = (
    "INSERT INTO sessions (session_id, kind, run_state, title, peer, scope, session_key, turn_gen, created_at, active_at)"
    " VALUES (:id, 'chat', 'active', 'hello', 'p', '', :key, 1, :at, :at)",
    "INSERT INTO bindings (peer, session_key, scope, session_id) VALUES ('p', :key, '', :id)",
    "INSERT INTO inbox (inbox_id, session_id, origin, peer, state, entries, params, detached, tries, turn_id, accepted_at)"
    """ VALUES ('i' || :id, :id, 'relay', 'p', 'turned', '[{"role":"user","content":"hello"}]', '{}', 1, 1, 't' || :id,"""
    " :at)",
    "INSERT INTO turns (turn_id, session_id, inbox_id, turn_gen, state, text, origin, detached, tries, admitted_at, ended_at)"
    " VALUES ('t' || :id, :id, 'i' || :id, 1, 'committed', 'hi', 'relay', 1, 1, :at, :at)",
    "INSERT INTO history (session_id, turn_id, role, content, kind, at)"
    " VALUES (:id, 't' || :id, 'user', 'hello', 'message', :at)",
    "INSERT INTO history (session_id, turn_id, role, content, kind, at)"
    " VALUES (:id, 't' || :id, 'assistant', 'hi', 'message', :at)",
)
"""What a turn leaves of a session."""


def put_to_rest(path: Path, count: int) -> None:
    """Let a database hold so many sessions, none of which has anything to do."""
    values = [
        {"id": f"{n:032x}", "key": f"agent:main:discord:dm:{n}", "at": time.time()} for n in range(count)
    ]
    with contextlib.closing(sqlite3.connect(path)) as raw:
        for statement in ROWS:
            raw.executemany(statement, values)
        raw.commit()


async def start(data_dir: Path, runs: int) -> tuple[float, float]:
    """Return the medians of seconds until it is ready and of its memory then, in MiB."""
    seconds, memory = [], []
    daemon = Daemon(data_dir)
    for _ in range(runs):
        begun = time.perf_counter()
        await daemon.start()
        seconds.append(time.perf_counter() - begun)
        memory.append(psutil.Process(daemon.pid).memory_info().rss / 2**20)
        await daemon.stop()
    return statistics.median(seconds), statistics.median(memory)


async def measure(sessions: int, runs: int) -> dict[str, float]:
    """Start it on an empty database, and on one with that many sessions."""
    with tempfile.TemporaryDirectory() as directory:
        data_dir = Path(directory) / "data"
        await start(data_dir, 1)
        empty_s, empty_mib = await start(data_dir, runs)
        put_to_rest(data_dir / "turnkeep.db", sessions)
        full_s, full_mib = await start(data_dir, runs)
        size = (data_dir / "turnkeep.db").stat().st_size / 1e6
    return {
        "empty_s": empty_s,
        "full_s": full_s,
        "empty_mib": empty_mib,
        "full_mib": full_mib,
        "file_mb": size,
    }


def main() -> None:
    """Print the figures and how far they are apart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.sessions, options.runs))
    if options.json:
        print(json.dumps(figures))
        return
    later, more = figures["full_s"] - figures["empty_s"], figures["full_mib"] - figures["empty_mib"]
    print(
        f"{options.sessions} dormant sessions, {figures['file_mb']:.0f} MB\n"
        f"ready in {figures['full_s']:.2f} s, empty {figures['empty_s']:.2f} s: {later:+.2f} s (goal {LATER_GOAL_S} s)\n"
        f"memory {figures['full_mib']:.1f} MiB, empty {figures['empty_mib']:.1f} MiB: {more:+.1f} MiB"
        f" (goal {MORE_GOAL_MIB:.0f} MiB)"
    )


if __name__ == "__main__":
    main()
