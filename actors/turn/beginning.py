"""How an answer begins: which lane is asked, and whether the history is shortened first. Pure."""

from actors.messages import turn as events
from actors.messages.lane import FailureClass, LaneBinding
from actors.messages.turn import RunPhase
from actors.notifier.notice import Cause
from actors.turn import ending, ladder
from actors.turn.calls import Calls
from actors.turn.effects import Compact, Effect, Emit, OpenAttempt, Resolve
from actors.turn.happenings import Begun
from actors.turn.settings import TurnSettings
from actors.turn.state import Aim, Lost, Phase, State
from actors.turn.steps import Step, follow, replace, warning
from actors.turn.text import Text


def begin(state: State, event: Begun) -> Step:
    """Say that the turn has begun, and begin its answer."""
    begun = replace(state, model=event.model, prompt_chars=event.prompt_chars, runs_tools=event.runs_tools)
    return follow(begun, (Emit(events.TurnStart),), start)


def start(state: State) -> Step:
    """Begin the answer, for the first time or again, from the primary lane."""
    return begin_answer(replace(state, aim=Aim.FIRST, given_up=(), refused=None))


def begin_answer(state: State) -> Step:
    """The same from the first lane that has not been given up."""
    begun = replace(state, attempt=state.attempt + 1, failures=0, thinking=True)
    shown = (Emit(events.ThinkingStart), Emit(events.StateChange, {"state": RunPhase.THINKING}))
    return follow(begun, shown, resolve)


def resolve(state: State) -> Step:
    """Ask for the lanes as they are now (TRN-5)."""
    request = state.request + 1
    return replace(state, phase=Phase.RESOLVING, request=request), (Resolve(request),)


def open_lane(state: State, lanes: tuple[LaneBinding, ...], settings: TurnSettings) -> Step:
    """Send the request to the lane that is next, unless the history has to be shortened for it first."""
    left = [lane for lane in lanes if lane.traits.name not in state.given_up]
    if not left:
        lost = ladder.reported(state, Lost(FailureClass.BAD_REQUEST, "NoLane"))
        no_lane = state.death is None and state.refused is None
        return ending.give_up(state, lost, warning(state, lost), Cause.NO_LANE if no_lane else None)
    before = state.lane.traits.name if state.lane is not None else None
    lane = left[0]
    if state.aim is Aim.SAME:
        # It may have been taken away meanwhile.
        lane = next((lane for lane in left if lane.traits.name == before), lane)
    if not state.cautious and _is_crowded(state, lane, settings):
        return replace(state, phase=Phase.COMPACTING, cautious=True), (Compact(lane),)
    name = lane.traits.name
    primary = state.primary or state.model or name
    shown: list[Effect] = []
    if name not in (primary, before):
        shown.append(Emit(events.LaneFallback, {"from_lane": before or primary, "to_lane": name}))
        if lane.degraded:
            shown.append(Emit(events.LaneDegraded, {"lane": name}))
    opened = replace(
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
