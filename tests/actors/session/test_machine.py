"""The session's machine, walked exhaustively: every reachable state meets every event."""

import msgspec
import pytest

from actors.messages.lifecycle import DownReason
from actors.messages.rows import Origin, TakenTurn, TurnRow, TurnState
from actors.session import machine
from actors.session.machine import Phase, State, step

TURN = TakenTurn(
    turn_id="t1", turn_gen=1, session_id="s", inbox_id="i1", origin=Origin.API, peer="api:x",
    route=None, history=(), params={}, detached=False, tries=1,
)  # fmt: skip
UNSEEN = TurnRow(
    turn_id="t0", session_id="s", inbox_id="i0", turn_gen=9, state=TurnState.RUNNING, reason=None, partial="",
    text=None, usage=None, origin=Origin.API, detached=False, tries=1, admitted_at=1.0, ended_at=None,
)  # fmt: skip
EVENTS = [
    machine.Mail(),
    machine.Taken(TURN),
    machine.Taken(None),
    machine.TakeRefused(False),
    machine.TakeRefused(True),
    machine.UnseenRead(()),
    machine.UnseenRead((UNSEEN,)),
    machine.UnseenRead(None),
    machine.Reclaimed(True),
    machine.Reclaimed(False),
    machine.Retry(),
    machine.EndStored(1, TurnState.COMMITTED, "peer"),
    machine.EndStored(0, TurnState.COMMITTED, None),
    machine.TurnGone(DownReason.NORMAL),
    machine.TurnGone(DownReason.CRASHED),
    machine.LostEndStored(1, True),
    machine.LostEndStored(1, False),
    machine.LostEndStored(0, True),
    machine.StopAsked("user", None),
    machine.StopAsked("user", "i1"),
    machine.StopAsked("user", "i2"),
    machine.Rested(),
    machine.LeaveAnswered(True),
    machine.LeaveAnswered(False),
    machine.Held(),
    machine.Cut(),
]


def possible(state: State, event: machine.Event) -> bool:
    """Say whether the runtime can produce the event in that state: answers follow questions."""
    match event:
        case machine.Taken() | machine.TakeRefused():
            return state.phase is Phase.TAKING
        case machine.UnseenRead() | machine.Reclaimed():
            return state.phase in (Phase.WAITING, Phase.LEAVING) and state.unsure
        case machine.TurnGone() | machine.EndStored():
            return state.phase is Phase.RUNNING
        case machine.LostEndStored():
            return state.phase is Phase.RUNNING
        case machine.LeaveAnswered():
            return state.phase is Phase.LEAVING
    return True


def walk():
    """Yield every (state, event, new state, effects) that can be reached."""
    start = State()
    seen, frontier = {msgspec.json.encode(start)}, [start]
    while frontier:
        state = frontier.pop()
        if state.failures > 3:
            continue
        for event in EVENTS:
            if not possible(state, event) or state.phase is Phase.GONE:
                continue
            new, effects = step(state, event)
            yield state, event, new, effects
            key = msgspec.json.encode(new)
            if key not in seen:
                seen.add(key)
                frontier.append(new)


WALK = list(walk())


def test_the_walk_reaches_every_phase():
    assert {new.phase for _, _, new, _ in WALK} == set(Phase)


def test_a_turn_starts_only_from_taking():
    for state, event, _, effects in WALK:
        if any(isinstance(effect, machine.StartTurn) for effect in effects):
            assert state.phase is Phase.TAKING and event == machine.Taken(TURN)


def test_nothing_is_taken_while_a_turn_runs():
    for state, event, new, effects in WALK:
        takes = [effect for effect in effects if isinstance(effect, machine.Take)]
        assert len(takes) <= 1
        if takes:
            assert new.phase is Phase.TAKING and new.turn is None
        if state.phase is Phase.RUNNING and takes:
            gone = isinstance(event, machine.TurnGone) and state.ended is not None
            assert gone or (event == machine.LostEndStored(1, True) and state.lost)


def test_no_turn_begins_on_hold():
    for state, _, _, effects in WALK:
        if state.holding:
            assert not any(isinstance(effect, machine.Take) for effect in effects)


def test_mail_is_never_forgotten():
    # Whoever rests with mail noted would sleep on it: no state may be idle with mail unless the daemon drains.
    for _, _, new, _ in WALK:
        assert not (new.phase is Phase.IDLE and new.mail and not new.holding)


def test_mail_during_a_look_leads_to_another_look():
    state, _ = step(State(), machine.Mail())
    state, effects = step(state, machine.Mail())
    assert effects == ()
    state, effects = step(state, machine.Taken(None))
    assert state.phase is Phase.TAKING and effects == (machine.Take(),)


def test_every_stop_is_answered_exactly_once():
    for _, event, _, effects in WALK:
        answers = [e for e in effects if isinstance(e, machine.AnswerStop | machine.BuryQueued)]
        assert len(answers) == (1 if isinstance(event, machine.StopAsked) else 0)


