"""How long to wait before trying again: exponential with full jitter, computed by tenacity, waited for by a timer."""

from typing import Any, cast

import msgspec
import tenacity


class Backoff(msgspec.Struct, frozen=True):
    """Waits of a ladder. ``base_s`` is the upper bound of the first one; bounds double up to ``cap_s``."""

    base_s: float
    cap_s: float

    def upper(self, attempt: int) -> float:
        """Return the bound of the wait after the ``attempt``-th failure (from 1), in seconds."""
        state = tenacity.RetryCallState(cast("Any", None), None, (), {})
        state.attempt_number = attempt
        return float(tenacity.wait_exponential(multiplier=self.base_s, max=self.cap_s)(state))

    def delay(self, attempt: int, fraction: float) -> float:
        """Return the wait; ``fraction`` (0 … 1) is the caller's random number, so that a seed repeats it."""
        return self.upper(attempt) * fraction
