"""Everything that a seed decides, in one place: order, time, network and threads."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.loop import VirtualClock, VirtualLoop, outside
from tests.simulation.network import Network
from tests.simulation.order import ordered
from tests.simulation.threads import Threads


class Simulation:
    """One run. Each part draws from randomness of its own, so that one more draw in one does not change the others."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = VirtualLoop(self.rng("order"))
        self.clock = VirtualClock(self.loop)
        self.network = Network(self.loop, self.rng("network"))
        self.threads = Threads(self.loop, self.rng("threads"))

    def rng(self, part: str) -> random.Random:
        """Return the randomness of a part."""
        return random.Random(f"{self.seed}:{part}")

    def run(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run ``main`` to its end, and then end what it has left. Only once."""
        self.network.installed()
        try:
            with self.threads.installed(), ordered():
                try:
                    return self.loop.run_until_complete(self.loop.create_task(main(), context=outside()))
                finally:
                    self.network.close()
                    self._dispose()
        finally:
            self.loop.close()

    def _dispose(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Exception):
            self.loop.run_until_complete(asyncio.wait_for(_all(tasks), 60))


async def _all(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