def test_a_stop_of_a_running_turn_reaches_it():
    state = State(phase=Phase.RUNNING, turn=TURN)
    for inbox_id in (None, "i1"):
        _, effects = step(state, machine.StopAsked("user", inbox_id))
        assert effects == (machine.StopRunning("user"), machine.AnswerStop(True))


def test_a_stop_of_a_waiting_message_leaves_the_running_turn_alone():
    _, effects = step(State(phase=Phase.RUNNING, turn=TURN), machine.StopAsked("client_gone", "i2"))
    assert effects == (machine.BuryQueued("i2", "client_gone"),)


def test_a_stop_that_comes_while_a_turn_is_taken_hits_that_turn():
    state, effects = step(State(phase=Phase.TAKING), machine.StopAsked("user", None))
    assert effects == (machine.AnswerStop(True),)
    state, effects = step(state, machine.Taken(TURN))
    assert effects == (machine.StartTurn(TURN), machine.StopRunning("user"))
    assert state.stop_by is None


def test_a_stop_that_found_no_turn_does_not_hit_a_later_one():
    state, _ = step(State(phase=Phase.TAKING), machine.StopAsked("user", None))
    state, _ = step(state, machine.Taken(None))
    state, _ = step(state, machine.Mail())
    _, effects = step(state, machine.Taken(TURN))
    assert effects == (machine.StartTurn(TURN),)


def test_a_crashed_turn_is_ended_before_the_next_look():
    state, effects = step(State(phase=Phase.RUNNING, turn=TURN), machine.TurnGone(DownReason.CRASHED))
    assert effects == (machine.EndLost(TURN),) and state.phase is Phase.RUNNING
    state, effects = step(state, machine.LostEndStored(1, False))
    assert effects == (machine.RetryLater(1),)
    state, effects = step(state, machine.Retry())
    assert effects == (machine.EndLost(TURN),)
    state, effects = step(state, machine.LostEndStored(1, True))
    assert effects == (machine.Take(),) and state.turn is None


def test_a_stale_generation_ends_nothing():
    state = State(phase=Phase.RUNNING, turn=TURN)
    assert step(state, machine.EndStored(0, TurnState.COMMITTED, "peer")) == (state, ())


def test_gone_only_after_the_grant():
    for state, event, new, effects in WALK:
        if new.phase is Phase.GONE:
            assert state.phase is Phase.LEAVING and event == machine.LeaveAnswered(True)
            assert effects == (machine.Leave(),)


def test_a_refused_leave_looks_again():
    state, effects = step(State(phase=Phase.LEAVING), machine.LeaveAnswered(False))
    assert state.phase is Phase.TAKING and effects == (machine.Take(),)


def test_the_store_away_is_waited_for_with_growing_counts():
    state = State(phase=Phase.TAKING)
    for n in (1, 2, 3):
        state, effects = step(state, machine.TakeRefused(False))
        assert effects == (machine.RetryLater(n),)
        state, effects = step(state, machine.Retry())
        assert machine.Take() in effects


def test_after_a_late_answer_nothing_is_taken_before_the_store_was_asked_what_began():
    state, effects = step(State(phase=Phase.TAKING), machine.TakeRefused(True))
    assert effects == (machine.RetryLater(1),)
    state, effects = step(state, machine.Retry())
    assert effects == (machine.FindUnseen(),)
    state, effects = step(state, machine.UnseenRead(None))
    assert effects == (machine.RetryLater(2),) and state.unsure
    state, _ = step(state, machine.Retry())
    state, effects = step(state, machine.UnseenRead((UNSEEN,)))
    assert effects == (machine.Reclaim(UNSEEN),) and state.unsure
    state, effects = step(state, machine.Reclaimed(True))
    assert effects == (machine.FindUnseen(),) and state.unsure
    state, effects = step(state, machine.UnseenRead(()))
    assert machine.Take() in effects and not state.unsure


def test_what_could_not_be_given_back_is_looked_for_again():
    state = State(phase=Phase.WAITING, unsure=True, failures=1)
    state, effects = step(state, machine.Reclaimed(False))
    assert effects == (machine.RetryLater(2),) and state.unsure
    assert step(state, machine.Retry())[1] == (machine.FindUnseen(),)


def test_nothing_is_taken_while_it_is_unsure():
    for state, event, new, effects in WALK:
        if state.unsure and not isinstance(event, machine.UnseenRead):
            assert not any(isinstance(effect, machine.Take) for effect in effects) or not new.unsure, (
                state,
                event,
            )


def test_hold_lets_a_running_turn_end_and_then_leaves():
    state, effects = step(State(phase=Phase.RUNNING, turn=TURN), machine.Held())
    assert effects == ()
    state, _ = step(state, machine.EndStored(1, TurnState.COMMITTED, None))
    state, effects = step(state, machine.TurnGone(DownReason.NORMAL))
    assert state.phase is Phase.LEAVING and machine.AskToLeave() in effects


def test_the_cut_interrupts_a_running_turn():
    _, effects = step(State(phase=Phase.RUNNING, turn=TURN, holding=True), machine.Cut())
    assert effects == (machine.StopRunning("shutdown"),)


def test_an_unknown_event_is_a_programming_error():
    with pytest.raises(TypeError):
        step(State(), machine.Event())
