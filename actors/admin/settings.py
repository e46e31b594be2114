"""What a user may set about admin requests."""

import msgspec

from actors.amounts import Count, Seconds


class AdminSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[admin]``; times in seconds."""

    under_way: Count = 256
    """Requests carried out at once, over all connections."""
    glance_s: Seconds = 2.0
    """How long ``system.info`` waits for each part; one that does not answer is left out."""
    stop_s: Seconds = 10.0
    """How long an actor that is stopped or restarted may take to end before it is killed."""
