"""What a user may set about events."""

from typing import Annotated

import msgspec


class EventSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[events]``; times in seconds."""

    kept: Annotated[int, msgspec.Meta(ge=1)] = 4096
    """Events in memory: for replay, and until the store has them. While the store is away the oldest give way."""
    flush_s: float = 0.25
    """How long an event may wait before it is stored."""
    batch: Annotated[int, msgspec.Meta(ge=1)] = 500
    """Events stored, or read back, at once."""
    store_s: float = 10.0
    """The budget of one question to the store."""
    retry_base_s: float = 0.5
    retry_cap_s: float = 30.0
    """Waits between tries while the store is away."""
