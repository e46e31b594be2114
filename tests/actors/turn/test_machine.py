"""The turn's machine: the order of events, stops, supersession, and what is stored."""

import pytest

from actors.messages import turn as events
from actors.messages.lane import ThinkTags, ToolCallDelta
from actors.messages.rows import ToolCall, TurnState
from actors.messages.turn import RunPhase
from actors.turn import effects, happenings
from actors.turn.ends import CANCELLED_MARK, SHUTDOWN_MARK
from actors.turn.state import Phase
from tests.actors.turn.script import (
    ARMED,
    COMPACTED,
    DENIED,
    DIED,
    FINISHED,
    OVER,
    OVERFLOW,
    REFUSED,
    SETTINGS,
    STOP,
    Play,
    lane,
    text,
)

PREFIX = [events.TurnStart, events.ThinkingStart, events.StateChange]
LAST = [events.StreamEnd, events.StatusUpdate, events.TurnCommitted]


def test_success_publishes_in_order_and_says_so_after_the_store():
    play = Play().feed(ARMED, text("Hel"), text("lo"), FINISHED)
    assert play.kinds == [
        *PREFIX, events.ThinkingStop, events.StateChange, events.Content, events.Content, *LAST,
    ]  # fmt: skip
    assert [emit.seq for emit in play.emitted] == list(range(1, len(play.emitted) + 1))
    assert (play.end.state, play.end.text, play.end.usage) == (
        TurnState.COMMITTED,
        "Hello",
        {"total_tokens": 3},
    )
    assert play.state.phase is Phase.ENDING and not play.all(effects.Leave)
    play.feed(happenings.Stored())
    assert play.emitted[-1].fields == {"state": RunPhase.IDLE, "text": "Hello"}
    assert play.state.phase is Phase.ENDED and len(play.all(effects.Leave)) == 1


def test_reasoning_is_shown_and_is_no_part_of_the_answer():
    play = Play().feed(text("", "hm"), text("Hi"), FINISHED)
    assert play.of(events.Reasoning) == [{"text": "hm"}] and play.end.text == "Hi"


def test_held_text_is_shown_before_the_stream_ends():
    play = Play(lane(tags=ThinkTags.ANYWHERE)).feed(text("Hello world"), FINISHED)
    assert play.contents == ["Hello world"]
    assert play.kinds.index(events.Content) < play.kinds.index(events.StreamEnd)


def test_a_lane_that_holds_back_shows_nothing_that_dies():
    play = Play(lane(hold_back=True)).feed(text("dead"), DIED, OVER, text("good"), FINISHED)
    assert play.contents == ["good"] and play.end.text == "good"


def test_an_empty_answer_has_a_sentence_for_the_chat():
    end = Play().feed(ARMED, FINISHED).end
    assert end.state is TurnState.COMMITTED and "empty answer" in end.notice


def test_trn_24_lost_usage_is_estimated_and_says_so():
    play = Play(lane(chars_per_token=2.0)).feed(text("seven77"), happenings.Finished("stop", None))
    usage = {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}
    assert (play.end.usage, play.end.estimated) == (usage, True)
    assert play.of(events.StatusUpdate) == [{"usage": usage, "estimated": True}]


# Tool calls

CALLS = (
    ToolCallDelta(index=0, call_id="a", name="look", arguments='{"x"'),
    ToolCallDelta(index=1, call_id="b", name="go"),
)
MORE = (ToolCallDelta(index=0, arguments=":1}"),)
WHOLE = (
    ToolCall(call_id="a", name="look", arguments='{"x":1}'),
    ToolCall(call_id="b", name="go", arguments=""),
)


def test_tool_calls_are_put_together_and_are_an_answer():
    play = Play().feed(
        happenings.Delta("", "", CALLS), happenings.Delta("", "", MORE), happenings.Finished("tool_calls", {})
    )
    assert play.of(events.ToolCalls) == [{"calls": CALLS}, {"calls": MORE}]
    assert play.end.tool_calls == WHOLE and play.end.notice is None


@pytest.mark.parametrize("finish_reason", ["length", "content_filter", None])
def test_trn_55_tool_calls_that_were_cut_off_are_dropped_and_that_is_said(finish_reason):
    play = Play().feed(text("So"), happenings.Delta("", "", CALLS), happenings.Finished(finish_reason, {}))
    assert (play.end.text, play.end.tool_calls) == ("So", ())
    assert "tool calls were whole; they were dropped" in play.end.notice


def test_where_nobody_runs_tools_calls_are_no_part_of_the_answer():
    play = Play(runs_tools=False)
    play.feed(happenings.Delta("", "", CALLS), happenings.Finished("tool_calls", {}))
    assert events.ToolCalls not in play.kinds
    assert play.end.tool_calls == () and "empty answer" in play.end.notice


def test_a_stop_drops_tool_calls():
    play = Play().feed(happenings.Delta("", "", CALLS), STOP)
    assert play.end.tool_calls == () and play.end.text == CANCELLED_MARK


def test_a_dead_attempts_tool_calls_are_not_the_next_ones():
    play = Play().feed(happenings.Delta("", "", CALLS), DIED, OVER, text("done"), FINISHED)
    assert play.end.tool_calls == ()


# Stops


