"""A histogram as it grows: how many values lie under which bound."""

from bisect import bisect_left

from actors.messages.metrics import Histogram


class Buckets:
    """Counts values. ``bounds`` grow; one that is infinite is added."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = (*bounds, float("inf"))
        self._counts = [0] * len(self._bounds)
        self._total = 0.0

    def add(self, value: float) -> None:
        """Count a value; one that equals a bound lies under it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def histogram(self) -> Histogram:
        """Return what is counted so far."""
        return Histogram(bounds=self._bounds, counts=tuple(self._counts), total=self._total)
