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


class SteadyWall:
    """
    Unix seconds by which what is kept grows old: a wall clock that is set, forward or back, lets nothing expire early.

    They go on from the start of the process as monotonic time does, less the most by which the wall clock was ever seen
    behind that: what was stamped meanwhile looks that much older. Whatever stamps are compared with them, the clock has
    to be looked at about when these are made.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = clock.wall() - clock.monotonic()
        self._behind = 0.0

    def look(self) -> float:
        """Return the seconds, and notice a clock that has been set back."""
        steady = self._clock.monotonic() + self._ahead
        self._behind = max(self._behind, steady - self._clock.wall())
        return steady - self._behind
