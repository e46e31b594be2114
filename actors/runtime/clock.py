"""Time for actors: monotonic for deadlines, wall only for what people read."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """Something that fires once unless it is cancelled."""

    def cancel(self) -> None:
        """Make sure that it does not fire."""


class Clock(Protocol):
    """The only source of time in actors, so that tests can run on virtual time."""

    def monotonic(self) -> float:
        """Return seconds that never go back; deadlines are made of these (REL-7)."""

    def wall(self) -> float:
        """Return unix seconds, for rows and texts."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call back on the loop after ``delay`` seconds."""


class SystemClock:
    """The machine's clock. Timers need a running loop."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call back on the running loop after ``delay`` seconds."""
        return asyncio.get_running_loop().call_later(delay, callback, *args)
