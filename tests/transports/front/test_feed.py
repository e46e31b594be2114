"""What the events of a turn come to for its client."""

import itertools
from typing import Any

import pytest

from actors.messages.lane import ToolCallDelta
from actors.messages.rows import Origin, ToolCall, TurnRow, TurnState
from actors.messages.session import TurnOutcome
from actors.messages.turn import (
    Cancelled,
    Compacted,
    Content,
    LaneDegraded,
    LaneFailed,
    LaneFallback,
    LaneRetry,
    Overflow,
    Reasoning,
    Retry,
    RunPhase,
    Snapshot,
    StateChange,
    StatusUpdate,
    StreamDiscarded,
    StreamEnd,
    ThinkingStart,
    ThinkingStop,
    ToolCalls,
    TurnCommitted,
    TurnError,
    TurnEvent,
    TurnStart,
)
from actors.notifier.notice import Cause, notice
from actors.turn.calls import Calls
from transports.front.feed import (
    BegunAgain,
    Called,
    ClientGone,
    Died,
    End,
    Feed,
    Gone,
    Heard,
    Text,
    Unsettled,
    Void,
)

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def event(kind: type[TurnEvent], gen: int = 1, *, attempt: int = 1, seq: int = 1, **fields: Any) -> TurnEvent:
    return kind(session_id="s", turn_id="t", turn_gen=gen, attempt=attempt, seq=seq, **fields)


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


# Deaths and discards

RETRY = event(Retry, error_class="ReadError", n=1, of=2, delay_s=0.0)
SILENT = [
    event(TurnStart),
    event(ThinkingStart),
    event(ThinkingStop),
    event(Reasoning, text="hm"),
    event(StreamEnd),
    event(LaneRetry, lane="x", error_class="y", n=1, delay_s=0.0),
    event(LaneFallback, from_lane="x", to_lane="y"),
    event(LaneFailed, lane="y", error_class="z"),
    event(LaneDegraded, lane="y"),
    event(Compacted),
    event(StatusUpdate, usage=USAGE, estimated=True),
    event(TurnCommitted, finish_reason="stop"),
    event(Cancelled, by="user"),
    event(TurnError, category="connect", error_class="x", text="x"),
    event(StateChange, state=RunPhase.THINKING),
    event(StateChange, state=RunPhase.RUNNING),
    event(StateChange, state=RunPhase.ATTENTION),
    event(Content, text=""),
    event(StreamDiscarded, keep_upto=1),
]
"""What no client is told by itself, whatever was sent to it before."""


@pytest.mark.parametrize("before", [(), (event(Content, text="Hel"),)], ids=["nothing", "text"])
@pytest.mark.parametrize("message", SILENT, ids=lambda message: type(message).__name__)
def test_what_changes_nothing_of_the_text_is_not_heard(before: Any, message: Any) -> None:
    assert hear(*before, message) == hear(*before)


@pytest.mark.parametrize("message", [RETRY, event(Overflow)], ids=lambda message: type(message).__name__)
def test_a_death_is_heard_by_who_was_told_of_its_text(message: Any) -> None:
    assert hear(message) == []
    assert hear(event(Content, text="Hel"), message) == [Text("Hel"), Died()]
    pieces = (ToolCallDelta(index=0, call_id="a", name="f"),)
    assert hear(event(ToolCalls, calls=pieces), message) == [Called(pieces), Died()]


def test_a_discard_says_how_much_of_the_text_stays() -> None:
    heard = hear(
        event(Content, seq=5, text="Hel"),
        event(Content, seq=9, attempt=2, text="lo"),
        event(StreamDiscarded, seq=10, attempt=2, keep_upto=8),
        event(Content, seq=12, attempt=3, text="p"),
        event(StreamDiscarded, seq=13, attempt=3, keep_upto=4),
    )
    assert heard == [Text("Hel"), Text("lo"), Void(3), Text("p"), Void(0)]


def test_a_discard_of_what_nobody_was_told_is_not_heard() -> None:
    discarded = event(StreamDiscarded, seq=6, keep_upto=5)
    assert hear(discarded, event(Content, seq=4, text="Hel"), discarded) == [Text("Hel")]


def test_text_before_a_discard_is_not_made_good_by_a_snapshot_after_it() -> None:
    heard = hear(
        event(Content, seq=4, text="Hello"),
        event(StreamDiscarded, seq=5, keep_upto=1),
        event(Snapshot, seq=9, attempt=2, text="Goodbye"),
    )
    assert heard == [Text("Hello"), Void(0), Text("Goodbye")]


