"""
PERF-6: from exec to ready on an existing data directory, and ``turnkeepctl --help``; beside a bare interpreter.

Run by hand: ``python -m tests.bench.bench_start [--runs N] [--json]``.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.daemon import Daemon

READY_GOAL_S = 1.2
HELP_GOAL_S = 0.15


def command(*arguments: str) -> float:
    """Run a command to its end; return its seconds."""
    begun = time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


async def ready(data_dir: Path) -> float:
    """Start the daemon; return the seconds until it is ready."""
    daemon = Daemon(data_dir)
    begun = time.perf_counter()
    await daemon.start()
    seconds = time.perf_counter() - begun
    await daemon.stop()
    return seconds


async def measure(runs: int) -> dict[str, float]:
    """Return medians in seconds."""
    ctl = str(Path(sys.executable).with_name("turnkeepctl"))
    with tempfile.TemporaryDirectory() as directory:
        data_dir = Path(directory) / "data"
        await ready(data_dir)
        starts = [await ready(data_dir) for _ in range(runs)]
    helps = [command(ctl, "--help") for _ in range(runs)]
    bare = [command(sys.executable, "-c", "pass") for _ in range(runs)]
    return {
        "ready_s": statistics.median(starts),
        "help_s": statistics.median(helps),
        "bare_interpreter_s": statistics.median(bare),
    }


def main() -> None:
    """Print the figures and their ratios to a bare interpreter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.runs))
    if options.json:
        print(json.dumps(figures))
        return
    bare = figures["bare_interpreter_s"]
    for name, goal in (("ready_s", READY_GOAL_S), ("help_s", HELP_GOAL_S)):
        seconds = figures[name]
        print(
            f"{name:10} {seconds * 1000:7.0f} ms  (goal {goal * 1000:.0f} ms, {seconds / bare:.1f} x a bare interpreter)"
        )
    print(f"{'bare':10} {bare * 1000:7.0f} ms")


if __name__ == "__main__":
    main()
