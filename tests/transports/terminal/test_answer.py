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


LANE = {"lane": "small", "error_class": "ConnectError"}


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (
            "retry",
            {"error_class": "ReadError", "n": 1, "of": 2, "delay_s": 1.0},
            "stream died mid-response (ReadError), retrying in 1 s (1/2)",
        ),
        ("lane_retry", {**LANE, "n": 1, "delay_s": 1.0}, "Retrying in 1 s: ConnectError"),
        ("lane_retry", {**LANE, "n": 1, "delay_s": 0.251}, "Retrying in 0.3 s: ConnectError"),
        ("lane_retry", {**LANE, "n": 1, "delay_s": 30.0}, "Retrying in 30 s: ConnectError"),
        ("lane_fallback", {"from": "big", "to": "small"}, "Primary model failed, falling back to small"),
        ("lane_failed", LANE, "Fallback small also failed: ConnectError"),
        ("lane_degraded", {"lane": "small"}, "Fallback small is degraded, trying anyway"),
    ],
)
def test_a_step_of_the_ladder_is_told_in_its_own_words(kind, data, text):
    assert play({"event": f"turn.{kind}", "data": data})[2] == Step(note=text)


def test_an_answer_that_begins_again_begins_on_a_line_of_its_own():
    void = {"event": "turn.stream_discarded", "data": {"keep_upto": 2}}
    answer, shown, _ = play(
        void, content("Hel"), void, content("Good"), content("bye"), state("idle", "Goodbye")
    )
    assert shown == "Hel\nGoodbye" and answer.text == "Goodbye" and not answer.failed


def test_other_events_say_nothing():
    for kind in ("turn.turn_start", "turn.thinking_start", "turn.reasoning", "turn.new_kind", "other"):
        assert play({"event": kind, "data": {"text": "x"}})[2] == Step()
    assert play(state("thinking"))[2] == Step()
