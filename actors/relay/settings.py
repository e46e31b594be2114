"""What a user may set about relay links."""

from typing import Annotated

import msgspec

from actors.amounts import LONGEST, Count, Seconds, Wait


class RelaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[relay]``; times in seconds."""

    first_frame_s: Seconds = 30.0
    """A socket that says neither hello nor descriptor for that long is closed."""
    handshake_s: Seconds = 30.0
    outbound_s: Seconds = 30.0
    """How long an action's result is waited for."""
    disconnect_s: Seconds = 5.0
    """The budget of a link's end: what is pending may be answered in it."""
    close_s: Seconds = 1.0
    """The part of it that is kept for the closing handshake."""
    stall_s: Seconds = 60.0
    """A peer that takes nothing for that long is closed (RLY-19)."""
    store_s: Seconds = 10.0
    """The budget of one question to the store."""
    retry_base_s: Wait = 0.5
    retry_cap_s: Seconds = 60.0
    """Waits between tries: of a delivery that failed, of a settlement or an acceptance that the store did not take."""
    accept_window: Count = 64
    """Messages of one socket that are being accepted at once; reading pauses beyond."""
    accept_retries: Count = 5
    """How often a message whose handling failed is tried again before it is given up (RLY-14)."""
    live_retry_s: Seconds = 120.0
    """How long a message that its peer will not send again is kept while the store is away."""
    pending_max: Count = 1000
    """Requests of one link without an answer, in each direction."""
    deliveries_max: Count = 256
    """Deliveries of one peer under way at once."""
    wire_queue: Count = 4096
    """Frames that may wait for one socket; a peer that lets more pile up is closed."""
    edit_streaming: bool = True
    """Whether an answer is shown while it is being made, by edits, on platforms that can edit."""
    edit_delay_s: Wait = 0.5
    """How long a turn goes on before its answer is looked at, and then a first text waits: one whole by then is sent once."""
    edit_interval_s: Annotated[float, msgspec.Meta(ge=0.05, le=LONGEST)] = 1.0
    """The least time between two edits of a message."""
    edit_slowest_s: Annotated[float, msgspec.Meta(ge=1, le=LONGEST)] = 30.0
    """The most that refused edits make of it."""
    live_answers_max: Count = 256
    """Answers of one peer that are shown so at once; those beyond are sent when they are whole."""
    group_sessions_per_user: bool = True
    thread_sessions_per_user: bool = False
