"""The answer as it comes, and what of it is kept meanwhile. Pure."""

from actors.messages import turn as events
from actors.messages.turn import RunPhase
from actors.turn import ending, ends
from actors.turn.calls import Calls
from actors.turn.effects import ArmFlush, Effect, Emit, Flush
from actors.turn.happenings import Delta, Finished
from actors.turn.settings import TurnSettings
from actors.turn.state import Phase, State
from actors.turn.steps import Step, follow, replace
from actors.turn.text import Shown

FLUSH_SHARE = 8
"""A long text is flushed again when an eighth of it is new, so that all its flushes cost a few times its length."""


def delta(state: State, event: Delta, settings: TurnSettings) -> Step:
    """Show what a piece of the stream lets be shown."""
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
    new = replace(
        state, phase=Phase.STREAMING, armed=True, thinking=False, death=None, text=text, calls=calls
    )
    before = state.text.length
    return follow(new, effects, lambda now: _keep(now, before, settings))


def _keep(state: State, before: int, settings: TurnSettings) -> Step:
    """Flush the text so far if enough of it is new, or see to it that it will be; ``before`` is its former length."""
    length = state.text.length
    if state.flushing or length == before:
        return state, ()
    if length - state.flushed >= max(settings.flush_bytes, length // FLUSH_SHARE):
        return flush(state)
    return state, (ArmFlush(),) if state.flushed == before else ()


def flush(state: State) -> Step:
    """Give the text so far to the store."""
    if state.flushing or state.flushed == state.text.length:
        return state, ()
    partial = state.text.partial
    return replace(state, flushed=len(partial), flushing=True), (Flush(partial),)


def keep_now(state: State) -> Step:
    """Give what was said to the store, although it may have it; unless it has not answered for the last time yet."""
    if state.flushing:
        return state, ()
    return replace(state, flushing=True), (Flush(state.partial),)


def flushed(state: State) -> Step:
    """The store has it: what came meanwhile is next."""
    more = (ArmFlush(),) if state.flushed < state.text.length else ()
    return replace(state, flushing=False), more


def finish(state: State, event: Finished) -> Step:
    """The answer is whole."""
    text, shown = state.text.finish()
    whole = replace(state, text=text)
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
    return ending.settle(whole, end, effects)
