"""What a user may set about connections to /admin."""

import msgspec

from actors.amounts import Count, Seconds


class AdminSocketSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[admin_socket]``; times in seconds, sizes in bytes."""

    max_message: Count = 1024 * 1024
    in_flight: Count = 32
    """Requests of one connection under way at once; reading waits beyond."""
    request_s: Seconds = 30.0
    """The budget of one request."""
    store_s: Seconds = 5.0
    """How long a key is looked up."""
    queue: Count = 4096
    """Events that may wait for one connection; one that lets more pile up is dropped (ADM-4)."""
    followed: Count = 100
    """Sessions that one connection may follow at once."""
    page: Count = 500
    """Past events that are read at once."""
    stall_s: Seconds = 60.0
    """A connection that takes nothing for that long is dropped."""
    close_s: Seconds = 1.0
    """How long the last frames may take."""
    recheck_s: Seconds = 10.0
    """How often an open connection's key and subscription are looked at again."""
