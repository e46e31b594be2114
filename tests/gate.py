"""A store that is held, or dies, at a point of its own."""

import asyncio
import threading

from actors.runtime import System


class Gate:
    """Holds the store's thread right before a commit, until it is opened; ``at`` counts the commits from now on."""

    def __init__(self, system: System, *, at: int = 1) -> None:
        self._open = threading.Event()
        self._reached = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait() -> None:
            loop.call_soon_threadsafe(self._reached.set)
            self._open.wait(20)

        system.failpoints.set("store.before_commit", wait, at=at)

    async def reached(self) -> None:
        """Return once it holds the store."""
        async with asyncio.timeout(20):
            await self._reached.wait()

    def open(self) -> None:
        """Let the commit go on."""
        self._open.set()


def lose_answer(system: System) -> None:
    """Let the store crash after its next commit of a write, before it answers."""
    points = system.failpoints
    points.set("store.before_commit", lambda: points.set("store.after_commit", crash))


def crash() -> None:
    """Make whoever passes the point crash."""
    raise RuntimeError("failpoint")
