"""A clock that stands still until the test moves it."""

import itertools
from collections.abc import Callable
from typing import Any


class StillClock:
    """Monotonic and wall seconds under the test's control; timers fire inside ``advance``, in order."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wall_seconds = 1_800_000_000.0
        self._timers: dict[int, tuple[float, Callable[..., Any], tuple[Any, ...]]] = {}
        self._ids = itertools.count()

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return self.wall_seconds

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> "StillTimer":
        number = next(self._ids)
        self._timers[number] = (self.seconds + delay, callback, args)
        return StillTimer(self._timers, number)

    def advance(self, seconds: float) -> None:
        """Let time pass, and what falls due in it happen at its moment."""
        end = self.seconds + seconds
        while due := min(((at, n) for n, (at, _, _) in self._timers.items() if at <= end), default=None):
            at, number = due
            _, callback, args = self._timers.pop(number)
            self.wall_seconds += at - self.seconds
            self.seconds = at
            callback(*args)
        self.wall_seconds += end - self.seconds
        self.seconds = end


class StillTimer:
    """Forgets its entry when cancelled."""

    def __init__(self, timers: dict[int, Any], number: int) -> None:
        self._timers = timers
        self._number = number

    def cancel(self) -> None:
        self._timers.pop(self._number, None)
