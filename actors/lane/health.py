"""How the backends do: each is healthy, or degraded after too many failures in a row (turns.md, section 2). Pure."""

from collections.abc import Collection

import msgspec

from actors.messages.lane import LaneBinding

DEGRADED_AFTER = 5
"""Failures of one backend in a row."""


class Health(msgspec.Struct, frozen=True):
    """Failures in a row, by backend; lanes of one URL share theirs."""

    failures: dict[str, int] = {}

    def heard(self, backend: str, *, good: bool) -> "Health":
        """Return the health after a stream of a backend that completed, or failed."""
        counted = 0 if good else self.failures.get(backend, 0) + 1
        if counted == self.failures.get(backend, 0):
            return self
        return Health({**self.failures, backend: counted})

    def of(self, backends: Collection[str]) -> "Health":
        """Return the health of these backends alone."""
        return Health({name: count for name, count in self.failures.items() if name in backends})

    def is_degraded(self, backend: str) -> bool:
        """Say whether a backend comes last for now."""
        return self.failures.get(backend, 0) >= DEGRADED_AFTER


def ladder(lanes: tuple[LaneBinding, ...], model: str | None) -> tuple[LaneBinding, ...]:
    """
    Return the lanes for a request of ``model``, in the order in which they are tried.

    The lane of that name, else the first live one, and after it the fallbacks by their order. Degraded ones come after
    them, and last those that are not live: they are asked all the same, and refuse at once.
    """
    if model is not None:
        called = [lane for lane in lanes if lane.traits.name == model]
    else:
        called = [lane for lane in lanes if lane.live] or list(lanes)
    if not called:
        return ()
    primary = called[0]
    fallbacks = [lane for lane in lanes if lane.traits.order is not None and lane is not primary]
    fallbacks.sort(key=lambda lane: lane.traits.order or 0)
    return tuple(sorted((primary, *fallbacks), key=lambda lane: (not lane.live, lane.degraded)))
