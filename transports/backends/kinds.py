"""Which backend stands behind a lane of which kind."""

from actors.runtime import System
from transports.backends.backend import Backend
from transports.backends.echo import Echo
from transports.backends.settings import LaneKind, LaneSettings


def kind(settings: LaneSettings) -> type[Backend]:
    """Return the class of the lane's backend. Only a lane that needs the HTTP client imports it."""
    if settings.kind is LaneKind.ECHO:
        return Echo
    from transports.backends.openai import OpenAIBackend

    return OpenAIBackend


def backend(settings: LaneSettings, gen: int, system: System) -> Backend:
    """Return the lane's backend."""
    return kind(settings)(settings, gen, system)
