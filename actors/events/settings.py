"""What a user may set about events."""

import msgspec

from actors.amounts import Count, Seconds, Wait


class EventSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[events]``; times in seconds."""

    kept: Count = 4096
    """Events in memory: for replay, and until the store has them. While the store is away the oldest give way."""
    flush_s: Wait = 0.25
    """How long an event may wait before it is stored."""
    batch: Count = 500
    """Events stored, or read back, at once."""
    store_s: Seconds = 10.0
    """The budget of one question to the store."""
    retry_base_s: Wait = 0.5
    retry_cap_s: Seconds = 30.0
    """Waits between tries while the store is away."""
