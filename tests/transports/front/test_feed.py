"""What the events of a turn come to for its client."""

from typing import Any

import pytest

from actors.messages.rows import Origin, TurnRow, TurnState
from actors.messages.session import TurnOutcome
from actors.messages.turn import (
    Cancelled,
    Content,
    LaneRetry,
    Reasoning,
    RunPhase,
    Snapshot,
    StateChange,
    StatusUpdate,
    StreamEnd,
    ThinkingStart,
    ThinkingStop,
    TurnCommitted,
    TurnError,
    TurnEvent,
    TurnStart,
)
from actors.notifier.notice import Cause, notice
from transports.front.feed import BegunAgain, ClientGone, End, Feed, Gone, Heard, Text, Unsettled

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def event(kind: type[TurnEvent], gen: int = 1, **fields: Any) -> TurnEvent:
    return kind(session_id="s", turn_id="t", turn_gen=gen, attempt=1, seq=1, **fields)


def row(state: TurnState, **fields: Any) -> TurnRow:
    known: dict[str, Any] = {
        "turn_id": "t",
        "session_id": "s",
        "inbox_id": "i",
        "turn_gen": 1,
        "reason": None,
        "partial": "",
        "text": None,
        "usage": None,
        "origin": Origin.API,
        "detached": False,
        "tries": 1,
        "admitted_at": 0.0,
        "ended_at": 1.0,
    }
    return TurnRow(state=state, **{**known, **fields})


def hear(*messages: Any, feed: Feed | None = None) -> list[Heard]:
    feed = feed or Feed()
    return [heard for message in messages for heard in feed.hear(message)]


def idle(text: str | None = None, gen: int = 1) -> TurnEvent:
    return event(StateChange, gen, state=RunPhase.IDLE, text=text)


def test_a_good_turn_is_its_text_and_one_end() -> None:
    heard = hear(
        event(TurnStart),
        event(ThinkingStart),
        event(StateChange, state=RunPhase.THINKING),
        event(ThinkingStop),
        event(StateChange, state=RunPhase.RUNNING),
        event(Reasoning, text="hm"),
        event(Content, text="Hel"),
        event(LaneRetry, lane="x", error_class="y", n=1, delay_s=0.0),
        event(Content, text="lo"),
        event(StreamEnd),
        event(StatusUpdate, usage=USAGE, estimated=False),
        event(TurnCommitted, finish_reason="length"),
        idle("Hello"),
    )
    assert heard == [Text("Hel"), Text("lo"), End(finish_reason="length", usage=USAGE, text="Hello")]


def test_a_commit_without_a_reason_is_an_ordinary_stop() -> None:
    (end,) = hear(event(TurnCommitted, finish_reason=None), idle(""))
    assert end == End(finish_reason="stop", text="")


@pytest.mark.parametrize(
    ("before", "snapshot", "expected"),
    [([], "Hel", ["Hel"]), (["Hel"], "Hello", ["Hel", "lo"]), (["Hel"], "Hel", ["Hel"]), ([], "", [])],
)
def test_a_snapshot_adds_what_was_missed(before: list[str], snapshot: str, expected: list[str]) -> None:
    heard = hear(*[event(Content, text=text) for text in before], event(Snapshot, text=snapshot))
    assert heard == [Text(text) for text in expected]


def test_a_failure_is_told_with_its_own_sentence() -> None:
    heard = hear(
        event(Content, text="Hel"),
        event(TurnError, category="stream_died", error_class="ReadError", text="ours"),
        event(StateChange, state=RunPhase.ERROR, text="Sorry."),
    )
    assert heard == [Text("Hel"), End(code="turn_failed", status=500, message="Sorry.")]


def test_a_timeout_has_its_own_status() -> None:
    (end,) = hear(
        event(TurnError, category="timeout", error_class="x", text="ours"),
        event(StateChange, state=RunPhase.ERROR, text="Sorry."),
    )
    assert isinstance(end, End) and (end.code, end.status) == ("turn_failed", 504)


def test_an_error_whose_cause_was_missed_is_a_failure_all_the_same() -> None:
    (end,) = hear(event(StateChange, state=RunPhase.ERROR, text=None))
    assert end == End(code="turn_failed", status=500, message=notice(Cause.CRASH))


