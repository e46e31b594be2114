"""
One turn as a pure machine: (state, event) → (state, effects).

| phase | holds | leaves by |
|---|---|---|
| resolving | the lanes have been asked for | lanes → opening, or compacting if the history fills one; none → ending |
| compacting | older turns are being summarised | done → resolving; not done → resolving or ending |
| opening | a request is out, not yet accepted | armed or a delta → streaming; failure → backoff, resolving, compacting or ending |
| streaming | the backend answers | finish → ending; death → backoff, compacting or ending |
| backoff | waiting before the next request | over → resolving |
| ending | the end is being stored | stored → ended; not stored → tried again |
| ended | – | – |

Every phase before the end is left by a stop, and by the turn's budget, to ending; every phase by a supersession, which is
silent. Both are looked at before anything else, so no request goes out after them. What a loss leads to is the ladder's.
"""

from actors.messages import turn as events
from actors.messages.lane import FailureClass
from actors.turn import beginning, ending, ladder, losses, streaming
from actors.turn.effects import Effect, Emit, Vanish
from actors.turn.happenings import (
    Armed,
    BackoffOver,
    Begun,
    BudgetOver,
    Compacted,
    Delta,
    Event,
    Failed,
    Finished,
    FlushDue,
    Flushed,
    NotCompacted,
    Resolved,
    StopAsked,
    Superseded,
    Unresolved,
)
from actors.turn.settings import TurnSettings
from actors.turn.state import Lost, Phase, State
from actors.turn.steps import Step, replace, warning


def step(state: State, event: Event, settings: TurnSettings) -> Step:
    """Return what becomes of the turn, and what is to be done, in order."""
    return _numbered(state, *_step(state, event, settings))


def _step(state: State, event: Event, settings: TurnSettings) -> Step:
    if state.phase is Phase.ENDED:
        return state, ()
    if isinstance(event, Superseded):
        return replace(state, phase=Phase.ENDED), (*ending.cancel(state), Vanish())
    if state.phase is Phase.ENDING:
        return ending.store(state, event)
    match event:
        # The common one first: each pattern before it is paid for each chunk.
        case Delta():
            asked = state.phase is Phase.STREAMING or state.phase is Phase.OPENING
            return streaming.delta(state, event, settings) if asked else (state, ())
        case StopAsked(by=by):
            return ending.stop(state, by)
        case BudgetOver():
            return ending.run_out(state)
        case Armed() if state.phase is Phase.OPENING:
            return replace(state, phase=Phase.STREAMING, armed=True), ()
        case Finished() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return streaming.finish(state, event)
        case Failed() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return losses.lose(state, event, settings)
        case FlushDue():
            return streaming.flush(state)
        case Flushed():
            return streaming.flushed(state)
        case Begun():
            return beginning.begin(state, event)
        case Resolved(request=request) if state.phase is Phase.RESOLVING and request == state.request:
            return beginning.open_lane(state, event.lanes, settings)
        case Unresolved(request=request) if state.phase is Phase.RESOLVING and request == state.request:
            lost = Lost(FailureClass.CONNECT, event.error_class)
            return ending.give_up(state, ladder.reported(state, lost), warning(state, lost))
        case BackoffOver() if state.phase is Phase.BACKOFF:
            return losses.go_on(state)
        case Compacted() if state.phase is Phase.COMPACTING:
            return losses.compacted(state, event)
        case NotCompacted() if state.phase is Phase.COMPACTING:
            return losses.not_compacted(state, event)
    return state, ()


def _numbered(before: State, state: State, effects: tuple[Effect, ...]) -> Step:
    """Number the events, and each with the attempt that it is about."""
    seq, attempt, keep_upto = before.seq, max(1, before.attempt), before.keep_upto
    numbered: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Emit):
            if effect.kind is events.ThinkingStart:
                keep_upto, attempt = seq, state.attempt
            seq += 1
            fields = effect.fields
            if effect.kind is events.StreamDiscarded:
                fields = {"keep_upto": keep_upto}
            effect = Emit(effect.kind, fields, seq, attempt)
        numbered.append(effect)
    if seq == before.seq:
        return state, effects
    return replace(state, seq=seq, keep_upto=keep_upto), tuple(numbered)
