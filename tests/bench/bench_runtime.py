"""
PERF-1: the runtime as it ships beside one asyncio task per actor with a queue, and beside pykka's ThreadingActor.

Run by hand: ``python -m tests.bench.bench_runtime [--json]``. Everything is measured in one process, in turns, on the
loop that the daemon runs on.
"""

import argparse
import asyncio
import gc
import json
import statistics
import time
from typing import Any

import psutil
import pykka

from actors.messages.base import Message, Request
from actors.runtime import Actor, Budget, System
from bin.daemon import loop_factory

TELLS = 100_000
TELL_ROUNDS = 10
THREAD_TELLS = 20_000
ASKS = 5_000
ACTORS = 10_000
THREAD_ACTORS = 1_000
ROUNDS = 4


class Tick(Message, frozen=True, kw_only=True):
    """Count."""


class Read(Request[int], frozen=True, kw_only=True):
    """Answer the count."""


class Counter(Actor):
    """Ours."""

    def __init__(self) -> None:
        self.count = 0

    async def on_receive(self, message: Any) -> Any:
        if type(message) is Tick:
            self.count += 1
            return None
        return self.count


class Parent(Actor):
    """Has many children."""

    async def on_start(self) -> None:
        for number in range(ACTORS):
            self.ctx.spawn(f"idle{number}", Counter)


class Flooded(Actor):
    """Its mailbox never runs dry."""

    async def on_receive(self, message: Any) -> Any:
        self.ctx.ref.tell(message)


class ThreadCounter(pykka.ThreadingActor):
    """pykka's."""

    use_daemon_thread = True

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_receive(self, message: Any) -> Any:
        if type(message) is Tick:
            self.count += 1
            return None
        return self.count


class TaskCounter:
    """One task with a queue: what one would write without actors."""

    def __init__(self) -> None:
        self.count = 0
        self.queue: asyncio.Queue[tuple[Any, asyncio.Future[int] | None]] = asyncio.Queue()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            _, reply = await self.queue.get()
            if reply is None:
                self.count += 1
            else:
                reply.set_result(self.count)


