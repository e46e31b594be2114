"""The turn's machine: the order of events, the ladder before acceptance, stops, and what is stored."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import turn as events
from actors.messages.lane import RETRYABLE, FailureClass, ToolCallDelta
from actors.messages.rows import ENDED_TURNS, ToolCall, TurnState
from actors.messages.turn import RunPhase
from actors.notifier.notice import Cause, notice
from actors.turn import machine
from actors.turn.machine import CANCELLED_MARK, SHUTDOWN_MARK, Phase, State, step
from actors.turn.settings import TurnSettings

SETTINGS = TurnSettings()
OK = machine.Finished("stop", {"total_tokens": 3})


def failed(failure=FailureClass.CONNECT, retry_after=None, fraction=1.0):
    return machine.Failed(failure, "ConnectError", retry_after, fraction)


def run(*happenings, state=None):
    """Feed events; return the last state and all effects."""
    state = state or State()
    done = []
    for event in happenings:
        state, effects = step(state, event, SETTINGS)
        done += effects
    return state, done


def kinds(effects):
    return [effect.kind for effect in effects if isinstance(effect, machine.Emit)]


def stored(effects):
    return [effect.end for effect in effects if isinstance(effect, machine.Store)]


def test_success_publishes_in_order_and_says_so_after_the_store():
    state, effects = run(
        machine.Begun("lane"), machine.Armed(), machine.Delta("Hel", ""), machine.Delta("lo", ""), OK
    )
    assert kinds(effects) == [
        events.TurnStart, events.ThinkingStart, events.StateChange, events.ThinkingStop, events.StateChange,
        events.Content, events.Content, events.StreamEnd, events.StatusUpdate, events.TurnCommitted,
    ]  # fmt: skip
    assert stored(effects) == [
        machine.End(TurnState.COMMITTED, reason="stop", text="Hello", usage={"total_tokens": 3})
    ]
    state, effects = run(machine.Stored(), state=state)
    assert effects[0] == machine.Emit(events.StateChange, {"state": RunPhase.IDLE, "text": "Hello"})
    assert isinstance(effects[1], machine.Leave) and state.phase is Phase.ENDED


PIECES = (
    (ToolCallDelta(index=0, call_id="a", name="f", arguments="{"),),
    (ToolCallDelta(index=0, arguments="}"),),
)
CALL = ToolCall(call_id="a", name="f", arguments="{}")


def called(finish_reason, text="", **fields):
    return run(
        machine.Begun("lane"), machine.Delta(text, "", PIECES[0]), machine.Delta("", "", PIECES[1]),
        machine.Finished(finish_reason, None), state=State(**fields),
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "So"])
def test_api_19_tool_calls_are_a_part_of_the_answer(text):
    _, effects = called("tool_calls", text)
    assert [
        effect.fields["calls"] for effect in effects if getattr(effect, "kind", None) is events.ToolCalls
    ] == [*PIECES]
    (end,) = stored(effects)
    assert (end.state, end.text, end.tool_calls, end.notice) == (TurnState.COMMITTED, text, (CALL,), None)


@pytest.mark.parametrize("finish_reason", ["length", "content_filter", None])
def test_trn_55_calls_that_were_cut_off_are_dropped_and_that_is_said(finish_reason):
    _, effects = called(finish_reason, "So")
    (end,) = stored(effects)
    assert (end.state, end.text, end.tool_calls) == (TurnState.COMMITTED, "So", ())
    assert "tool calls were whole; they were dropped" in end.notice


def test_calls_of_a_turn_that_is_stopped_are_not_kept():
    _, effects = run(machine.Begun("lane"), machine.Delta("So", "", PIECES[0]), machine.StopAsked("user"))
    (end,) = stored(effects)
    assert (end.text, end.tool_calls) == (f"So\n\n{CANCELLED_MARK}", ())


def test_where_nobody_runs_tools_calls_are_no_part_of_the_answer():
    _, effects = called("tool_calls", runs_tools=False)
    assert events.ToolCalls not in kinds(effects)
    (end,) = stored(effects)
    assert (end.tool_calls, end.notice) == ((), notice(Cause.EMPTY))


def test_a_request_that_was_not_accepted_is_sent_again_with_growing_waits():
    state, effects = run(machine.Begun("lane"))
    delays = []
    for _ in range(3):
        state, effects = run(failed(), state=state)
        (wait,) = [effect for effect in effects if isinstance(effect, machine.ArmRetry)]
        delays.append(wait.delay)
        assert kinds(effects) == [events.LaneRetry]
        state, effects = run(machine.RetryDue(), state=state)
        assert machine.OpenAttempt(state.attempt) in effects
    assert delays == [1.0, 2.0, 4.0]
    state, effects = run(failed(), state=state)
    (end,) = stored(effects)
    assert end.state is TurnState.FAILED and end.reason == "connect"


def test_retry_after_is_honoured_up_to_its_cap():
    for asked, waited in ((5.0, 5.0), (9999.0, SETTINGS.retry_after_cap_s)):
        _, effects = run(machine.Begun("lane"), failed(FailureClass.RATE_LIMITED, asked, 0.0))
        assert machine.ArmRetry(waited) in effects


@pytest.mark.parametrize("failure", sorted(set(FailureClass) - RETRYABLE))
def test_what_is_not_retryable_fails_at_once(failure):
    _, effects = run(machine.Begun("lane"), failed(failure))
    assert [end.state for end in stored(effects)] == [TurnState.FAILED]


def test_a_stream_that_died_is_not_sent_again_and_keeps_its_text():
    _, effects = run(machine.Begun("lane"), machine.Delta("Half", ""), failed(FailureClass.INCOMPLETE))
    (end,) = stored(effects)
    assert end.text is None and end.interrupted_text.startswith("Half\n\n")
    assert kinds(effects)[-2:] == [events.StreamEnd, events.TurnError]
    assert not any(isinstance(effect, machine.ArmRetry) for effect in effects)


def test_no_lane_of_that_name_fails_with_a_sentence():
    _, effects = run(machine.Begun(None))
    (end,) = stored(effects)
    assert end.state is TurnState.FAILED and "no model" in end.notice
    assert not any(isinstance(effect, machine.OpenAttempt) for effect in effects)


def test_a_stop_keeps_the_partial_and_its_marker():
    _, effects = run(machine.Begun("lane"), machine.Delta("Hel", ""), machine.StopAsked("user"))
    assert machine.CancelAttempt(1) in effects
    assert stored(effects) == [
        machine.End(TurnState.CANCELLED, reason="user", text=f"Hel\n\n{CANCELLED_MARK}")
    ]


def test_a_stop_before_the_first_token_of_an_accepted_request_leaves_the_marker_alone():
    _, effects = run(machine.Begun("lane"), machine.Armed(), machine.StopAsked("user"))
    assert [end.text for end in stored(effects)] == [CANCELLED_MARK]
    assert events.StreamEnd in kinds(effects)


def test_a_stop_before_acceptance_leaves_no_row_and_no_stream_end():
    _, effects = run(machine.Begun("lane"), machine.StopAsked("user"))
    assert [end.text for end in stored(effects)] == [None]
    assert events.StreamEnd not in kinds(effects)


def test_a_stop_in_backoff_ends_the_wait_and_sends_nothing():
    state, effects = run(machine.Begun("lane"), failed(), machine.StopAsked("user"))
    assert machine.DisarmRetry() in effects
    _, effects = run(machine.RetryDue(), state=state)
    assert not any(isinstance(effect, machine.OpenAttempt) for effect in effects)


def test_a_shutdown_interrupts_and_says_so():
    _, effects = run(machine.Begun("lane"), machine.Delta("Hel", ""), machine.StopAsked("shutdown"))
    (end,) = stored(effects)
    assert end.state is TurnState.INTERRUPTED
    assert end.interrupted_text == f"Hel\n\n{SHUTDOWN_MARK}" and end.notice and end.text is None


def test_the_budgets_end_is_a_timeout():
    _, effects = run(machine.Begun("lane"), machine.Armed(), machine.BudgetOver())
    (end,) = stored(effects)
    assert (end.state, end.reason) == (TurnState.FAILED, "timeout")
    assert machine.CancelAttempt(1) in effects


def test_the_end_is_stored_until_it_is():
    state, _ = run(machine.Begun("lane"), machine.Delta("x", ""), OK)
    for n in (1, 2):
        state, effects = run(machine.StoreFailed(), state=state)
        assert effects == [machine.StoreAgain(n)]
        state, effects = run(machine.RetryDue(), state=state)
        assert len(stored(effects)) == 1
    state, effects = run(machine.Stored(), state=state)
    assert state.phase is Phase.ENDED


def test_a_superseded_turn_says_nothing():
    state, _ = run(machine.Begun("lane"), machine.Delta("x", ""), OK)
    _, effects = run(machine.Superseded(), state=state)
    assert effects == [machine.Vanish()]


def test_text_is_flushed_by_size_and_by_time():
    state, effects = run(machine.Begun("lane"), machine.Delta("a", ""))
    assert machine.ArmFlush() in effects
    state, effects = run(machine.Delta("b", ""), state=state)
    assert machine.ArmFlush() not in effects
    state, effects = run(machine.FlushDue(), state=state)
    assert effects == [machine.Flush("ab")]
    state, effects = run(machine.FlushDue(), state=state)
    assert effects == []
    state, _ = run(machine.Flushed(), state=state)
    state, effects = run(machine.Delta("c" * SETTINGS.flush_bytes, ""), state=state)
    assert [effect.text for effect in effects if isinstance(effect, machine.Flush)] == [state.text]


def flushes(effects):
    return [effect.text for effect in effects if isinstance(effect, machine.Flush)]


def test_one_flush_is_under_way_at_a_time_and_what_came_meanwhile_follows():
    piece = "c" * SETTINGS.flush_bytes
    state, effects = run(machine.Begun("lane"), *[machine.Delta(piece, "")] * 50, machine.FlushDue())
    assert flushes(effects) == [piece]
    state, effects = run(machine.Flushed(), state=state)
    assert effects == [machine.ArmFlush()]
    state, effects = run(machine.FlushDue(), machine.Flushed(), state=state)
    assert flushes(effects) == [piece * 50] and machine.ArmFlush() not in effects


def test_the_flushes_of_a_long_text_cost_a_few_times_its_length():
    state, written = machine.State(), 0
    for _ in range(2000):
        state, effects = run(machine.Delta("c" * SETTINGS.flush_bytes, ""), machine.Flushed(), state=state)
        written += sum(map(len, flushes(effects)))
    assert written < 12 * len(state.text)


def test_reasoning_is_shown_and_is_no_part_of_the_answer():
    state, effects = run(machine.Begun("lane"), machine.Delta("", "hm"), machine.Delta("Hi", ""), OK)
    assert events.Reasoning in kinds(effects)
    assert state.text == "Hi"


def test_an_empty_answer_has_a_sentence_for_the_chat():
    _, effects = run(machine.Begun("lane"), machine.Armed(), OK)
    (end,) = stored(effects)
    assert end.state is TurnState.COMMITTED and "empty answer" in end.notice


HAPPENINGS = st.one_of(
    st.just(machine.Armed()),
    st.builds(machine.Delta, st.text(max_size=5), st.text(max_size=2)),
    st.just(OK),
    st.builds(failed, st.sampled_from(FailureClass), st.none() | st.floats(0, 500), st.floats(0, 1)),
    st.just(machine.RetryDue()),
    st.just(machine.FlushDue()),
    st.just(machine.Flushed()),
    st.builds(machine.StopAsked, st.sampled_from(["user", "shutdown", "client_gone"])),
    st.just(machine.BudgetOver()),
    st.just(machine.Stored()),
    st.just(machine.StoreFailed()),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(HAPPENINGS, max_size=25))
def test_whatever_happens_a_turn_ends_once_and_shows_what_it_stores(happenings):
    state, effects = run(machine.Begun("lane"), *happenings)
    ends = stored(effects)
    leaves = [effect for effect in effects if isinstance(effect, machine.Leave)]
    assert len({msgspec.json.encode(end) for end in ends}) <= 1
    assert len(leaves) <= 1
    if state.phase >= Phase.ENDING:
        assert state.end.state in ENDED_TURNS
    shown = "".join(
        e.fields["text"] for e in effects if isinstance(e, machine.Emit) and e.kind is events.Content
    )
    assert shown == state.text
    if ends and ends[0].state is TurnState.COMMITTED:
        assert ends[0].text == shown


@settings(max_examples=300, deadline=None)
@given(st.lists(HAPPENINGS, max_size=15), st.lists(HAPPENINGS, max_size=10))
def test_no_request_goes_out_after_a_stop(before, after):
    state, _ = run(machine.Begun("lane"), *before, machine.StopAsked("user"))
    _, effects = run(*after, state=state)
    assert not any(isinstance(effect, machine.OpenAttempt) for effect in effects)
