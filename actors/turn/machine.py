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

from collections.abc import Callable, Iterable

import msgspec

from actors.messages import turn as events
from actors.messages.lane import FailureClass, LaneBinding
from actors.messages.rows import TurnState
from actors.messages.turn import RunPhase
from actors.notifier.notice import Cause
from actors.turn import ends, ladder
from actors.turn.calls import Calls
from actors.turn.effects import (
    ArmBackoff,
    ArmFlush,
    CancelAttempt,
    CancelCompaction,
    Compact,
    DisarmBackoff,
    Effect,
    Emit,
    Flush,
    Leave,
    OpenAttempt,
    Resolve,
    Store,
    StoreAgain,
    Vanish,
    Warn,
)
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
    Stored,
    StoreFailed,
    Superseded,
    Unresolved,
)
from actors.turn.settings import TurnSettings
from actors.turn.state import Aim, End, Lost, Phase, State
from actors.turn.text import Shown, Text

FLUSH_SHARE = 8
"""A long text is flushed again when an eighth of it is new, so that all its flushes cost a few times its length."""

Step = tuple[State, tuple[Effect, ...]]


def step(state: State, event: Event, settings: TurnSettings) -> Step:
    """Return what becomes of the turn, and what is to be done, in order."""
    return _numbered(state, *_step(state, event, settings))


def _step(state: State, event: Event, settings: TurnSettings) -> Step:
    if state.phase is Phase.ENDED:
        return state, ()
    if isinstance(event, Superseded):
        return _replace(state, phase=Phase.ENDED), (*_cancel(state), Vanish())
    if state.phase is Phase.ENDING:
        return _ending(state, event)
    match event:
        case StopAsked(by=by):
            return _stop(state, by)
        case BudgetOver():
            return _over(state)
        case Delta() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return _delta(state, event, settings)
        case Armed() if state.phase is Phase.OPENING:
            return _replace(state, phase=Phase.STREAMING, armed=True), ()
        case Finished() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return _finish(state, event)
        case Failed() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return _lose(state, event, settings)
        case FlushDue():
            return _flush(state)
        case Flushed():
            return _flushed(state)
        case Begun():
            return _begin(state, event)
        case Resolved(request=request) if state.phase is Phase.RESOLVING and request == state.request:
            return _open(state, event.lanes, settings)
        case Unresolved(request=request) if state.phase is Phase.RESOLVING and request == state.request:
            lost = Lost(FailureClass.CONNECT, event.error_class)
            return _give_up(state, ladder.reported(state, lost), _warning(state, lost))
        case BackoffOver() if state.phase is Phase.BACKOFF:
            return _go_on(state)
        case Compacted() if state.phase is Phase.COMPACTING:
            return _compacted(state, event)
        case NotCompacted() if state.phase is Phase.COMPACTING:
            return _not_compacted(state, event)
    return state, ()


# The beginning of an answer


def _begin(state: State, event: Begun) -> Step:
    begun = _replace(state, model=event.model, prompt_chars=event.prompt_chars, runs_tools=event.runs_tools)
    return _follow(begun, (Emit(events.TurnStart),), _start)


def _start(state: State) -> Step:
    """Begin the answer, for the first time or again, from the primary lane."""
    return _begin_answer(_replace(state, aim=Aim.FIRST, given_up=(), refused=None))


def _begin_answer(state: State) -> Step:
    begun = _replace(state, attempt=state.attempt + 1, failures=0, thinking=True)
    shown = (Emit(events.ThinkingStart), Emit(events.StateChange, {"state": RunPhase.THINKING}))
    return _follow(begun, shown, _resolve)


def _resolve(state: State) -> Step:
    request = state.request + 1
    return _replace(state, phase=Phase.RESOLVING, request=request), (Resolve(request),)


