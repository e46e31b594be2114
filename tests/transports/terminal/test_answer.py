"""No text of an answer is shown twice, and none is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.terminal.answer import Answer, Step


def content(text):
    return {"event": "turn.content", "data": {"text": text}}


def state(name, text=None):
    return {"event": "turn.state", "data": {"state": name, "text": text}}


def snapshot(text):
    return {"event": "turn.snapshot", "data": {"text": text}}


def outcome(name, text=None, partial="", reason=None):
    turn = {"state": name, "text": text, "partial": partial, "reason": reason}
    return {"event": "turn.outcome", "data": {"inbox_id": "i", "turn": turn}}


def play(*events):
    answer = Answer()
    steps = [answer.take(event) for event in events]
    return answer, "".join(step.text for step in steps), steps[-1]


def test_content_is_shown_as_it_comes():
    answer, shown, last = play(content("Hel"), content("lo"), state("idle", "Hello"))
    assert (shown, last.done, answer.failed) == ("Hello", True, False)


def test_what_was_missed_is_shown_at_the_end():
    assert play(content("Hel"), state("idle", "Hello"))[1] == "Hello"


@given(st.text(min_size=1), st.data())
def test_over_any_number_of_connections_the_answer_is_shown_once(text, data):
    answer, shown, position = Answer(), "", 0
    while position < len(text):
        if data.draw(st.booleans()):
            # Another connection: some of what came meanwhile was not heard, but is in the snapshot.
            position = data.draw(st.integers(position, len(text)))
            shown += answer.take(snapshot(text[:position])).text
        end = data.draw(st.integers(position, len(text)))
        shown += answer.take(content(text[position:end])).text
        position = end if end > position else position + 1
        shown += answer.take(snapshot(text[:position])).text
    shown += answer.take(state("idle", text)).text
    assert shown == text


def test_another_text_begins_on_a_line_of_its_own():
    assert play(content("old"), snapshot("new"))[1] == "old\nnew"


def test_a_failure_is_explained_once():
    error = {
        "event": "turn.error",
        "data": {"category": "c", "error_class": "E", "text": "The model failed."},
    }
    answer, _, last = play(content("x"), error, state("error"))
    assert answer.failed and last == Step(done=True)
    answer, _, last = play(state("error"))
    assert answer.failed and last.note and last.done


def test_a_stopped_answer_is_not_a_success():
    answer, shown, last = play(
        content("Hel"), {"event": "turn.cancelled", "data": {"by": "user"}}, state("idle", "Hel")
    )
    assert answer.failed and shown == "Hel" and last.done


@pytest.mark.parametrize(
    ("event", "text", "failed", "done"),
    [
        (outcome("committed", "Hello"), "Hello", False, True),
        (outcome("interrupted", partial="Hello", reason="restart"), "Hello", True, True),
        (outcome("failed"), "Hel", True, True),
        (outcome("running"), "Hel", False, False),
        ({"event": "turn.outcome", "data": {"inbox_id": "i", "turn": None}}, "Hel", True, True),
    ],
)
def test_outcomes(event, text, failed, done):
    answer, shown, last = play(content("Hel"), event)
    assert (shown, answer.failed, last.done) == (text, failed, done)
    assert bool(last.note) is failed


def test_a_wait_is_mentioned():
    retry = {
        "event": "turn.lane_retry",
        "data": {"lane": "l", "error_class": "ConnectError", "n": 1, "delay_s": 1.0},
    }
    assert "ConnectError" in play(retry)[2].note


def test_other_events_say_nothing():
    for kind in ("turn.turn_start", "turn.thinking_start", "turn.reasoning", "turn.new_kind", "other"):
        assert play({"event": kind, "data": {"text": "x"}})[2] == Step()
    assert play(state("thinking"))[2] == Step()
