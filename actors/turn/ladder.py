"""What the loss of an attempt leads to (turns.md, section 2). Pure: which step, and how long to wait before it."""

import enum

from actors.backoff import Backoff
from actors.messages.lane import RETRYABLE, FailureClass, LaneBinding
from actors.turn.happenings import Failed
from actors.turn.settings import TurnSettings
from actors.turn.state import Lost, Phase, State


class Step(enum.Enum):
    """The ways on."""

    AGAIN = "again"
    """The lane did not take the request: it is asked again."""
    NEXT_LANE = "next_lane"
    """It will not take it: the next one is asked."""
    BEGIN_AGAIN = "begin_again"
    """The stream died: the answer begins again, from the primary lane."""
    COMPACT = "compact"
    """The conversation is too long: it is made shorter, once."""
    GIVE_UP = "give_up"


def after(state: State, failed: Failed, settings: TurnSettings) -> Step:
    """Return what comes after a request that was not accepted, or a stream that died."""
    if failed.failure is FailureClass.OVERFLOW:
        return _after_overflow(state)
    if state.phase is Phase.STREAMING:
        left = state.deaths + 1 < settings.stream_tries
        return Step.BEGIN_AGAIN if left and is_retryable(state.lane, failed) else Step.GIVE_UP
    if state.failures + 1 < settings.creation_tries and is_retryable(state.lane, failed):
        return Step.AGAIN
    return Step.NEXT_LANE if state.others else Step.GIVE_UP


def _after_overflow(state: State) -> Step:
    if not state.compacted:
        return Step.COMPACT
    return Step.NEXT_LANE if state.others and state.phase is Phase.OPENING else Step.GIVE_UP


def is_retryable(lane: LaneBinding | None, failed: Failed) -> bool:
    """Say whether a lane may succeed if it is asked again (TRN-11)."""
    listed = lane.traits.retryable if lane is not None else frozenset()
    return failed.failure in RETRYABLE or failed.error_class in listed


def delay(times: int, failed: Failed, settings: TurnSettings) -> float:
    """Return the seconds to wait after the ``times``-th loss in a row (from 1): a backend's own wish, or longer."""
    backoff = Backoff(settings.retry_base_s, settings.retry_cap_s).delay(times, failed.fraction)
    asked = failed.retry_after
    return backoff if asked is None else max(backoff, min(asked, settings.retry_after_cap_s))


def reported(state: State, last: Lost) -> Lost:
    """
    Return which loss the turn fails with.

    An answer that could not begin again fails with the death of its stream, unless the reason lies with the operator
    (TRN-23, 26, 27); a request that no lane took, with what the first lane said.
    """
    if state.death is not None:
        return last if last.failure is FailureClass.AUTH_REFUSED else state.death
    return state.refused or last
