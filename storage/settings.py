"""Settings of the store: sections ``[store]`` and ``[retention]``."""

import msgspec

from actors.amounts import Count, Days, Hours, Seconds, Wait


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the store works."""

    busy_s: Seconds = 2.0
    """How long a batch waits for another program's lock on the file."""
    history_rows: Count = 2000
    """How many of a session's newest messages a model gets at most."""
    probe_s: Seconds = 2.0
    """How often a small write is tried after a fault, until one succeeds."""
    retain_every_s: Seconds = 60.0
    """How often expired rows are looked for."""
    retain_pause_s: Wait = 0.25
    """The pause between steps while there are more of them."""


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long rows are kept."""

    dedupe_h: Hours = 48.0
    """For how long a repetition of a message is recognised (RLY-12)."""
    pending_h: Hours = 24.0
    """A delivery that could not be sent for that long is dead(expired) (RLY-17)."""
    unknown_h: Hours = 24.0
    """A delivery whose outcome was not seen for that long is dead(outcome_unknown)."""
    delivered_days: Days = 7.0
    dead_days: Days = 90.0
    """Dead deliveries."""
    inbox_days: Days = 30.0
    """Messages that have been turned, or never will be; their text lives on in the history."""
    turns_days: Days = 90.0
    events_days: Days = 30.0
    quarantines_days: Days = 90.0
    """Quarantines that have been lifted."""
