"""What is told of one attempt."""

from actors.messages.lane import FailureClass
from actors.messages.metrics import AttemptMeasured, Outcome
from actors.turn.meter import Meter


def test_the_first_piece_counts():
    meter = Meter("big", 10.0)
    meter.heard(10.5)
    meter.heard(12.0)
    assert meter.end(Outcome.COMPLETED, usage={"prompt_tokens": 1}, estimated=True) == AttemptMeasured(
        lane="big",
        outcome=Outcome.COMPLETED,
        first_token_s=0.5,
        usage={"prompt_tokens": 1},
        estimated=True,
    )


def test_an_attempt_without_a_piece_has_no_time_to_it():
    assert Meter("big", 10.0).end(FailureClass.CONNECT) == AttemptMeasured(
        lane="big", outcome=FailureClass.CONNECT
    )


def test_an_attempt_ends_once():
    meter = Meter("big", 10.0)
    assert meter.end(FailureClass.STALLED) is not None
    assert meter.end(Outcome.STOPPED) is None