@pytest.mark.parametrize(
    ("by", "word"),
    [
        ("user", "whole"),
        ("interrupt", "whole"),
        ("superseded", "new session"),
        ("new_session", "new session"),
    ],
)
def test_a_stopped_turn_is_no_whole_answer(by: str, word: str) -> None:
    heard = hear(event(Content, text="Hel"), event(Cancelled, by=by), idle("Hel"))
    assert heard[0] == Text("Hel")
    end = heard[1]
    assert isinstance(end, End) and end.failed
    assert (end.code, end.status) == ("turn_cancelled", 409) and word in end.message


def test_an_end_whose_manner_was_missed_is_looked_up() -> None:
    assert hear(event(Snapshot, text="Hello"), idle("Hello")) == [Text("Hello"), Unsettled()]


# Another run over the same message


def test_another_run_is_announced_if_text_of_the_lost_one_was_heard() -> None:
    feed = Feed()
    assert hear(event(Content, gen=1, text="Hel"), feed=feed) == [Text("Hel")]
    assert hear(event(TurnStart, gen=2), feed=feed) == [BegunAgain()]
    assert hear(event(Content, gen=2, text="Hello"), feed=feed) == [Text("Hello")]


def test_another_run_is_no_matter_if_nothing_was_heard_yet() -> None:
    assert hear(event(TurnStart, gen=1), event(Snapshot, gen=2, text="Hi")) == [Text("Hi")]


def test_what_a_lost_run_still_says_is_not_heard() -> None:
    heard = hear(event(Content, gen=2, text="new"), event(Content, gen=1, text="old"), idle("old", gen=1))
    assert heard == [Text("new")]


def test_nothing_of_a_lost_run_colours_the_next() -> None:
    heard = hear(
        event(TurnError, gen=1, category="timeout", error_class="x", text="x"),
        event(Cancelled, gen=1, by="user"),
        event(TurnCommitted, gen=2, finish_reason="stop"),
        idle("", gen=2),
    )
    assert heard == [End(finish_reason="stop", text="")]


# Outcomes read from the store


def outcome(turn: TurnRow | None) -> TurnOutcome:
    return TurnOutcome(inbox_id="i", turn=turn)


def test_a_stored_answer_is_told_whole() -> None:
    heard = hear(outcome(row(TurnState.COMMITTED, text="Hello", reason="length", usage=USAGE)))
    assert heard == [Text("Hello"), End(finish_reason="length", usage=USAGE, text="Hello")]


def test_a_stored_answer_completes_what_was_heard() -> None:
    heard = hear(event(Content, text="Hel"), outcome(row(TurnState.COMMITTED, text="Hello")))
    assert heard == [Text("Hel"), Text("lo"), End(text="Hello")]


def test_a_stored_answer_of_another_run_is_not_joined_to_what_was_heard() -> None:
    heard = hear(event(Content, text="Hel"), outcome(row(TurnState.COMMITTED, turn_gen=2, text="Goodbye")))
    assert heard == [Text("Hel"), BegunAgain(), Text("Goodbye"), End(text="Goodbye")]


def test_a_stored_empty_answer_is_an_end_without_text() -> None:
    assert hear(outcome(row(TurnState.COMMITTED, text=""))) == [End(text="")]


@pytest.mark.parametrize(
    ("state", "reason", "code", "status"),
    [
        (TurnState.CANCELLED, "user", "turn_cancelled", 409),
        (TurnState.CANCELLED, "new_session", "turn_cancelled", 409),
        (TurnState.CANCELLED, None, "turn_cancelled", 409),
        (TurnState.FAILED, "connect", "turn_failed", 500),
        (TurnState.FAILED, "timeout", "turn_failed", 504),
        (TurnState.INTERRUPTED, "restart", "turn_failed", 500),
        (TurnState.UNANSWERED, "something unheard of", "turn_failed", 500),
    ],
)
def test_a_stored_bad_end_is_told_as_it_was(
    state: TurnState, reason: str | None, code: str, status: int
) -> None:
    (end,) = hear(outcome(row(state, reason=reason)))
    assert isinstance(end, End) and (end.code, end.status) == (code, status) and end.message


@pytest.mark.parametrize("turn", [None, row(TurnState.RUNNING), row(TurnState.ADMITTED)])
def test_an_outcome_that_is_none_yet_is_waited_for(turn: TurnRow | None) -> None:
    assert hear(outcome(turn)) == []


def test_the_client_that_goes_is_heard() -> None:
    assert hear(ClientGone()) == [Gone()]
