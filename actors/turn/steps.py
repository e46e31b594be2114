"""What a step of a turn's machine is, and what several of its parts need."""

from collections.abc import Callable, Iterable

import msgspec

from actors.turn.effects import Effect, Warn
from actors.turn.state import Lost, State

Step = tuple[State, tuple[Effect, ...]]
"""What becomes of the turn, and what is to be done, in order."""

replace = msgspec.structs.replace
"""The state with some of it changed."""


def follow(state: State, shown: Iterable[Effect], go_on: Callable[[State], Step]) -> Step:
    """Do what comes first, and then what the next step wants."""
    new, effects = go_on(state)
    return new, (*shown, *effects)


def lane_name(state: State) -> str:
    """Return the name of the lane that serves, or served last."""
    return state.lane.traits.name if state.lane is not None else ""


def warning(state: State, lost: Lost) -> tuple[Effect, ...]:
    """Return what is logged of an answer that could not begin again (TRN-23)."""
    if state.death is None:
        return ()
    return (
        Warn("stream.retry.recreate_failed", {"lane": lane_name(state), "error_class": lost.error_class}),
    )
