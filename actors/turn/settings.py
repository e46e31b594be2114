"""What a user may set about turns."""

import msgspec

from actors.amounts import Count, Seconds, Share, Wait


class TurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[turn]``; times in seconds."""

    budget_s: Seconds = 600.0
    """The whole turn, waits and retries included."""
    creation_tries: Count = 4
    """How often a lane is asked to take the request before the next one is."""
    stream_tries: Count = 3
    """How often an answer begins, the first time included, before a stream that dies fails the turn."""
    compact_share: Share = 0.8
    """From that share of the lane's context window on, older turns are summarised first."""
    retry_base_s: Wait = 1.0
    retry_cap_s: Seconds = 30.0
    retry_after_cap_s: Seconds = 120.0
    """The longest ``Retry-After`` of a backend that is honoured."""
    flush_s: Wait = 0.25
    flush_bytes: Count = 2048
    """A running turn's text is kept that often or that much at a time."""
    store_retry_base_s: Wait = 0.5
    store_retry_cap_s: Seconds = 15.0
