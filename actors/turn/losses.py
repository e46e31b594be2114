"""What is done about an attempt that came to nothing: the ladder says which way, this goes it. Pure."""

from actors.messages import turn as events
from actors.messages.lane import FailureClass
from actors.turn import beginning, ending, ladder, streaming
from actors.turn.calls import Calls
from actors.turn.effects import ArmBackoff, Compact, Effect, Emit, Warn
from actors.turn.happenings import Compacted, Failed, NotCompacted
from actors.turn.settings import TurnSettings
from actors.turn.state import Aim, Lost, Phase, State
from actors.turn.steps import Step, follow, lane_name, replace, warning
from actors.turn.text import Text


def lose(state: State, event: Failed, settings: TurnSettings) -> Step:
    """
    Go on after a request that was not accepted, or a stream that died.

    What was said is kept, whether or not it is time for that: so the turn hears whether it is still the running one.
    """
    new, effects = _lose(state, event, settings)
    if new.phase is Phase.ENDING:
        # The store says so of the end.
        return new, effects
    new, kept = streaming.keep_now(new)
    return new, (*kept, *effects)


def _lose(state: State, event: Failed, settings: TurnSettings) -> Step:
    lost = Lost(event.failure, event.error_class)
    way = ladder.after(state, event, settings)
    if state.phase is Phase.STREAMING:
        return _die(state, event, lost, way, settings)
    match way:
        case ladder.Step.AGAIN:
            failures = state.failures + 1
            delay = ladder.delay(failures, event, settings)
            told = {
                "lane": lane_name(state),
                "error_class": lost.error_class,
                "n": failures,
                "delay_s": delay,
            }
            waiting = replace(state, phase=Phase.BACKOFF, aim=Aim.SAME, failures=failures)
            return waiting, (Emit(events.LaneRetry, told), ArmBackoff(delay))
        case ladder.Step.COMPACT:
            return _compact(state, ())
    left, shown = _gave_up_lane(state, lost)
    if way is ladder.Step.NEXT_LANE:
        return follow(left, shown, beginning.resolve)
    return ending.give_up(left, ladder.reported(left, lost), shown)


def _die(state: State, event: Failed, lost: Lost, way: ladder.Step, settings: TurnSettings) -> Step:
    if way is ladder.Step.COMPACT:
        return _compact(_discarded(state), (Emit(events.StreamEnd), Emit(events.StreamDiscarded)))
    if lost.failure is FailureClass.OVERFLOW:
        return ending.give_up(state, lost, (Emit(events.StreamEnd), Emit(events.StreamDiscarded)))
    deaths = state.deaths + 1
    dead = replace(state, deaths=deaths, death=lost)
    if way is ladder.Step.GIVE_UP:
        return ending.give_up(dead, lost, (Emit(events.StreamEnd), Emit(events.StreamDiscarded)))
    delay = ladder.delay(deaths, event, settings)
    retry = {"error_class": lost.error_class, "n": deaths, "of": settings.stream_tries - 1, "delay_s": delay}
    return replace(dead, phase=Phase.BACKOFF, aim=Aim.FIRST), (
        Emit(events.StreamEnd),
        Emit(events.Retry, retry),
        Warn("stream.retry", {"lane": lane_name(state), **retry}),
        ArmBackoff(delay),
    )


def _gave_up_lane(state: State, lost: Lost) -> tuple[State, tuple[Effect, ...]]:
    name, told = lane_name(state), warning(state, lost)
    if name != state.primary:
        told = (*told, Emit(events.LaneFailed, {"lane": name, "error_class": lost.error_class}))
    left = replace(state, given_up=(*state.given_up, name), refused=state.refused or lost, aim=Aim.NEXT)
    return left, told


def _compact(state: State, shown: tuple[Effect, ...]) -> Step:
    assert state.lane is not None
    compacting = replace(state, phase=Phase.COMPACTING, compacted=True, cautious=True, death=None)
    return compacting, (*shown, Emit(events.Overflow), Compact(state.lane))


def _discarded(state: State) -> State:
    return replace(state, kept=state.partial, text=Text(), calls=Calls(), flushed=0)


def go_on(state: State) -> Step:
    """A wait is over: ask the lane again, or let the answer begin again."""
    if state.aim is Aim.SAME:
        return beginning.resolve(state)
    return follow(_discarded(state), (Emit(events.StreamDiscarded),), beginning.start)


def compacted(state: State, event: Compacted) -> Step:
    """The history is shorter: the answer begins again, or at last."""
    shorter = replace(state, prompt_chars=event.prompt_chars)
    # As a precaution it came before the request that it is for.
    return follow(
        shorter, (Emit(events.Compacted),), beginning.start if state.compacted else beginning.resolve
    )


def not_compacted(state: State, event: NotCompacted) -> Step:
    """The history is as long as before: another lane may hold more."""
    told = Warn("turn.not_compacted", {"error_class": event.error_class})
    if not state.compacted:
        # It may fit all the same.
        return follow(state, (told,), beginning.resolve)
    lost = Lost(FailureClass.OVERFLOW, event.error_class)
    left, shown = _gave_up_lane(state, lost)
    if state.others:
        return follow(left, (told, *shown), beginning.begin_answer)
    return ending.give_up(left, ladder.reported(left, lost), (told, *shown))
