"""What a turn's machine wants done."""

from typing import Any

import msgspec

from actors.messages.lane import LaneBinding
from actors.messages.turn import TurnEvent
from actors.turn.state import End


class Effect(msgspec.Struct, frozen=True):
    """Something for the actor to do."""


class Emit(Effect, frozen=True):
    """Publish an event: its class, its fields beside the turn's own, its number and its attempt's."""

    kind: type[TurnEvent]
    fields: dict[str, Any] = {}
    seq: int = 0
    attempt: int = 0


class Resolve(Effect, frozen=True):
    """Ask which lanes there are."""

    request: int


class OpenAttempt(Effect, frozen=True):
    """Send the request to a lane."""

    request: int
    lane: LaneBinding


class CancelAttempt(Effect, frozen=True):
    """Close the request's stream."""

    request: int
    lane: LaneBinding


class Compact(Effect, frozen=True):
    """Make the history shorter, so that it fits into a lane."""

    lane: LaneBinding


class CancelCompaction(Effect, frozen=True):
    """Leave it as it is."""


class ArmBackoff(Effect, frozen=True):
    """Wait before the next request."""

    delay: float


class DisarmBackoff(Effect, frozen=True):
    """Wait no longer."""


class ArmFlush(Effect, frozen=True):
    """Start the flush interval."""


class Flush(Effect, frozen=True):
    """Give the text so far to the store, without waiting."""

    text: str


class Warn(Effect, frozen=True):
    """Log a warning, or an error: classes and numbers, never a backend's words."""

    event: str
    fields: dict[str, Any]
    severe: bool = False


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
