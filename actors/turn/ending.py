"""How a turn ends: by a stop, by a failure that has no way on, or well; and how its end is stored. Pure."""

from collections.abc import Iterable

from actors.messages import turn as events
from actors.messages.lane import FailureClass
from actors.messages.rows import TurnState
from actors.messages.turn import RunPhase
from actors.notifier.notice import Cause
from actors.turn import ends
from actors.turn.effects import (
    CancelAttempt,
    CancelCompaction,
    DisarmBackoff,
    Effect,
    Emit,
    Leave,
    Store,
    StoreAgain,
    Warn,
)
from actors.turn.happenings import BackoffOver, Event, Stored, StoreFailed
from actors.turn.state import End, Lost, Phase, State
from actors.turn.steps import Step, replace


def give_up(state: State, lost: Lost, shown: Iterable[Effect], cause: Cause | None = None) -> Step:
    """There is no way on: the turn fails, as ``cause`` or as what was lost says."""
    cause = cause or ends.CAUSES[lost.failure]
    end = ends.failed(state, lost, cause)
    name = ends.error_class(lost)
    told = Emit(events.TurnError, {"category": str(cause), "error_class": name, "text": end.error})
    logged = Warn("turn.failed", {"category": str(cause), "error_class": lost.error_class}, severe=True)
    return settle(state, end, (*shown, told, logged))


def stop(state: State, by: str) -> Step:
    """Somebody stops it: what was said stays."""
    shown = list(cancel(state))
    if state.phase is Phase.STREAMING:
        shown.append(Emit(events.StreamEnd))
    shown.append(Emit(events.Cancelled, {"by": by}))
    return settle(state, ends.stopped(state, by), shown)


def run_out(state: State) -> Step:
    """Its time is over."""
    shown = list(cancel(state))
    if state.phase is Phase.STREAMING:
        shown.append(Emit(events.StreamEnd))
    if state.phase is Phase.STREAMING or (state.phase is Phase.BACKOFF and state.death is not None):
        shown.append(Emit(events.StreamDiscarded))
    return give_up(state, Lost(FailureClass.TIMEOUT, "TurnBudgetExceeded"), shown)


def cancel(state: State) -> tuple[Effect, ...]:
    """Return what makes sure that no request goes out, or goes on, from here."""
    match state.phase:
        case Phase.BACKOFF:
            return (DisarmBackoff(),)
        case Phase.COMPACTING:
            return (CancelCompaction(),)
        case Phase.OPENING | Phase.STREAMING if state.lane is not None:
            return (CancelAttempt(state.request, state.lane),)
    return ()


def settle(state: State, end: End, shown: Iterable[Effect]) -> Step:
    """End it so, and make that durable."""
    return replace(state, phase=Phase.ENDING, end=end), (*shown, Store(end))


def store(state: State, event: Event) -> Step:
    """Try until the end is durable, and only then say so."""
    assert state.end is not None
    match event:
        case Stored():
            return replace(state, phase=Phase.ENDED), (_last(state, state.end), Leave(state.end))
        case StoreFailed():
            failures = state.store_failures + 1
            return replace(state, store_failures=failures), (StoreAgain(failures),)
        case BackoffOver():
            return state, (Store(state.end),)
    return state, ()


def _last(state: State, end: End) -> Emit:
    if end.state in (TurnState.FAILED, TurnState.INTERRUPTED):
        return Emit(events.StateChange, {"state": RunPhase.ERROR, "text": end.notice})
    text = end.text if end.state is TurnState.COMMITTED else state.partial
    return Emit(events.StateChange, {"state": RunPhase.IDLE, "text": text})
