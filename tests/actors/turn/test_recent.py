"""What of a turn's events is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import ToolCallDelta
from actors.messages.turn import Content, Reasoning, ThinkingStart, ToolCalls, TurnEvent
from actors.turn.recent import Recent


def event(seq: int, text: str | None = "x") -> TurnEvent:
    head = {"session_id": "s", "turn_id": "t", "turn_gen": 1, "attempt": 1, "seq": seq}
    return ThinkingStart(**head) if text is None else Content(**head, text=text)


@given(
    st.lists(st.one_of(st.none(), st.text("x", max_size=8)), max_size=40),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(-1, 45),
)
def test_either_all_events_after_a_number_are_told_or_none(texts, most, characters, after):
    recent = Recent(events=most, characters=characters)
    told = [event(seq, text) for seq, text in enumerate(texts, 1)]
    for one in told:
        recent.keep(one)
    got = recent.after(after)
    wanted = tuple(one for one in told if one.seq > after)
    size = sum(len(text or "") for text in texts[max(after, 0) :])
    if not 0 <= after <= len(told):
        assert got is None
    elif len(wanted) <= most and size <= characters:
        assert got == wanted
    else:
        assert got is None


def test_a_turn_that_has_said_nothing_has_nothing_to_tell_again():
    assert Recent().after(0) == ()
    assert Recent().after(1) is None


@pytest.mark.parametrize("kind", ["reasoning", "calls"])
def test_all_that_can_be_long_is_measured(kind):
    head = {"session_id": "s", "turn_id": "t", "turn_gen": 1, "attempt": 1}
    recent = Recent(characters=10)
    for seq in (1, 2):
        if kind == "reasoning":
            recent.keep(Reasoning(**head, seq=seq, text="x" * 8))
        else:
            recent.keep(ToolCalls(**head, seq=seq, calls=(ToolCallDelta(index=0, arguments="x" * 8),)))
    assert recent.after(0) is None
    assert [one.seq for one in recent.after(1) or ()] == [2]
