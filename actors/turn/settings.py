"""What a user may set about turns."""

import msgspec


class TurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[turn]``; times in seconds."""

    budget_s: float = 600.0
    """The whole turn, waits and retries included."""
    creation_tries: int = 4
    """How often a lane is asked to take the request before the next one is."""
    stream_tries: int = 3
    """How often an answer begins, the first time included, before a stream that dies fails the turn."""
    compact_share: float = 0.8
    """From that share of the lane's context window on, older turns are summarised first."""
    retry_base_s: float = 1.0
    retry_cap_s: float = 30.0
    retry_after_cap_s: float = 120.0
    """The longest ``Retry-After`` of a backend that is honoured."""
    flush_s: float = 0.25
    flush_bytes: int = 2048
    """A running turn's text is kept that often or that much at a time."""
    store_retry_base_s: float = 0.5
    store_retry_cap_s: float = 15.0
