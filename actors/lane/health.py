"""How the backends do: each is healthy, or degraded after too many failures in a row (turns.md, section 2). Pure."""

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

    def is_degraded(self, backend: str) -> bool:
        """Say whether a backend comes last for now."""
        return self.failures.get(backend, 0) >= DEGRADED_AFTER


def ladder(lanes: tuple[LaneBinding, ...], model: str | None) -> tuple[LaneBinding, ...]:
    """
    Return the lanes for a request of ``model``, in the order in which they are tried: degraded ones last.

    The lane of that name, else the first one, and after it the fallbacks by their order.
    """
    primary = next((lane for lane in lanes if model is None or lane.traits.name == model), None)
    if primary is None:
        return ()
    fallbacks = [lane for lane in lanes if lane.traits.order is not None and lane is not primary]
    fallbacks.sort(key=lambda lane: lane.traits.order or 0)
    return tuple(sorted((primary, *fallbacks), key=lambda lane: lane.degraded))
