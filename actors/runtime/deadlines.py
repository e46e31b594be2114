"""The deadlines of asks: most never come, so those far off share a timer instead of having one each."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from actors.runtime.clock import Clock, Timer

FAR_SECONDS = 1.0
"""Deadlines nearer than this have timers of their own and are met exactly."""
GRAIN_SECONDS = 0.05
"""Far deadlines are met up to that much late."""


class Waiting(Protocol):
    """What can run out of time."""

    def expire(self) -> None:
        """Its deadline has come."""


class Deadlines:
    """Entries by the grain in which they expire. Loop's thread only."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._grains: dict[int, set[Any]] = {}

    def add(self, waiting: Waiting, deadline: float) -> "Timer":
        """Call ``waiting.expire()`` at ``deadline`` (monotonic seconds) or a little later; cancel what is returned."""
        left = deadline - self._clock.monotonic()
        if left < FAR_SECONDS:
            return self._clock.call_later(max(0.0, left), waiting.expire)
        number = int(deadline / GRAIN_SECONDS) + 1
        grain = self._grains.get(number)
        if grain is None:
            grain = self._grains[number] = set()
            self._clock.call_later(number * GRAIN_SECONDS - self._clock.monotonic(), self._expire, number)
        grain.add(waiting)
        return Entry(grain, waiting)

    def _expire(self, number: int) -> None:
        # Each leaves first: expiring one may cancel it, or others of the grain.
        grain = self._grains.pop(number)
        while grain:
            grain.pop().expire()


class Entry:
    """A place in a grain."""

    __slots__ = ("_grain", "_waiting")

    def __init__(self, grain: set[Any], waiting: Waiting) -> None:
        self._grain = grain
        self._waiting = waiting

    def cancel(self) -> None:
        """Leave the grain."""
        self._grain.discard(self._waiting)
