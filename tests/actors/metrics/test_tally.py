"""What attempts add up to."""

from typing import Any

import pytest

from actors.messages.lane import FailureClass
from actors.messages.metrics import AttemptMeasured, LaneMeasures, Outcome
from actors.metrics.tally import MAX_LANES, MAX_TOKENS, OTHERS, Tally


def measured(lane: str = "big", outcome: Any = Outcome.COMPLETED, **fields: Any) -> AttemptMeasured:
    return AttemptMeasured(lane=lane, outcome=outcome, **fields)


def counted(*attempts: AttemptMeasured) -> dict[str, LaneMeasures]:
    tally = Tally()
    for attempt in attempts:
        tally.count(attempt)
    return {lane.lane: lane for lane in tally.measures()}


def test_attempts_are_counted_by_lane_and_outcome():
    lanes = counted(
        measured(),
        measured(),
        measured(outcome=Outcome.STOPPED),
        measured(outcome=FailureClass.STALLED),
        measured("small", FailureClass.CONNECT),
    )
    assert list(lanes) == ["big", "small"]
    assert lanes["big"].attempts == {"completed": 2, "stopped": 1, "stalled": 1}
    assert lanes["small"].attempts == {"connect": 1}


@pytest.mark.parametrize("outcome", [*Outcome, *FailureClass])
def test_every_outcome_has_a_name(outcome):
    assert counted(measured(outcome=outcome))["big"].attempts == {outcome.value: 1}


def test_no_outcome_has_the_name_of_a_failure():
    assert not {outcome.value for outcome in Outcome} & {failure.value for failure in FailureClass}


def test_the_time_to_the_first_token_is_only_of_those_that_had_one():
    lane = counted(measured(first_token_s=0.2), measured(first_token_s=4.0), measured())["big"]
    assert sum(lane.first_token.counts) == 2 and lane.first_token.total == 4.2


def test_tokens_are_added_by_kind_and_by_whether_they_are_an_estimate():
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    lane = counted(
        measured(usage=usage), measured(usage=usage), measured(usage={"completion_tokens": 5}, estimated=True)
    )["big"]
    assert lane.tokens == {("prompt", False): 20, ("completion", False): 6, ("completion", True): 5}


@pytest.mark.parametrize("number", [0, -5, MAX_TOKENS + 1, 10**400])
def test_numbers_that_cannot_be_are_left_out(number):
    assert counted(measured(usage={"prompt_tokens": number}))["big"].tokens == {}


def test_lanes_that_come_and_go_do_not_fill_the_memory():
    lanes = counted(*(measured(f"lane-{n}") for n in range(MAX_LANES + 50)), measured("lane-0"))
    assert len(lanes) == MAX_LANES + 1
    assert lanes[OTHERS].attempts == {"completed": 50} and lanes["lane-0"].attempts == {"completed": 2}
