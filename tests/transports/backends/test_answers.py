"""Every tool call is answered once, behind the message that asks for it."""

from actors.messages.rows import Entry, ToolCall
from transports.backends.answers import UNANSWERED, answered


def user(text="go on"):
    return Entry(role="user", content=text)


def said(text="so"):
    return Entry(role="assistant", content=text)


def asks(*ids, text=""):
    calls = tuple(ToolCall(call_id=call_id, name="f", arguments="{}") for call_id in ids)
    return Entry(role="assistant", content=text, tool_calls=calls)


def tells(call_id, text="1"):
    return Entry(role="tool", content=text, tool_call_id=call_id)


def test_a_history_that_is_in_order_stays_as_it_is():
    entries = [user(), asks("a", "b"), tells("a"), tells("b"), said(), user(), asks("a"), tells("a", "2")]
    assert answered(entries) == entries


def test_a_call_that_nobody_has_answered_is_answered_on_the_wire():
    assert answered([user(), asks("a", "b"), tells("b"), user("leave it")]) == [
        user(), asks("a", "b"), tells("a", UNANSWERED), tells("b"), user("leave it"),
    ]  # fmt: skip
    assert UNANSWERED == "cancelled, outcome unknown"


def test_answers_stand_in_the_order_of_the_calls_and_nothing_comes_between():
    assert answered([asks("a", "b"), user("wait"), tells("b", "2"), tells("a", "1")]) == [
        asks("a", "b"), tells("a", "1"), tells("b", "2"), user("wait"),
    ]  # fmt: skip


def test_of_several_answers_to_one_call_the_last_one_counts():
    assert answered([asks("a"), tells("a", "old"), tells("a", "new")]) == [asks("a"), tells("a", "new")]


def test_an_answer_to_a_call_that_is_not_there_is_left_out():
    assert answered([tells("a"), user(), tells("b"), Entry(role="tool", content="?")]) == [user()]


def test_results_that_are_sent_again_after_a_stop_are_what_the_conversation_goes_on_from():
    stopped = said("[generation cancelled before completion]")
    assert answered([user(), asks("a", text="let me see"), tells("a"), stopped, tells("a", "2")]) == [
        user(), stopped, asks("a", text="let me see"), tells("a", "2"),
    ]  # fmt: skip


def test_a_backend_may_use_an_id_again():
    entries = [asks("a"), tells("a", "1"), said(), user(), asks("a"), user("wait"), tells("a", "2")]
    assert answered(entries) == [
        asks("a"), tells("a", "1"), said(), user(), asks("a"), tells("a", "2"), user("wait"),
    ]  # fmt: skip


def test_two_calls_of_one_id_are_one():
    assert answered([asks("a", "a"), tells("a")]) == [asks("a"), tells("a")]


def test_calls_are_the_assistants_only():
    odd = Entry(role="user", content="x", tool_calls=(ToolCall(call_id="a", name="f", arguments=""),))
    assert answered([odd, tells("a")]) == [odd]
