"""Where a follower stands, whatever its connections did."""

from typing import Any

from transports.terminal.following import Following


def event(kind: str, gen: int, seq: int, **data: Any) -> dict[str, Any]:
    return {"event": f"turn.{kind}", "seq": seq, "data": {"turn_gen": gen, "seq": seq, **data}}


def outcome(gen: int) -> dict[str, Any]:
    return {"event": "turn.outcome", "seq": None, "data": {"turn": {"turn_gen": gen}}}


def test_it_goes_on_after_the_last_event():
    following = Following(None)
    assert following.question() == {}
    following.answered(4)
    assert following.question() == {"after_gen": 4, "after_seq": 0}
    assert following.take(event("content", 5, 3, text="x"))
    assert following.question() == {"after_gen": 5, "after_seq": 3}
    following.answered(5)
    assert following.question() == {"after_gen": 5, "after_seq": 3}


def test_what_ended_before_is_not_shown():
    following = Following(None)
    following.answered(4)
    assert not following.take(outcome(4)) and following.ended == 0
    assert following.take(outcome(5)) and following.ended == 1


def test_an_end_is_shown_once_however_it_is_told():
    following = Following((5, 1))
    for state in ("thinking", "running", "idle"):
        assert following.take(event("state", 5, 9, state=state))
    assert not following.take(outcome(5)) and following.ended == 1
    assert following.take(event("state", 6, 4, state="error")) and following.ended == 2


def test_after_a_named_event_the_end_of_its_turn_is_shown():
    following = Following((5, 1))
    following.answered(5)
    assert following.take(outcome(5)) and following.ended == 1


def test_a_gap_is_shown():
    assert Following(None).take(
        {"event": "turn.gap", "seq": None, "data": {"after_gen": 1, "next_gen": None}}
    )