def memory() -> int:
    """Return the resident bytes of this process."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


async def tells(system: System, number: list[int]) -> dict[str, float]:
    """Return messages a second, end to end."""

    async def ours() -> float:
        number[0] += 1
        ref = system.spawn(f"/tell{number[0]}", Counter, bound=TELLS)
        await system.idle()
        tick, begun = Tick(), time.perf_counter()
        for _ in range(TELLS):
            ref.tell(tick)
        await system.idle()
        return time.perf_counter() - begun

    async def task() -> float:
        actor, tick, begun = TaskCounter(), Tick(), time.perf_counter()
        for _ in range(TELLS):
            actor.queue.put_nowait((tick, None))
        while actor.count < TELLS:
            await asyncio.sleep(0)
        actor.task.cancel()
        return time.perf_counter() - begun

    async def thread() -> float:
        ref = ThreadCounter.start()
        tick, begun = Tick(), time.perf_counter()
        for _ in range(THREAD_TELLS):
            ref.tell(tick)
        await asyncio.to_thread(ref.ask, Read())
        seconds = time.perf_counter() - begun
        ref.stop(block=False)
        return seconds * TELLS / THREAD_TELLS

    # In turns, so that whatever else the machine does meets all of them.
    rounds = [(await ours(), await task(), await thread()) for _ in range(TELL_ROUNDS)]
    fastest = [TELLS / min(seconds) for seconds in zip(*rounds, strict=True)]
    return dict(zip(("ours", "task", "thread"), fastest, strict=True))


async def asks(system: System) -> dict[str, float]:
    """Return the median seconds of one ask."""
    ref, other = system.spawn("/ask", Counter), ThreadCounter.start()

    async def ours() -> float:
        taken = []
        for _ in range(ASKS):
            begun = time.perf_counter()
            await ref.ask(Read(), Budget.of(system.clock, 5.0))
            taken.append(time.perf_counter() - begun)
        return statistics.median(taken)

    def thread() -> float:
        taken = []
        for _ in range(ASKS):
            begun = time.perf_counter()
            other.ask(Read(), timeout=5.0)
            taken.append(time.perf_counter() - begun)
        return statistics.median(taken)

    rounds = [(await ours(), await asyncio.to_thread(thread)) for _ in range(ROUNDS)]
    other.stop(block=False)
    return {"ours": min(one for one, _ in rounds), "thread": min(two for _, two in rounds)}


async def family(system: System, round_: int) -> tuple[float, float, float]:
    """Start and stop a parent of many; return the seconds of both and the bytes of each child."""
    before, begun = memory(), time.perf_counter()
    parent = system.spawn(f"/parent{round_}", Parent)
    await system.idle()
    started = time.perf_counter() - begun
    each = (memory() - before) / ACTORS
    begun = time.perf_counter()
    await system.stop(parent, Budget.of(system.clock, 30.0))
    return started, time.perf_counter() - begun, each


async def idle_actors(system: System) -> dict[str, float]:
    """Return start seconds and bytes per idle actor, and the seconds of stopping ours."""
    rounds = [await family(system, number) for number in range(ROUNDS)]
    before, begun = memory(), time.perf_counter()
    others = [ThreadCounter.start() for _ in range(THREAD_ACTORS)]
    thread_started = (time.perf_counter() - begun) * ACTORS / THREAD_ACTORS
    thread_each = (memory() - before) / THREAD_ACTORS
    for other in others:
        other.stop(block=False)
    return {
        "start": min(started for started, _, _ in rounds),
        "start_thread": thread_started,
        # The first round pays for pages that the later ones find.
        "bytes": rounds[0][2],
        "bytes_thread": thread_each,
        "stop": min(stopped for _, stopped, _ in rounds),
    }


async def heartbeat(system: System, flooded: bool) -> float:
    """Return by how many seconds a 1 ms heartbeat is late at p99, beside an actor whose mailbox never runs dry or alone."""
    if flooded:
        ref = system.spawn("/flooded", Flooded, bound=10_000)
        for _ in range(1000):
            ref.tell(Tick())
    late = min([await _lateness() for _ in range(ROUNDS)])
    if flooded:
        await system.stop(ref, Budget.of(system.clock, 5.0))
    return late


async def _lateness() -> float:
    lates = []
    for _ in range(1000):
        due = time.perf_counter() + 0.001
        await asyncio.sleep(0.001)
        lates.append(time.perf_counter() - due)
    return sorted(lates)[int(len(lates) * 0.99)]


async def measure() -> dict[str, Any]:
    """Measure everything."""
    system = System(stop_seconds=30.0)
    return {
        "tell_per_s": await tells(system, [0]),
        "ask_s": await asks(system),
        "idle": await idle_actors(system),
        "heartbeat_late_p99_s": await heartbeat(system, flooded=True),
        "heartbeat_alone_p99_s": await heartbeat(system, flooded=False),
    }


def main() -> None:
    """Print the figures beside their goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        found = runner.run(measure())
    if options.json:
        print(json.dumps(found))
        return
    tell, ask, idle = found["tell_per_s"], found["ask_s"], found["idle"]
    print(
        f"tell        {tell['ours']:9.0f}/s  {tell['ours'] / tell['task']:5.2f} x a task (goal 1.5)  {tell['ours'] / tell['thread']:5.2f} x a thread (goal 1.5)"
    )
    print(
        f"ask         {ask['ours'] * 1e6:9.1f} us  {ask['ours'] / ask['thread']:5.2f} x a thread (goal 0.7)"
    )
    print(
        f"idle memory {idle['bytes'] / 1024:9.2f} KiB {idle['bytes'] / idle['bytes_thread']:5.2f} x a thread (goal 0.2)"
    )
    print(
        f"start       {idle['start']:9.2f} s   {idle['start'] / idle['start_thread']:5.2f} x threads (goal 0.125), {ACTORS} actors"
    )
    print(f"stop        {idle['stop']:9.2f} s   (goal 0.5)")
    print(
        f"heartbeat   {found['heartbeat_late_p99_s'] * 1e3:9.2f} ms late at p99 (goal 0.5); {found['heartbeat_alone_p99_s'] * 1e3:.2f} alone"
    )


if __name__ == "__main__":
    main()