def test_a_snapshot_of_a_later_attempt_makes_the_text_of_an_earlier_one_void() -> None:
    heard = hear(event(Content, seq=4, text="Hello"), event(Snapshot, seq=9, attempt=2, text="Hello, you"))
    assert heard == [Text("Hello"), Void(0), Text("Hello, you")]


def test_text_that_a_snapshot_brought_can_be_discarded() -> None:
    heard = hear(event(Snapshot, seq=9, text="Hel"), event(StreamDiscarded, seq=10, keep_upto=3))
    assert heard == [Text("Hel"), Void(0)]


class Script:
    """Plays a turn by letters: what it tells, and what of it is the answer in the end."""

    def __init__(self, letters: str) -> None:
        self.told: list[TurnEvent] = []
        self._seq = 0
        self._gen = 1
        self._attempt = 0
        self._begun = 0
        # The pieces of text that count, with their numbers.
        self._pieces: list[tuple[int, str]] = []
        # The tool calls that count.
        self.calls = Calls()
        self._open()
        for letter in letters:
            self._play(letter)
        self.answer = "".join(text for _, text in self._pieces)
        self._tell(TurnCommitted, finish_reason="stop")
        self._tell(StateChange, state=RunPhase.IDLE, text=self.answer)

    def _play(self, letter: str) -> None:
        match letter:
            case "c":
                text = f"{self._gen}{self._attempt}{self._seq} "
                self._tell(Content, text=text)
                self._pieces.append((self._seq, text))
            case "t":
                named = {"call_id": "a", "name": "f"} if not self.calls.calls else {}
                pieces = (
                    ToolCallDelta(index=0, arguments=f"{self._gen}{self._attempt}{self._seq} ", **named),
                )
                self._tell(ToolCalls, calls=pieces)
                self.calls = self.calls.feed(pieces)
            case "d":
                self._tell(Retry, error_class="ReadError", n=1, of=2, delay_s=0.0)
                self._discard()
            case "o":
                self._tell(Overflow)
                self._tell(Compacted)
                self._discard()
            case "x":
                self._discard()
            case "s":
                text = "".join(text for _, text in self._pieces)
                self._tell(Snapshot, text=text, tool_calls=self.calls.calls)
            case "r":
                self._gen += 1
                self._seq, self._attempt, self._pieces, self.calls = 0, 0, [], Calls()
                self._open()

    def _discard(self) -> None:
        self._tell(StreamDiscarded, keep_upto=self._begun)
        self._pieces = [(seq, text) for seq, text in self._pieces if seq <= self._begun]
        self.calls = Calls()
        self._open()

    def _open(self) -> None:
        self._begun = self._seq
        self._attempt += 1
        self._tell(ThinkingStart)

    def _tell(self, kind: type[TurnEvent], **fields: Any) -> None:
        self._seq += 1
        self.told.append(event(kind, self._gen, attempt=self._attempt, seq=self._seq, **fields))


@pytest.mark.parametrize("length", range(6))
def test_what_is_left_of_text_and_calls_is_the_answer_whatever_happened(length: int) -> None:
    for letters in itertools.product("ctdoxsr", repeat=length):
        script = Script("".join(letters))
        text, calls = "", Calls()
        *heard, end = hear(*script.told)
        died = False
        for one in heard:
            match one:
                case Text(text=more):
                    text += more
                case Called(calls=pieces):
                    assert pieces
                    calls = calls.feed(pieces)
                case Void(keep=keep):
                    assert keep < len(text) or calls.calls
                    text, calls = text[:keep], Calls()
                case BegunAgain():
                    assert text or calls.calls
                    text, calls = "", Calls()
                case Died():
                    assert text or calls.calls
                    died = True
        assert (text, calls) == (script.answer, script.calls), letters
        assert end == End(finish_reason="stop", text=script.answer), letters
        assert not died or "d" in letters or "o" in letters


@pytest.mark.parametrize("known", [0, 1, 2])
def test_api_19_an_end_that_was_looked_up_brings_the_calls_that_are_missing(known: int) -> None:
    call = ToolCall(call_id="a", name="f", arguments="{}")
    pieces = (
        ToolCallDelta(index=0, call_id="a", name="f", arguments="{"),
        ToolCallDelta(index=0, arguments="}"),
    )
    feed = Feed()
    heard = hear(*(event(ToolCalls, calls=(piece,)) for piece in pieces[:known]), feed=feed)
    ended = row(TurnState.COMMITTED, reason="tool_calls", text="", tool_calls=(call,))
    *rest, end = feed.outcome(ended)
    calls = Calls()
    for one in (*heard, *rest):
        assert isinstance(one, Called)
        calls = calls.feed(one.calls)
    assert calls.calls == (call,) and len(rest) == (known < 2)
    assert end == End(finish_reason="tool_calls", text="")


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
