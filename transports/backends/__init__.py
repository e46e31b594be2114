"""Model lanes: what carries a turn's request to a backend and its stream back."""

from collections.abc import Iterable

from actors.messages.lane import LaneSpec
from transports.backends.kinds import kind
from transports.backends.lane import ModelLane
from transports.backends.settings import LaneKind, LaneSettings

__all__ = ["ECHO", "LaneKind", "LaneSettings", "ModelLane", "spec", "specs"]

ECHO = LaneSettings(name="echo", kind=LaneKind.ECHO)
"""The lane of an installation without a model."""


def specs(lanes: Iterable[LaneSettings]) -> tuple[LaneSpec, ...]:
    """
    Return the lanes to be run: the echo, if none is set.

    What they need is imported. Not for the loop, which an HTTP client would hold for a fifth of a second (REL-5).
    """
    return tuple(map(spec, lanes)) or (spec(ECHO),)


def spec(settings: LaneSettings) -> LaneSpec:
    """Return a lane to be run."""
    kind(settings)
    return LaneSpec(traits=settings.traits(), settings=settings, make=lambda gen: ModelLane(settings, gen))