def _open(state: State, lanes: tuple[LaneBinding, ...], settings: TurnSettings) -> Step:
    left = [lane for lane in lanes if lane.traits.name not in state.given_up]
    if not left:
        lost = ladder.reported(state, Lost(FailureClass.BAD_REQUEST, "NoLane"))
        no_lane = state.death is None and state.refused is None
        return _give_up(state, lost, _warning(state, lost), Cause.NO_LANE if no_lane else None)
    before = state.lane.traits.name if state.lane is not None else None
    lane = left[0]
    if state.aim is Aim.SAME:
        # It may have been taken away meanwhile.
        lane = next((lane for lane in left if lane.traits.name == before), lane)
    if not state.cautious and _is_crowded(state, lane, settings):
        return _replace(state, phase=Phase.COMPACTING, cautious=True), (Compact(lane),)
    name = lane.traits.name
    primary = state.primary or state.model or name
    shown: list[Effect] = []
    if name not in (primary, before):
        shown.append(Emit(events.LaneFallback, {"from_lane": before or primary, "to_lane": name}))
        if lane.degraded:
            shown.append(Emit(events.LaneDegraded, {"lane": name}))
    opened = _replace(
        state,
        phase=Phase.OPENING,
        lane=lane,
        primary=primary,
        others=len(left) > 1,
        failures=state.failures if name == before and state.aim is Aim.SAME else 0,
        text=Text(lane.traits.think_tags, lane.traits.hold_back),
        calls=Calls(),
        flushed=0,
    )
    return opened, (*shown, OpenAttempt(state.request, lane))


def _is_crowded(state: State, lane: LaneBinding, settings: TurnSettings) -> bool:
    window = lane.traits.context_window
    if window is None:
        return False
    return state.prompt_chars > settings.compact_share * window * lane.traits.chars_per_token


def _go_on(state: State) -> Step:
    """A wait is over: ask the lane again, or let the answer begin again."""
    if state.aim is Aim.SAME:
        return _resolve(state)
    return _follow(_discarded(state), (Emit(events.StreamDiscarded),), _start)


def _compacted(state: State, event: Compacted) -> Step:
    shorter = _replace(state, prompt_chars=event.prompt_chars)
    # As a precaution it came before the request that it is for.
    return _follow(shorter, (Emit(events.Compacted),), _start if state.compacted else _resolve)


def _not_compacted(state: State, event: NotCompacted) -> Step:
    told = Warn("turn.not_compacted", {"error_class": event.error_class})
    if not state.compacted:
        # It may fit all the same.
        return _follow(state, (told,), _resolve)
    lost = Lost(FailureClass.OVERFLOW, event.error_class)
    left, shown = _gave_up_lane(state, lost)
    if state.others:
        return _follow(left, (told, *shown), _begin_answer)
    return _give_up(left, ladder.reported(left, lost), (told, *shown))


# The answer


def _delta(state: State, event: Delta, settings: TurnSettings) -> Step:
    effects: list[Effect] = []
    if state.thinking:
        effects += (Emit(events.ThinkingStop), Emit(events.StateChange, {"state": RunPhase.RUNNING}))
    text, shown = state.text.feed(event.text) if event.text else (state.text, Shown())
    reasoning = event.reasoning + shown.reasoning
    if reasoning:
        effects.append(Emit(events.Reasoning, {"text": reasoning}))
    if shown.content:
        effects.append(Emit(events.Content, {"text": shown.content}))
    calls = state.calls
    if event.calls and state.runs_tools:
        calls = calls.feed(event.calls)
        if not text.hold_back:
            effects.append(Emit(events.ToolCalls, {"calls": event.calls}))
    new = _replace(
        state, phase=Phase.STREAMING, armed=True, thinking=False, death=None, text=text, calls=calls
    )
    before = len(state.text.partial)
    return _follow(new, effects, lambda now: _keep(now, before, settings))


