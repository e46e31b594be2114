"""What each callback of an event loop costs: CPU of the loop's thread, so that a busy machine does not count."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Meter:
    """The longest callbacks of one loop, in seconds of CPU, with what each was."""

    def __init__(self) -> None:
        self.longest: list[tuple[float, str]] = []
        self.count = 0

    def over(self, seconds: float) -> list[tuple[float, str]]:
        """Return those that took longer, the longest first."""
        return sorted((one for one in self.longest if one[0] > seconds), reverse=True)

    def take(self, seconds: float, handle: asyncio.Handle) -> None:
        """Note one callback."""
        self.count += 1
        if seconds > 0.01:
            self.longest.append((round(seconds, 4), _name(handle)))


@contextmanager
def metered() -> Iterator[Meter]:
    """Measure every callback that the loop of this thread runs inside the block. The loop is asyncio's own."""
    meter, thread, run = Meter(), threading.get_ident(), asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        if threading.get_ident() == thread:
            meter.take(time.thread_time() - begun, handle)

    asyncio.Handle._run = measured
    try:
        yield meter
    finally:
        asyncio.Handle._run = run


def _name(handle: asyncio.Handle) -> str:
    callback: Any = handle._callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"task {task.get_name()} {task.get_coro()}"
    return repr(callback)
