"""What a user may set about supervision."""

import msgspec

from actors.amounts import Seconds


class SupervisionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[supervision]``; times in seconds."""

    sweep_s: Seconds = 0.25
    """How often busy and lost actors are looked at."""
    stuck_s: Seconds = 60.0
    """A handler that takes longer ends its actor: handlers never wait for anything long."""
    lost_s: Seconds = 5.0
    """An actor that was ended at once and has not ended for that long is quarantined."""
    answer_s: Seconds = 5.0
    """How long a host may take to say whether something that it runs has ended."""
    reconcile_base_s: Seconds = 1.0
    reconcile_cap_s: Seconds = 300.0
    """Waits between tries to end what is quarantined: the bound doubles from the first to the second number."""
    store_s: Seconds = 10.0
    """The budget of one try to store a quarantine; the tries go on until the store has it."""
    store_retry_cap_s: Seconds = 30.0