def _keep(state: State, before: int, settings: TurnSettings) -> Step:
    """Flush the text so far if enough of it is new, or see to it that it will be; ``before`` is its former length."""
    length = len(state.text.partial)
    if state.flushing or length == before:
        return state, ()
    if length - state.flushed >= max(settings.flush_bytes, length // FLUSH_SHARE):
        return _flush(state)
    return state, (ArmFlush(),) if state.flushed == before else ()


def _flush(state: State) -> Step:
    partial = state.text.partial
    if state.flushing or state.flushed == len(partial):
        return state, ()
    return _replace(state, flushed=len(partial), flushing=True), (Flush(partial),)


def _flushed(state: State) -> Step:
    more = (ArmFlush(),) if state.flushed < len(state.text.partial) else ()
    return _replace(state, flushing=False), more


def _finish(state: State, event: Finished) -> Step:
    text, shown = state.text.finish()
    whole = _replace(state, text=text)
    effects: list[Effect] = []
    if shown.reasoning:
        effects.append(Emit(events.Reasoning, {"text": shown.reasoning}))
    if shown.content:
        effects.append(Emit(events.Content, {"text": shown.content}))
    end = ends.committed(whole, event)
    if end.tool_calls and text.hold_back:
        effects.append(Emit(events.ToolCalls, {"calls": whole.calls.beyond(Calls())}))
    effects += (
        Emit(events.StreamEnd),
        Emit(events.StatusUpdate, {"usage": end.usage, "estimated": end.estimated}),
        Emit(events.TurnCommitted, {"finish_reason": event.finish_reason}),
    )
    return _end(whole, end, effects)


# Losses


def _lose(state: State, event: Failed, settings: TurnSettings) -> Step:
    lost = Lost(event.failure, event.error_class)
    way = ladder.after(state, event, settings)
    if state.phase is Phase.STREAMING:
        return _die(state, event, lost, way, settings)
    match way:
        case ladder.Step.AGAIN:
            failures = state.failures + 1
            delay = ladder.delay(failures, event, settings)
            told = {"lane": _name(state), "error_class": lost.error_class, "n": failures, "delay_s": delay}
            waiting = _replace(state, phase=Phase.BACKOFF, aim=Aim.SAME, failures=failures)
            return waiting, (Emit(events.LaneRetry, told), ArmBackoff(delay))
        case ladder.Step.COMPACT:
            return _compact(state, ())
    left, shown = _gave_up_lane(state, lost)
    if way is ladder.Step.NEXT_LANE:
        return _follow(left, shown, _resolve)
    return _give_up(left, ladder.reported(left, lost), shown)


def _die(state: State, event: Failed, lost: Lost, way: ladder.Step, settings: TurnSettings) -> Step:
    if way is ladder.Step.COMPACT:
        return _compact(_discarded(state), (Emit(events.StreamEnd), Emit(events.StreamDiscarded)))
    if lost.failure is FailureClass.OVERFLOW:
        return _give_up(state, lost, (Emit(events.StreamEnd), Emit(events.StreamDiscarded)))
    deaths = state.deaths + 1
    dead = _replace(state, deaths=deaths, death=lost)
    if way is ladder.Step.GIVE_UP:
        return _give_up(dead, lost, (Emit(events.StreamEnd), Emit(events.StreamDiscarded)))
    delay = ladder.delay(deaths, event, settings)
    retry = {"error_class": lost.error_class, "n": deaths, "of": settings.stream_tries - 1, "delay_s": delay}
    return _replace(dead, phase=Phase.BACKOFF, aim=Aim.FIRST), (
        Emit(events.StreamEnd),
        Emit(events.Retry, retry),
        Warn("stream.retry", {"lane": _name(state), **retry}),
        ArmBackoff(delay),
    )


def _gave_up_lane(state: State, lost: Lost) -> tuple[State, tuple[Effect, ...]]:
    name = _name(state)
    told: tuple[Effect, ...] = ()
    if state.death is not None:
        told = (Warn("stream.retry.recreate_failed", {"lane": name, "error_class": lost.error_class}),)
    if name != state.primary:
        told = (*told, Emit(events.LaneFailed, {"lane": name, "error_class": lost.error_class}))
    left = _replace(state, given_up=(*state.given_up, name), refused=state.refused or lost, aim=Aim.NEXT)
    return left, told


def _compact(state: State, shown: tuple[Effect, ...]) -> Step:
    assert state.lane is not None
    compacting = _replace(state, phase=Phase.COMPACTING, compacted=True, cautious=True, death=None)
    return compacting, (*shown, Emit(events.Overflow), Compact(state.lane))


def _discarded(state: State) -> State:
    return _replace(state, kept=state.partial, text=Text(), calls=Calls(), flushed=0)


# Ends


def _give_up(state: State, lost: Lost, shown: Iterable[Effect], cause: Cause | None = None) -> Step:
    cause = cause or ends.CAUSES[lost.failure]
    end = ends.failed(state, lost, cause)
    name = ends.error_class(lost)
    told = Emit(events.TurnError, {"category": str(cause), "error_class": name, "text": end.error})
    logged = Warn("turn.failed", {"category": str(cause), "error_class": lost.error_class}, severe=True)
    return _end(state, end, (*shown, told, logged))


def _stop(state: State, by: str) -> Step:
    shown = list(_cancel(state))
    if state.phase is Phase.STREAMING:
        shown.append(Emit(events.StreamEnd))
    shown.append(Emit(events.Cancelled, {"by": by}))
    return _end(state, ends.stopped(state, by), shown)


def _over(state: State) -> Step:
    shown = list(_cancel(state))
    if state.phase is Phase.STREAMING:
        shown.append(Emit(events.StreamEnd))
    if state.phase is Phase.STREAMING or (state.phase is Phase.BACKOFF and state.death is not None):
        shown.append(Emit(events.StreamDiscarded))
    return _give_up(state, Lost(FailureClass.TIMEOUT, "TurnBudgetExceeded"), shown)


def _cancel(state: State) -> tuple[Effect, ...]:
    """Return what makes sure that no request goes out, or goes on, from here."""
    match state.phase:
        case Phase.BACKOFF:
            return (DisarmBackoff(),)
        case Phase.COMPACTING:
            return (CancelCompaction(),)
        case Phase.OPENING | Phase.STREAMING if state.lane is not None:
            return (CancelAttempt(state.request, state.lane),)
    return ()


def _end(state: State, end: End, shown: Iterable[Effect]) -> Step:
    return _replace(state, phase=Phase.ENDING, end=end), (*shown, Store(end))


def _ending(state: State, event: Event) -> Step:
    assert state.end is not None
    match event:
        case Stored():
            return _replace(state, phase=Phase.ENDED), (_last(state, state.end), Leave(state.end))
        case StoreFailed():
            failures = state.store_failures + 1
            return _replace(state, store_failures=failures), (StoreAgain(failures),)
        case BackoffOver():
            return state, (Store(state.end),)
    return state, ()


def _last(state: State, end: End) -> Emit:
    if end.state in (TurnState.FAILED, TurnState.INTERRUPTED):
        return Emit(events.StateChange, {"state": RunPhase.ERROR, "text": end.notice})
    text = end.text if end.state is TurnState.COMMITTED else state.partial
    return Emit(events.StateChange, {"state": RunPhase.IDLE, "text": text})


# Parts


def _follow(state: State, shown: Iterable[Effect], go_on: Callable[[State], Step]) -> Step:
    """Do what comes first, and then what the next step wants."""
    new, effects = go_on(state)
    return new, (*shown, *effects)


def _name(state: State) -> str:
    return state.lane.traits.name if state.lane is not None else ""


def _warning(state: State, lost: Lost) -> tuple[Effect, ...]:
    if state.death is None:
        return ()
    return (Warn("stream.retry.recreate_failed", {"lane": _name(state), "error_class": lost.error_class}),)


def _numbered(before: State, state: State, effects: tuple[Effect, ...]) -> Step:
    """Number the events, and each with the attempt that it is about."""
    if not any(isinstance(effect, Emit) for effect in effects):
        return state, effects
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
    return _replace(state, seq=seq, keep_upto=keep_upto), tuple(numbered)


_replace = msgspec.structs.replace
