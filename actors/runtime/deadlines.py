"""The deadlines of asks: most never come, so those far off share a timer instead of having one each."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from actors.runtime.clock import Clock

FAR_SECONDS = 1.0
"""Deadlines nearer than this have timers of their own and are met exactly."""
GRAIN_SECONDS = 0.05
"""Far deadlines are met up to that much late."""


class Waiting(Protocol):
    """What can run out of time."""

    def expire(self) -> None:
        """Its deadline has come."""


class Deadlines:
    """Those that wait, by the grain in which they expire. Loop's thread only."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._grains: dict[int, set[Any]] = {}

    def grain(self, deadline: float) -> set[Any] | None:
        """
        Return the set whose members expire at ``deadline`` (monotonic seconds) or a little later; None if it is near.

        Whoever waits adds itself, and leaves when it waits no more.
        """
        if deadline - self._clock.monotonic() < FAR_SECONDS:
            return None
        number = int(deadline / GRAIN_SECONDS) + 1
        grain = self._grains.get(number)
        if grain is None:
            grain = self._grains[number] = set()
            self._clock.call_later(number * GRAIN_SECONDS - self._clock.monotonic(), self._expire, number)
        return grain

    def _expire(self, number: int) -> None:
        # Each leaves first: expiring one may make others leave.
        grain: set[Waiting] = self._grains.pop(number)
        while grain:
            grain.pop().expire()
