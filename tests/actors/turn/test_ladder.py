"""What the loss of an attempt leads to: tries, other lanes, new beginnings, compaction, and how it all fails."""

import pytest

from actors.messages import turn as events
from actors.messages.lane import RETRYABLE, FailureClass, ThinkTags, ToolCallDelta
from actors.messages.rows import TurnState
from actors.turn import effects, happenings
from actors.turn.ends import BROKEN_OFF_MARK, CANCELLED_MARK
from actors.turn.settings import TurnSettings
from actors.turn.state import Phase
from tests.actors.turn.script import (
    ARMED,
    BUSY,
    COMPACTED,
    DENIED,
    DIED,
    FAULT,
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

LIFE = (
    events.ThinkingStart,
    events.StreamEnd,
    events.Retry,
    events.StreamDiscarded,
    events.TurnCommitted,
    events.TurnError,
)


def life(play):
    return [kind for kind in play.kinds if kind in LIFE]


def warnings(play):
    return [warn.event for warn in play.all(effects.Warn)]


# A request that was not accepted


def test_a_request_that_was_not_accepted_is_sent_again_with_growing_waits():
    play = Play()
    for n in (1, 2, 3):
        play.feed(REFUSED)
        assert play.of(events.LaneRetry)[-1]["n"] == n
        play.feed(OVER)
    assert [wait.delay for wait in play.all(effects.ArmBackoff)] == [1.0, 2.0, 4.0]
    play.feed(REFUSED)
    assert (play.end.state, play.end.reason) == (TurnState.FAILED, "connect")
    assert len(play.requests) == 4 and play.kinds.count(events.ThinkingStart) == 1


def test_retry_after_is_honoured_up_to_its_cap():
    assert Play().feed(BUSY).all(effects.ArmBackoff) == [effects.ArmBackoff(5.0)]
    long = happenings.Failed(FailureClass.RATE_LIMITED, "RateLimited", 9999.0, 0.0)
    assert Play().feed(long).all(effects.ArmBackoff) == [effects.ArmBackoff(SETTINGS.retry_after_cap_s)]


@pytest.mark.parametrize("failure", sorted(set(FailureClass) - RETRYABLE - {FailureClass.OVERFLOW}))
def test_what_is_not_retryable_fails_at_once(failure):
    play = Play().feed(happenings.Failed(failure, "X"))
    assert play.end.state is TurnState.FAILED and len(play.requests) == 1


def test_trn_11_a_class_that_the_serving_lane_lists_is_worth_another_try():
    listed = lane(retryable=frozenset({"BadRequest"}))
    odd = happenings.Failed(FailureClass.BAD_REQUEST, "BadRequest")
    assert Play(listed).feed(odd).state.phase is Phase.BACKOFF
    assert Play(listed).feed(ARMED, odd).state.phase is Phase.BACKOFF
    assert Play().feed(odd).state.phase is Phase.ENDING


def test_no_lane_of_that_name_fails_with_a_sentence():
    play = Play(resolves=False)
    play.feed(happenings.Resolved(play.state.request, ()))
    assert play.end.reason == "no_lane" and "no model" in play.end.notice and play.requests == []


def test_whoever_is_not_told_of_any_lane_fails():
    play = Play(resolves=False)
    play.feed(happenings.Unresolved(play.state.request, "DeadlineExceeded"))
    assert play.end.reason == "connect" and play.requests == []


# Other lanes

A, B, C = lane("a"), lane("b", order=1), lane("c", order=2)


def test_a_lane_that_does_not_take_it_gives_way_to_the_next():
    play = Play(A, B, C)
    play.feed(*[REFUSED, OVER] * 3, REFUSED)
    assert play.requests == ["a"] * 4 + ["b"]
    assert play.of(events.LaneFallback) == [{"from_lane": "a", "to_lane": "b"}]
    play.feed(DENIED)
    assert play.requests[-1] == "c"
    assert play.of(events.LaneFailed) == [{"lane": "b", "error_class": "AuthRefused"}]
    assert play.of(events.LaneFallback)[1:] == [{"from_lane": "b", "to_lane": "c"}]
    play.feed(text("good"), FINISHED)
    assert play.end.text == "good"


def test_when_all_have_failed_the_error_is_the_primary_ones():
    play = Play(A, B).feed(DENIED, FAULT)
    assert play.end.reason == "auth_refused"
    assert [fields["lane"] for fields in play.of(events.LaneFailed)] == ["b"]


def test_trn_29_30_31_a_preparation_fault_is_tried_on_each_lane_once():
    play = Play(A, B).feed(FAULT, FAULT)
    assert play.requests == ["a", "b"] and play.end.reason == "preparation"
    assert play.of(events.LaneFailed) == [{"lane": "b", "error_class": "ValueError"}]
    play = Play(A, B, C).feed(FAULT, FAULT, text("good"), FINISHED)
    assert play.requests == ["a", "b", "c"] and play.end.text == "good"


def test_trn_39_the_text_of_a_preparation_fault_says_what_to_do():
    error = Play().feed(FAULT).end.error
    assert "ValueError" in error and "stored history" in error and "/compact" in error


def test_a_degraded_fallback_is_tried_and_said():
    play = Play(A, lane("b", order=1, degraded=True)).feed(DENIED)
    assert play.kinds[-2:] == [events.LaneFallback, events.LaneDegraded]
    assert play.requests == ["a", "b"]


def test_trn_51_an_answer_begins_again_on_the_next_lane_while_the_primary_is_degraded():
    play = Play(A, B)
    play.feed(ARMED, DIED)
    play.lanes = (B, lane("a", degraded=True))
    play.feed(OVER)
    assert play.requests == ["a", "b"]
    assert play.of(events.LaneFallback) == [{"from_lane": "a", "to_lane": "b"}]


def test_an_answer_begins_again_on_the_primary_lane():
    play = Play(A, B).feed(DENIED, ARMED, DIED, OVER)
    assert play.requests == ["a", "b", "a"]


def test_trn_4_a_retry_takes_the_lane_as_it_is_then():
    play = Play(A).feed(REFUSED)
    new = lane("a", context_window=7)
    play.lanes = (new,)
    play.feed(OVER)
    assert play.all(effects.OpenAttempt)[-1].lane is new


def test_a_retry_whose_lane_was_taken_away_goes_to_another():
    play = Play(A, B).feed(REFUSED)
    play.lanes = (B,)
    play.feed(OVER)
    assert play.requests == ["a", "b"]


# A stream that died


def test_trn_1_a_stream_that_dies_begins_again():
    dead = "streaming from the dead attempt"
    play = Play(lane(tags=ThinkTags.ANYWHERE)).feed(text(dead), DIED, OVER, text("Hello world"), FINISHED)
    assert play.contents == [dead[:-12], "Hello world"] and play.end.text == "Hello world"
    assert life(play) == [
        events.ThinkingStart, events.StreamEnd, events.Retry, events.StreamDiscarded, events.ThinkingStart,
        events.StreamEnd, events.TurnCommitted,
    ]  # fmt: skip
    assert play.of(events.Retry) == [{"error_class": "ReadError", "n": 1, "of": 2, "delay_s": 1.0}]
    assert warnings(play) == ["stream.retry"]


def test_a_discard_names_the_last_event_that_stays():
    play = Play().feed(text("dead"), DIED, OVER)
    first = next(emit for emit in play.emitted if emit.kind is events.ThinkingStart)
    (discard,) = play.of(events.StreamDiscarded)
    assert discard == {"keep_upto": first.seq - 1}
    attempts = [
        emit.attempt for emit in play.emitted if emit.kind in (events.StreamDiscarded, events.ThinkingStart)
    ]
    assert attempts == [1, 1, 2]


def test_trn_2_three_deaths_fail_it():
    play = Play().feed(text("one"), DIED, OVER, text("two"), DIED, OVER, ARMED, DIED)
    assert [play.kinds.count(kind) for kind in (events.StreamEnd, events.StreamDiscarded)] == [3, 3]
    (error,) = play.of(events.TurnError)
    assert error["error_class"] == "IncompleteStream"
    for sentence in (error["text"], play.end.error):
        assert "Backend stream died mid-response (ReadError)" in sentence
        assert "retries did not recover it" in sentence
    assert len(play.requests) == 3 and warnings(play)[-1] == "turn.failed"
    assert play.all(effects.Warn)[-1].severe
    # The last partial that had any text.
    assert play.end.interrupted_text == f"two\n\n{BROKEN_OFF_MARK}" and play.end.text is None


def test_trn_6_a_death_before_any_token_is_discarded_all_the_same():
    play = Play().feed(ARMED, DIED)
    told = len(play.emitted)
    play.feed(OVER)
    assert play.kinds[told : told + 2] == [events.StreamDiscarded, events.ThinkingStart]


def test_trn_22_a_death_that_is_not_worth_a_retry_is_the_last():
    odd = happenings.Failed(FailureClass.BAD_REQUEST, "BadRequest")
    play = Play().feed(text("x"), odd)
    assert life(play) == [
        events.ThinkingStart, events.StreamEnd, events.StreamDiscarded, events.TurnError,
    ]  # fmt: skip
    assert len(play.requests) == 1 and "retries" not in play.end.error


def test_trn_23_26_an_answer_that_cannot_begin_again_fails_with_the_death():
    play = Play(settings=TurnSettings(creation_tries=1)).feed(text("x"), DIED, OVER, REFUSED)
    assert "ReadError" in play.end.error and "ConnectError" not in play.end.error
    assert "stream.retry.recreate_failed" in warnings(play)
    play = Play(resolves=False)
    play.feed(happenings.Resolved(play.state.request, play.lanes), text("x"), DIED, OVER)
    play.feed(happenings.Unresolved(play.state.request, "DeadlineExceeded"))
    assert "ReadError" in play.end.error and play.end.reason == "stream_died"


def test_trn_27_a_refused_key_on_the_way_is_said_itself():
    end = Play().feed(text("x"), DIED, OVER, DENIED).end
    assert "configured to mint a credential per call" in end.error and "died" not in end.error


def test_trn_16_a_superseded_backoff_is_silent():
    play = Play().feed(text("x"), DIED)
    told = len(play.emitted)
    play.feed(happenings.Superseded(), OVER)
    assert len(play.emitted) == told and len(play.requests) == 1


# A conversation that is too long


def test_an_overflow_is_answered_by_a_compaction_once():
    play = Play().feed(OVERFLOW)
    assert play.state.phase is Phase.COMPACTING and len(play.all(effects.Compact)) == 1
    play.feed(COMPACTED, text("recovered"), FINISHED)
    assert play.end.text == "recovered" and len(play.requests) == 2
    assert [kind for kind in play.kinds if kind in (events.Overflow, events.Compacted)] == [
        events.Overflow, events.Compacted,
    ]  # fmt: skip
    play = Play().feed(OVERFLOW, COMPACTED, OVERFLOW)
    assert play.end.reason == "overflow" and len(play.all(effects.Compact)) == 1


def test_trn_12_an_overflow_on_the_way_after_a_death():
    play = Play().feed(text("dead"), DIED, OVER, OVERFLOW, COMPACTED, text("recovered"), FINISHED)
    assert len(play.requests) == 3 and play.end.text == "recovered"


def test_trn_13_what_fails_after_a_compaction_is_said_itself():
    end = Play().feed(OVERFLOW, COMPACTED, FAULT).end
    assert "ValueError" in end.error and "Context window exceeded" not in end.error


def test_trn_20_an_overflow_in_mid_stream():
    play = Play().feed(text("dead"), OVERFLOW, COMPACTED, text("recovered"), FINISHED)
    assert len(play.requests) == 2 and play.end.text == "recovered"
    assert play.kinds.count(events.StreamDiscarded) == 1


NOT_COMPACTED = happenings.NotCompacted("ConnectError")


def test_a_compaction_that_fails_fails_the_turn_that_overflowed():
    play = Play().feed(OVERFLOW, NOT_COMPACTED)
    assert play.end.reason == "overflow" and len(play.requests) == 1
    assert "Context window exceeded" in play.end.error and "ConnectError" in play.end.error


@pytest.mark.parametrize("then", [(NOT_COMPACTED,), (COMPACTED, OVERFLOW)])
def test_what_no_compaction_helps_goes_to_a_lane_that_may_hold_more(then):
    play = Play(A, B).feed(OVERFLOW, *then, text("good"), FINISHED)
    assert play.requests[-1] == "b" and play.end.text == "good"
    assert play.of(events.LaneFallback) == [{"from_lane": "a", "to_lane": "b"}]
    assert len(play.all(effects.Compact)) == 1


SMALL = lane("a", context_window=100, chars_per_token=2.0)


def test_a_history_that_fills_most_of_the_window_is_compacted_before_anything_is_asked():
    # 80 % of 100 tokens of 2 characters.
    assert Play(SMALL, prompt_chars=160).requests == ["a"]
    play = Play(SMALL, prompt_chars=161)
    assert play.requests == [] and play.all(effects.Compact) == [effects.Compact(SMALL)]
    play.feed(happenings.Compacted(150))
    assert play.requests == ["a"] and play.kinds.count(events.ThinkingStart) == 1
    assert events.Compacted in play.kinds and events.Overflow not in play.kinds
    play.feed(text("x"), happenings.Finished("stop", None))
    assert play.end.usage["prompt_tokens"] == 75


@pytest.mark.parametrize("then", [NOT_COMPACTED, happenings.Compacted(999)])
def test_a_precaution_is_taken_once_and_hinders_nobody(then):
    play = Play(SMALL, prompt_chars=200).feed(then)
    assert play.requests == ["a"] and len(play.all(effects.Compact)) == 1
    # An overflow is another matter.
    play.feed(OVERFLOW)
    assert len(play.all(effects.Compact)) == 2
    play.feed(COMPACTED)
    assert play.requests == ["a", "a"]


def test_a_lane_that_takes_over_has_a_window_of_its_own():
    play = Play(lane("big"), lane("a", order=1, context_window=100, chars_per_token=2.0), prompt_chars=200)
    assert play.requests == ["big"]
    play.feed(DENIED)
    assert play.requests == ["big"] and play.state.phase is Phase.COMPACTING
    play.feed(COMPACTED)
    assert play.requests == ["big", "a"]
    assert play.of(events.LaneFallback) == [{"from_lane": "big", "to_lane": "a"}]


@pytest.mark.parametrize("before", [(), (text("dead"),)])
def test_a_stop_ends_a_compaction_and_no_request_follows(before):
    play = Play().feed(*before, OVERFLOW, STOP)
    assert play.all(effects.CancelCompaction) and play.end.state is TurnState.CANCELLED
    assert play.end.text == (f"dead\n\n{CANCELLED_MARK}" if before else None)
    play.feed(COMPACTED, happenings.Stored())
    assert len(play.requests) == 1


def test_a_superseded_compaction_is_silent():
    play = Play().feed(OVERFLOW)
    told = len(play.emitted)
    play.feed(happenings.Superseded(), COMPACTED)
    assert len(play.emitted) == told and play.all(effects.CancelCompaction) and play.all(effects.Store) == []


# Orders


def test_the_whole_order_of_a_death_and_a_good_answer():
    play = Play().feed(ARMED, text("dead"), DIED, OVER, ARMED, text("good"), FINISHED, happenings.Stored())
    assert play.kinds == [
        events.TurnStart, events.ThinkingStart, events.StateChange, events.ThinkingStop, events.StateChange,
        events.Content, events.StreamEnd, events.Retry, events.StreamDiscarded, events.ThinkingStart,
        events.StateChange, events.ThinkingStop, events.StateChange, events.Content, events.StreamEnd,
        events.StatusUpdate, events.TurnCommitted, events.StateChange,
    ]  # fmt: skip
    assert [fields["state"] for fields in play.of(events.StateChange)] == [
        "thinking", "running", "thinking", "running", "idle",
    ]  # fmt: skip


def test_trn_17_what_is_left_of_a_death_and_a_good_answer_is_the_good_text():
    play = Play().feed(text("dead"), DIED, OVER, text("good"))
    assert play.state.partial == "good"
    play.feed(FINISHED, happenings.Stored())
    assert play.of(events.StateChange)[-1] == {"state": "idle", "text": "good"}


def test_trn_17_an_answer_without_text_does_not_show_a_dead_ones():
    calls = (ToolCallDelta(index=0, call_id="a", name="look", arguments="{}"),)
    play = Play().feed(text("dead"), DIED, OVER, happenings.Delta("", "", calls))
    play.feed(happenings.Finished("tool_calls", {}), happenings.Stored())
    assert play.of(events.StateChange)[-1] == {"state": "idle", "text": ""}


def test_trn_18_a_stop_in_the_backoff_stores_what_is_left_of_the_dead_text():
    play = Play(lane(tags=ThinkTags.ANYWHERE)).feed(text("Half an answer"), DIED)
    left = play.state.partial
    play.feed(STOP, happenings.Stored())
    assert play.end.text == f"{left}\n\n{CANCELLED_MARK}" == f"Half an answer\n\n{CANCELLED_MARK}"
    assert play.of(events.StateChange)[-1]["text"] == left


def test_trn_21_an_error_after_a_supersession_is_not_said():
    play = Play().feed(text("x"), happenings.Superseded(), FAULT, DIED)
    assert not {events.TurnError, events.StreamEnd} & set(play.kinds) and not play.all(effects.Store)
    assert "turn.failed" not in warnings(play)


def test_trn_28_a_backend_that_does_not_say_that_it_accepted_dies_in_mid_stream_all_the_same():
    play = Play().feed(text("pre"), DIED, OVER, text("fix"), FINISHED)
    assert play.contents == ["pre", "fix"] and play.kinds.count(events.StreamDiscarded) == 1
    assert play.of(events.LaneRetry) == []


def test_trn_32_a_turn_that_is_superseded_before_its_lane_is_tried_again_does_not_say_so():
    play = Play().feed(happenings.Superseded(), REFUSED, OVER)
    assert play.of(events.LaneRetry) == [] and len(play.requests) == 1


def test_trn_34_a_stop_before_a_degraded_lane_is_tried_tries_none():
    play = Play(A, lane("b", order=1, degraded=True), resolves=False)
    play.feed(happenings.Resolved(play.state.request, play.lanes), DENIED, STOP)
    play.feed(happenings.Resolved(play.state.request, play.lanes))
    assert play.requests == ["a"] and events.LaneDegraded not in play.kinds


def test_trn_35_a_fallback_that_is_superseded_is_shown_and_its_failure_is_not():
    play = Play(A, B).feed(DENIED, happenings.Superseded(), DENIED)
    assert events.LaneFallback in play.kinds and events.LaneFailed not in play.kinds
