"""Model lanes: what carries a turn's request to a backend and its stream back."""

from collections.abc import Callable

from actors.runtime import Actor
from transports.backends.echo import EchoLane
from transports.backends.settings import LaneKind, LaneSettings

__all__ = ["ECHO", "LaneKind", "LaneSettings", "lane"]

ECHO = LaneSettings(name="echo", kind=LaneKind.ECHO)
"""The lane of an installation without a model."""


def lane(settings: LaneSettings) -> Callable[[], Actor]:
    """Return what makes the lane's actor. Only a lane that needs the HTTP client imports it."""
    if settings.kind is LaneKind.ECHO:
        return lambda: EchoLane(settings)
    from transports.backends.openai import OpenAILane

    return lambda: OpenAILane(settings)
