"""Model lanes: what carries a turn's request to a backend and its stream back."""

from collections.abc import Callable, Iterable

from actors.messages.lane import LaneSpec
from actors.runtime import Actor
from transports.backends.echo import EchoLane
from transports.backends.settings import LaneKind, LaneSettings

__all__ = ["ECHO", "LaneKind", "LaneSettings", "lane", "preload", "spec"]

ECHO = LaneSettings(name="echo", kind=LaneKind.ECHO)
"""The lane of an installation without a model."""


def preload(lanes: Iterable[LaneSettings]) -> None:
    """Import what these lanes need, before there is a loop: an HTTP client takes a fifth of a second (REL-5)."""
    for settings in lanes:
        lane(settings)


def spec(settings: LaneSettings) -> LaneSpec:
    """Return the lane as /lanes runs it."""
    return LaneSpec(traits=settings.traits(), settings=settings, make=lane(settings))


def lane(settings: LaneSettings) -> Callable[[], Actor]:
    """Return what makes the lane's actor. Only a lane that needs the HTTP client imports it."""
    if settings.kind is LaneKind.ECHO:
        return lambda: EchoLane(settings)
    from transports.backends.openai import OpenAILane

    return lambda: OpenAILane(settings)
