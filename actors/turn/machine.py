"""
One turn as a pure machine: (state, event) → (state, effects).

| phase | holds | leaves by |
|---|---|---|
| opening | a request is out, not yet accepted | armed or a delta → streaming; failure → backoff or ending |
| backoff | waiting before the next request | due → opening; stop → ending |
| streaming | the backend answers | finish, failure, stop → ending |
| ending | the end is being stored | stored → ended; not stored → tried again |
| ended | – | – |

A request that was not accepted is sent again, up to the ladder's tries. A stream that died after that is not: its text
has been shown. A stop is asked for before anything is classified, and after it no request goes out.
"""

import enum
from typing import Any

import msgspec

from actors.backoff import Backoff
from actors.messages import turn as events
from actors.messages.lane import RETRYABLE, TOOL_CALLS, FailureClass, ToolCallDelta
from actors.messages.rows import ToolCall, TurnState
from actors.messages.turn import RunPhase, TurnEvent
from actors.notifier.notice import Cause, notice
from actors.turn.calls import Calls
from actors.turn.settings import TurnSettings

CANCELLED_MARK = "[generation cancelled before completion]"
SHUTDOWN_MARK = "[interrupted by shutdown]"
FLUSH_SHARE = 8
"""A long text is flushed again when an eighth of it is new, so that all its flushes cost a few times its length."""

BROKEN_OFF_MARK = "[the answer broke off here]"


class Phase(enum.IntEnum):
    """What the turn is at, in order; only a retry goes back, from backoff to opening."""

    OPENING = 0
    BACKOFF = 1
    STREAMING = 2
    ENDING = 3
    ENDED = 4


class End(msgspec.Struct, frozen=True):
    """How the turn ends: what is stored in one transaction."""

    state: TurnState
    reason: str | None = None
    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    interrupted_text: str | None = None
    notice: str | None = None
    usage: dict[str, int] | None = None


class State(msgspec.Struct, frozen=True):
    """All that decides."""

    phase: Phase = Phase.OPENING
    attempt: int = 1
    text: str = ""
    calls: Calls = Calls()
    """The answer's tool calls so far."""
    runs_tools: bool = True
    """Whether there is a client that can run them; else they are no part of the answer."""
    flushed: int = 0
    """How many characters of the text were given to the store."""
    flushing: bool = False
    """The store has not answered that yet. Each flush holds the whole text: one at a time is enough."""
    thinking: bool = True
    """No delta of this attempt was seen yet."""
    end: End | None = None
    store_failures: int = 0


# Events


class Event(msgspec.Struct, frozen=True):
    """Something that happened to the turn."""


class Begun(Event, frozen=True):
    """The turn's actor runs; ``lane`` is the one that serves it, None if there is none of that name."""

    lane: str | None


class Armed(Event, frozen=True):
    """The backend accepted the request."""


class Delta(Event, frozen=True):
    """A piece of the answer, or of the reasoning."""

    text: str
    reasoning: str
    calls: tuple[ToolCallDelta, ...] = ()


class Finished(Event, frozen=True):
    """The stream came to its end."""

    finish_reason: str | None
    usage: dict[str, int] | None


class Failed(Event, frozen=True):
    """The request or the stream failed; ``fraction`` (0 … 1) is the jitter of a wait that may follow."""

    failure: FailureClass
    error_class: str
    retry_after: float | None
    fraction: float


class RetryDue(Event, frozen=True):
    """The backoff is over."""


class FlushDue(Event, frozen=True):
    """The flush interval is over."""


class Flushed(Event, frozen=True):
    """The store has taken the text so far, or has not: the end will hold all of it."""


class StopAsked(Event, frozen=True):
    """Somebody stops the turn."""

    by: str


class BudgetOver(Event, frozen=True):
    """The whole turn has used up its time."""


class Stored(Event, frozen=True):
    """The end is durable."""


class StoreFailed(Event, frozen=True):
    """The end is not durable, or nobody knows."""


class Superseded(Event, frozen=True):
    """The store says that this turn is not the running one any more."""


# Effects


class Effect(msgspec.Struct, frozen=True):
    """Something for the actor to do."""


class OpenAttempt(Effect, frozen=True):
    """Send the request to the lane."""

    attempt: int


class CancelAttempt(Effect, frozen=True):
    """Close the attempt's stream."""

    attempt: int


class Emit(Effect, frozen=True):
    """Publish an event: its class, and its fields beside the turn's own."""

    kind: type[TurnEvent]
    fields: dict[str, Any] = {}


class ArmRetry(Effect, frozen=True):
    """Wait before the next request."""

    delay: float


class DisarmRetry(Effect, frozen=True):
    """Wait no longer."""


class ArmFlush(Effect, frozen=True):
    """Start the flush interval."""


