"""Which actors are stuck in a handler: pure."""

import msgspec

LATE_SECONDS = 0.25
"""A sweep that itself woke later than that judges nobody: the whole loop was held up, not one actor."""


class Busy(msgspec.Struct, frozen=True):
    """An actor with a handler under way, and since how many seconds."""

    path: str
    seconds: float


def stuck(busy: tuple[Busy, ...], *, late_s: float, limit_s: float) -> tuple[Busy, ...]:
    """Return those whose handler takes longer than ``limit_s``; nobody if the sweep woke ``late_s`` too late."""
    if late_s > LATE_SECONDS:
        return ()
    return tuple(actor for actor in busy if actor.seconds > limit_s)
