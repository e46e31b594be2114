"""
What an online backup costs writers: the waits of a lone one, and of 64, during a backup beside those without it.

Run by hand: ``python -m tests.bench.bench_backup [--megabytes N] [--directory DIR] [--json]``.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from actors.messages.rows import Entry, Origin
from actors.messages.store import AcceptMessage, BackUp
from actors.runtime import Budget, Ref, System
from storage import Store, open_database

TEXT = "x" * 100_000
WRITERS = 64


class Writers:
    """Accept small messages, each with one in flight."""

    def __init__(self, system: System, store: Ref) -> None:
        self._system = system
        self._store = store
        self._n = 0

    async def accept(self, text: str = "hello") -> None:
        self._n += 1
        request = AcceptMessage(
            at=1.0,
            inbox_id=f"i{self._n}",
            origin=Origin.CONSOLE,
            peer="bench",
            scope=None,
            session_key=f"k{self._n}",
            new_session_id=f"s{self._n}",
            entries=(Entry(role="user", content=text),),
        )
        await self._store.ask(request, Budget.of(self._system.clock, 60))

    async def waits(self, writers: int, until: "asyncio.Future[object]") -> list[float]:
        """Return the waits in milliseconds, until the future is done."""
        taken: list[float] = []

        async def one() -> None:
            while not until.done():
                begun = time.perf_counter()
                await self.accept()
                taken.append((time.perf_counter() - begun) * 1e3)

        await asyncio.gather(*(one() for _ in range(writers)))
        return taken


def spread(prefix: str, waits: list[float]) -> dict[str, float]:
    """Return median, p99 and the longest."""
    ordered = sorted(waits)
    return {
        f"{prefix}_p50_ms": statistics.median(ordered),
        f"{prefix}_p99_ms": ordered[int(len(ordered) * 0.99)],
        f"{prefix}_max_ms": ordered[-1],
    }


async def measure(directory: Path, megabytes: int) -> dict[str, float]:
    """Fill a database, then let writers write without and with a backup under way."""
    system = System()
    database = await open_database(directory / "data")
    store = system.spawn("/store", lambda: Store(database), bound=100_000)
    await store.started(Budget.of(system.clock, 10))
    writers = Writers(system, store)
    for _ in range(megabytes // 10):
        await asyncio.gather(*(writers.accept(TEXT) for _ in range(100)))
    figures: dict[str, float] = {}
    for count in (1, WRITERS):
        alone = asyncio.ensure_future(asyncio.sleep(3))
        figures |= spread(f"{count}_alone", await writers.waits(count, alone))
        begun = time.perf_counter()
        budget = Budget.of(system.clock, 3600)
        backup = asyncio.ensure_future(_back_up(store, directory / f"copy-{count}.db", budget))
        figures |= spread(f"{count}_during", await writers.waits(count, backup))
        figures[f"{count}_backup_s"] = time.perf_counter() - begun
        figures["megabytes"] = (await backup) / 1e6
    await system.stop(store, Budget.of(system.clock, 10))
    database.close()
    return figures


async def _back_up(store: Ref, path: Path, budget: Budget) -> int:
    return (await store.ask(BackUp(path=str(path)), budget)).bytes


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        figures = asyncio.run(measure(Path(directory), options.megabytes))
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:18} {value:9.2f}")


if __name__ == "__main__":
    main()