class Flush(Effect, frozen=True):
    """Give the text so far to the store, without waiting."""

    text: str


class Store(Effect, frozen=True):
    """Make the end durable."""

    end: End


class StoreAgain(Effect, frozen=True):
    """Try again after the n-th failure in a row."""

    failures: int


class Leave(Effect, frozen=True):
    """Tell the session how it ended, and end."""

    end: End


class Vanish(Effect, frozen=True):
    """End without a word: another turn has taken over."""


Step = tuple[State, tuple[Effect, ...]]

_CAUSES = {
    FailureClass.CONNECT: Cause.CONNECT,
    FailureClass.TIMEOUT: Cause.TIMEOUT,
    FailureClass.STALLED: Cause.TIMEOUT,
    FailureClass.INCOMPLETE: Cause.STREAM_DIED,
    FailureClass.RATE_LIMITED: Cause.RATE_LIMITED,
    FailureClass.SERVER_ERROR: Cause.SERVER_ERROR,
    FailureClass.AUTH_REFUSED: Cause.AUTH_REFUSED,
    FailureClass.BAD_REQUEST: Cause.BAD_REQUEST,
    FailureClass.OVERFLOW: Cause.OVERFLOW,
    FailureClass.PROTOCOL: Cause.SERVER_ERROR,
    FailureClass.PREPARATION: Cause.BAD_REQUEST,
}


def step(state: State, event: Event, settings: TurnSettings) -> Step:
    """Return what becomes of the turn, and what is to be done, in order."""
    if state.phase is Phase.ENDED:
        return state, ()
    if state.phase is Phase.ENDING:
        return _ending(state, event)
    match event:
        case StopAsked(by=by):
            return _stop(state, by)
        case BudgetOver():
            return _over(state)
        case Begun(lane=lane):
            return _begin(state, lane)
        case Armed() if state.phase is Phase.OPENING:
            return msgspec.structs.replace(state, phase=Phase.STREAMING), ()
        case Delta() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return _delta(state, event, settings)
        case Finished() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return _finish(state, event)
        case Failed() if state.phase in (Phase.OPENING, Phase.STREAMING):
            return _fail(state, event, settings)
        case RetryDue() if state.phase is Phase.BACKOFF:
            return _open(msgspec.structs.replace(state, attempt=state.attempt + 1))
        case FlushDue():
            return _flush(state)
        case Flushed():
            return _flushed(state)
    return state, ()


def _begin(state: State, lane: str | None) -> Step:
    if lane is None:
        failed = Failed(FailureClass.BAD_REQUEST, "NoLane", None, 0.0)
        return _end_failed(state, failed, Cause.NO_LANE, (Emit(events.TurnStart),))
    opened, effects = _open(state)
    return opened, (Emit(events.TurnStart), *effects)


def _open(state: State) -> Step:
    opened = msgspec.structs.replace(state, phase=Phase.OPENING, thinking=True)
    shown = (Emit(events.ThinkingStart), Emit(events.StateChange, {"state": RunPhase.THINKING}))
    return opened, (*shown, OpenAttempt(opened.attempt))


