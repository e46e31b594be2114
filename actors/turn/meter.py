"""What is measured of one attempt, from its request to its end. Pure."""

from actors.messages.lane import FailureClass
from actors.messages.metrics import AttemptMeasured, Outcome


class Meter:
    """One attempt on ``lane``, begun at ``now``, in monotonic seconds."""

    __slots__ = ("_begun", "_first_token_s", "_lane", "_over")

    def __init__(self, lane: str, now: float) -> None:
        self._lane = lane
        self._begun = now
        self._first_token_s: float | None = None
        self._over = False

    def heard(self, now: float) -> None:
        """Note that a piece of the answer, or of its reasoning, is there."""
        if self._first_token_s is None:
            self._first_token_s = now - self._begun

    def end(
        self,
        outcome: Outcome | FailureClass,
        *,
        usage: dict[str, int] | None = None,
        estimated: bool = False,
    ) -> AttemptMeasured | None:
        """Return what is to be told; None if its end has been told: what comes second is another's."""
        if self._over:
            return None
        self._over = True
        return AttemptMeasured(
            lane=self._lane,
            outcome=outcome,
            first_token_s=self._first_token_s,
            usage=usage,
            estimated=estimated,
        )
