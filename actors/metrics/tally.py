"""What is counted of attempts, lane by lane. Pure."""

from collections import Counter

from actors.buckets import Buckets
from actors.messages.metrics import AttemptMeasured, LaneMeasures

FIRST_TOKEN_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Seconds: from a small model next door to a large one that has to think."""

TOKEN_KINDS = {"prompt_tokens": "prompt", "completion_tokens": "completion"}
"""Of what a backend says about its usage, the numbers that add up."""

MAX_TOKENS = 10**9
"""Of one attempt: a backend's number may be anything."""

MAX_LANES = 200
OTHERS = "(others)"
"""What further lanes are counted as: names come and go with reloads, and every one that ever was stays."""


class LaneTally:
    """The counters of one lane."""

    def __init__(self) -> None:
        self._attempts: Counter[str] = Counter()
        self._first_token = Buckets(FIRST_TOKEN_BOUNDS)
        self._tokens: Counter[tuple[str, bool]] = Counter()

    def count(self, measured: AttemptMeasured) -> None:
        """Take an attempt."""
        self._attempts[str(measured.outcome)] += 1
        if measured.first_token_s is not None:
            self._first_token.add(measured.first_token_s)
        for name, kind in TOKEN_KINDS.items():
            used = (measured.usage or {}).get(name, 0)
            if 0 < used <= MAX_TOKENS:
                self._tokens[kind, measured.estimated] += used

    def measures(self, lane: str) -> LaneMeasures:
        """Return the counters as they are."""
        return LaneMeasures(
            lane=lane,
            attempts=dict(self._attempts),
            first_token=self._first_token.histogram(),
            tokens=dict(self._tokens),
        )


class Tally:
    """The counters of all lanes."""

    def __init__(self) -> None:
        self._lanes: dict[str, LaneTally] = {}

    def count(self, measured: AttemptMeasured) -> None:
        """Take an attempt."""
        name = measured.lane
        if name not in self._lanes and len(self._lanes) >= MAX_LANES:
            name = OTHERS
        self._lanes.setdefault(name, LaneTally()).count(measured)

    def measures(self) -> tuple[LaneMeasures, ...]:
        """Return the counters of each lane, by name."""
        return tuple(tally.measures(lane) for lane, tally in sorted(self._lanes.items()))
