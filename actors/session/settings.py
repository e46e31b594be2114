"""What a user may set about sessions."""

import msgspec

from actors.amounts import Seconds, Wait


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[session]``; times in seconds."""

    idle_s: Seconds = 60.0
    """A session without work for that long leaves memory; the next message brings it back."""
    on_restart: str = "report"
    """What becomes of a turn that a restart cut off: report (tell the chat) or retry (run it once again)."""
    rescan_s: Seconds = 30.0
    """How often messages are looked for that no session was told of."""
    store_s: Seconds = 10.0
    """The budget of one question to the store."""
    retry_base_s: Wait = 0.5
    retry_cap_s: Seconds = 30.0
    """Waits between tries while the store is away."""