def _delta(state: State, event: Delta, settings: TurnSettings) -> Step:
    effects: list[Effect] = []
    if state.thinking:
        effects += (Emit(events.ThinkingStop), Emit(events.StateChange, {"state": RunPhase.RUNNING}))
    if event.reasoning:
        effects.append(Emit(events.Reasoning, {"text": event.reasoning}))
    text = state.text
    flushed = state.flushed
    if event.text:
        text += event.text
        effects.append(Emit(events.Content, {"text": event.text}))
        if state.flushing:
            pass
        elif len(text) - flushed >= max(settings.flush_bytes, len(text) // FLUSH_SHARE):
            effects.append(Flush(text))
            flushed = len(text)
        elif flushed == len(state.text):
            effects.append(ArmFlush())
    calls = state.calls
    if event.calls and state.runs_tools:
        calls = calls.feed(event.calls)
        effects.append(Emit(events.ToolCalls, {"calls": event.calls}))
    new = msgspec.structs.replace(
        state,
        phase=Phase.STREAMING,
        thinking=False,
        text=text,
        calls=calls,
        flushed=flushed,
        flushing=state.flushing or flushed != state.flushed,
    )
    return new, tuple(effects)


def _flush(state: State) -> Step:
    if state.flushing or state.flushed == len(state.text):
        return state, ()
    return msgspec.structs.replace(state, flushed=len(state.text), flushing=True), (Flush(state.text),)


def _flushed(state: State) -> Step:
    more = (ArmFlush(),) if state.flushed < len(state.text) else ()
    return msgspec.structs.replace(state, flushing=False), more


def _finish(state: State, event: Finished) -> Step:
    usage = event.usage
    end = End(TurnState.COMMITTED, reason=event.finish_reason, text=state.text, usage=usage)
    if state.calls.calls and event.finish_reason == TOOL_CALLS:
        end = msgspec.structs.replace(end, tool_calls=state.calls.calls)
    elif state.calls.calls:
        # Nobody knows what the last one would have been (TRN-55).
        end = msgspec.structs.replace(end, notice=notice(Cause.CALLS_CUT_OFF))
    elif not state.text:
        end = msgspec.structs.replace(end, notice=notice(Cause.EMPTY))
    shown = (
        Emit(events.StreamEnd),
        Emit(events.StatusUpdate, {"usage": usage, "estimated": False}),
        Emit(events.TurnCommitted, {"finish_reason": event.finish_reason}),
    )
    return _end(state, end, shown)


def _fail(state: State, event: Failed, settings: TurnSettings) -> Step:
    armed = state.phase is Phase.STREAMING
    if armed or event.failure not in RETRYABLE or state.attempt >= settings.creation_tries:
        shown = (Emit(events.StreamEnd),) if armed else ()
        return _end_failed(state, event, _CAUSES[event.failure], shown)
    backoff = Backoff(settings.retry_base_s, settings.retry_cap_s)
    delay = backoff.delay(state.attempt, event.fraction)
    if event.retry_after is not None:
        delay = max(delay, min(event.retry_after, settings.retry_after_cap_s))
    told = Emit(events.LaneRetry, {"error_class": event.error_class, "n": state.attempt, "delay_s": delay})
    return msgspec.structs.replace(state, phase=Phase.BACKOFF), (told, ArmRetry(delay))


def _end_failed(state: State, event: Failed, cause: Cause, shown: tuple[Effect, ...]) -> Step:
    text = notice(cause)
    end = End(
        TurnState.FAILED,
        reason=str(cause),
        interrupted_text=f"{state.text}\n\n{BROKEN_OFF_MARK}" if state.text else None,
        notice=text,
    )
    told = Emit(events.TurnError, {"category": str(cause), "error_class": event.error_class, "text": text})
    return _end(state, end, (*shown, told))


def _stop(state: State, by: str) -> Step:
    shown: list[Effect] = []
    if state.phase is Phase.BACKOFF:
        shown.append(DisarmRetry())
    else:
        shown.append(CancelAttempt(state.attempt))
    if state.phase is Phase.STREAMING:
        shown.append(Emit(events.StreamEnd))
    shown.append(Emit(events.Cancelled, {"by": by}))
    if by == "shutdown":
        return _end(state, _interrupted(state), tuple(shown))
    text: str | None = None
    if state.text:
        text = f"{state.text}\n\n{CANCELLED_MARK}"
    elif state.phase is Phase.STREAMING:
        text = CANCELLED_MARK
    return _end(state, End(TurnState.CANCELLED, reason=by, text=text), tuple(shown))


def _interrupted(state: State) -> End:
    return End(
        TurnState.INTERRUPTED,
        reason=str(Cause.SHUTDOWN),
        interrupted_text=f"{state.text}\n\n{SHUTDOWN_MARK}" if state.text else SHUTDOWN_MARK,
        notice=notice(Cause.SHUTDOWN),
    )


def _over(state: State) -> Step:
    cancel: Effect = DisarmRetry() if state.phase is Phase.BACKOFF else CancelAttempt(state.attempt)
    ended = (Emit(events.StreamEnd),) if state.phase is Phase.STREAMING else ()
    failed = Failed(FailureClass.TIMEOUT, "TurnBudgetExceeded", None, 0.0)
    return _end_failed(state, failed, Cause.TIMEOUT, (cancel, *ended))


def _end(state: State, end: End, shown: tuple[Effect, ...]) -> Step:
    return msgspec.structs.replace(state, phase=Phase.ENDING, end=end), (*shown, Store(end))


def _ending(state: State, event: Event) -> Step:
    assert state.end is not None
    match event:
        case Stored():
            return msgspec.structs.replace(state, phase=Phase.ENDED), (
                _last(state, state.end),
                Leave(state.end),
            )
        case StoreFailed():
            failures = state.store_failures + 1
            return msgspec.structs.replace(state, store_failures=failures), (StoreAgain(failures),)
        case RetryDue():
            return state, (Store(state.end),)
        case Superseded():
            return msgspec.structs.replace(state, phase=Phase.ENDED), (Vanish(),)
    return state, ()


def _last(state: State, end: End) -> Emit:
    if end.state in (TurnState.FAILED, TurnState.INTERRUPTED):
        return Emit(events.StateChange, {"state": RunPhase.ERROR, "text": end.notice})
    return Emit(events.StateChange, {"state": RunPhase.IDLE, "text": state.text})