@pytest.mark.parametrize(
    ("before", "stored", "stream_ends"),
    [
        ((), None, 0),
        ((REFUSED,), None, 0),
        ((ARMED,), CANCELLED_MARK, 1),
        ((text("Hel"),), f"Hel\n\n{CANCELLED_MARK}", 1),
        # TRN-3, 7, 8: in the backoff, before any token, and in the second attempt before its first.
        ((text("Hel"), DIED), f"Hel\n\n{CANCELLED_MARK}", 1),
        ((ARMED, DIED), CANCELLED_MARK, 1),
        ((text("Hel"), DIED, OVER), f"Hel\n\n{CANCELLED_MARK}", 1),
        ((text("Hel"), DIED, OVER, ARMED), f"Hel\n\n{CANCELLED_MARK}", 2),
        ((text("Hel"), DIED, OVER, text("x")), f"x\n\n{CANCELLED_MARK}", 2),
        ((OVERFLOW,), None, 0),
    ],
)
def test_a_stop_keeps_what_was_said_and_sends_nothing(before, stored, stream_ends):
    play = Play().feed(*before)
    asked, phase, discarded = len(play.requests), play.state.phase, len(play.of(events.StreamDiscarded))
    play.feed(STOP, OVER, ARMED, COMPACTED, happenings.Resolved(play.state.request, play.lanes))
    assert (play.end.state, play.end.text, play.end.reason) == (TurnState.CANCELLED, stored, "user")
    assert play.kinds.count(events.StreamEnd) == stream_ends
    assert play.of(events.Cancelled) == [{"by": "user"}]
    assert len(play.requests) == asked and len(play.of(events.StreamDiscarded)) == discarded
    closes = {
        Phase.BACKOFF: effects.DisarmBackoff,
        Phase.COMPACTING: effects.CancelCompaction,
        Phase.OPENING: effects.CancelAttempt,
        Phase.STREAMING: effects.CancelAttempt,
    }
    assert len(play.all(closes[phase])) == 1
    play.feed(happenings.Stored())
    said = (stored or "").removesuffix(CANCELLED_MARK).removesuffix("\n\n")
    assert play.emitted[-1].fields == {"state": RunPhase.IDLE, "text": said}


def test_trn_25_what_is_held_is_kept_by_a_stop_and_not_shown():
    play = Play(lane(tags=ThinkTags.ANYWHERE)).feed(text("Half an answer"), DIED, OVER, STOP)
    assert play.contents == ["Ha"] and play.end.text == f"Half an answer\n\n{CANCELLED_MARK}"
    assert play.kinds.count(events.StreamEnd) == 1


def test_trn_33_a_stop_while_a_lane_is_looked_for_asks_none():
    play = Play(lane("a"), lane("b", order=1), resolves=False)
    play.feed(happenings.Resolved(play.state.request, play.lanes), DENIED)
    assert play.state.phase is Phase.RESOLVING
    play.feed(STOP, happenings.Resolved(play.state.request, play.lanes))
    assert play.requests == ["a"] and events.LaneFallback not in play.kinds


def test_a_shutdown_interrupts_and_says_so():
    play = Play().feed(text("Hel"), happenings.StopAsked("shutdown"), happenings.Stored())
    assert play.end.state is TurnState.INTERRUPTED
    assert play.end.interrupted_text == f"Hel\n\n{SHUTDOWN_MARK}" and play.end.text is None
    assert play.kinds.count(events.StreamEnd) == 1
    assert play.emitted[-1].fields == {"state": RunPhase.ERROR, "text": play.end.notice}


def test_the_budgets_end_is_a_timeout():
    play = Play().feed(ARMED, happenings.BudgetOver())
    assert (play.end.state, play.end.reason) == (TurnState.FAILED, "timeout")
    assert len(play.all(effects.CancelAttempt)) == 1


# Supersession


@pytest.mark.parametrize(
    "before",
    [(), (REFUSED,), (ARMED,), (text("x"),), (text("x"), DIED), (OVERFLOW,), (text("x"), FINISHED)],
)
def test_a_superseded_turn_is_silent_and_sends_nothing(before):
    play = Play().feed(*before)
    told, asked, stored = len(play.emitted), len(play.requests), len(play.all(effects.Store))
    play.feed(happenings.Superseded(), OVER, text("y"), FINISHED, happenings.Stored(), COMPACTED)
    assert (len(play.emitted), len(play.requests), len(play.all(effects.Store))) == (told, asked, stored)
    assert len(play.all(effects.Vanish)) == 1 and not play.all(effects.Leave)


# The store


def test_the_end_is_stored_until_it_is():
    play = Play().feed(text("x"), FINISHED)
    for n in (1, 2):
        play.feed(happenings.StoreFailed())
        assert play.wanted[-1] == effects.StoreAgain(n)
        play.feed(OVER)
        assert len(play.all(effects.Store)) == n + 1
    assert play.end and play.feed(happenings.Stored()).state.phase is Phase.ENDED


def flushes(play):
    return [effect.text for effect in play.all(effects.Flush)]


def test_text_is_flushed_by_size_and_by_time():
    play = Play().feed(text("a"), text("b"))
    assert len(play.all(effects.ArmFlush)) == 1
    play.feed(happenings.FlushDue(), happenings.FlushDue())
    assert flushes(play) == ["ab"]
    play.feed(happenings.Flushed(), text("c" * SETTINGS.flush_bytes))
    assert flushes(play)[1:] == [play.state.text.content]


def test_one_flush_is_under_way_at_a_time_and_what_came_meanwhile_follows():
    piece = "c" * SETTINGS.flush_bytes
    play = Play().feed(*[text(piece)] * 50, happenings.FlushDue())
    assert flushes(play) == [piece]
    play.feed(happenings.Flushed())
    assert play.wanted[-1] == effects.ArmFlush()
    play.feed(happenings.FlushDue(), happenings.Flushed())
    assert flushes(play) == [piece, piece * 50] and play.wanted[-1] == effects.Flush(piece * 50)


def test_the_flushes_of_a_long_text_cost_a_few_times_its_length():
    play = Play()
    for _ in range(1000):
        play.feed(text("c" * SETTINGS.flush_bytes), happenings.Flushed())
    assert sum(map(len, flushes(play))) < 12 * len(play.state.text.content)
