"""What a user may set about the HTTP and WebSocket server."""

from typing import Annotated

import msgspec

from actors.amounts import Count, Seconds, Wait


class FrontSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[server]``; times in seconds."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 7340
    """0: any free one."""
    max_head_bytes: Count = 64 * 1024
    """A request whose line and headers are larger is answered 431."""
    head_s: Seconds = 30.0
    """How long they may take to come; also how long a new connection may say nothing."""
    max_body_bytes: Count = 10 * 1024 * 1024
    """A larger request body is answered 413 (API-18)."""
    body_s: Seconds = 60.0
    """How long a request's body may take to come."""
    keepalive_s: Seconds = 15.0
    """A comment is sent on a silent stream that often."""
    early_error_s: Wait = 2.0
    """A turn that fails within that time and before its first token is answered with an HTTP error (API-6)."""
    max_queued: Count = 8
    """Messages of one chat that may wait for their turn."""
    request_s: Seconds = 660.0
    """The budget of one request; a little more than a turn's."""
    linger_s: Wait = 5.0
    """How long after that budget the client may take to read the last of its response."""
    store_s: Seconds = 10.0
    """The budget of one question to the store."""
    lanes_s: Seconds = 5.0
    """How long a request may wait to hear which lanes there are."""
    ready_check_s: Seconds = 1.0
    """How long ``/readyz`` waits for each dependency, and how long it keeps the answer."""
    stream_queue: Count = 4096
    """Events that may wait for one client; one that lets more pile up loses its stream (API-17)."""
    ping_s: Seconds = 30.0
    pong_s: Seconds = 60.0
    """WebSocket keepalive: a ping that often, and the longest wait for its answer."""
    keep_alive_s: Count = 75
    """How long an idle HTTP connection is kept."""
    max_ws_bytes: Count = 4 * 1024 * 1024
    """The longest WebSocket message."""
    compat_hermes: bool = False
    """Whether streams that fail carry the member that Hermes' own client reads."""
    stop_s: Count = 3
    """How long open responses may take to end once the server stops."""
    cut_s: Wait = 0.5
    """How long after that those that are cut may take to say so."""
