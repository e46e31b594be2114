"""What a user may set about the HTTP and WebSocket server."""

import msgspec


class FrontSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[server]``; times in seconds."""

    host: str = "127.0.0.1"
    port: int = 7340
    """0: any free one."""
    max_head_bytes: int = 64 * 1024
    """A request whose line and headers are larger is answered 431."""
    head_s: float = 30.0
    """How long they may take to come; also how long a new connection may say nothing."""
    max_body_bytes: int = 10 * 1024 * 1024
    """A larger request body is answered 413 (API-18)."""
    body_s: float = 60.0
    """How long a request's body may take to come."""
    keepalive_s: float = 15.0
    """A comment is sent on a silent stream that often."""
    early_error_s: float = 2.0
    """A turn that fails within that time and before its first token is answered with an HTTP error (API-6)."""
    max_queued: int = 8
    """Messages of one chat that may wait for their turn."""
    request_s: float = 660.0
    """The budget of one request; a little more than a turn's."""
    linger_s: float = 5.0
    """How long after that budget the client may take to read the last of its response."""
    store_s: float = 10.0
    """The budget of one question to the store."""
    lanes_s: float = 5.0
    """How long a request may wait to hear which lanes there are."""
    ready_check_s: float = 1.0
    """How long ``/readyz`` waits for each dependency, and how long it keeps the answer."""
    stream_queue: int = 4096
    """Events that may wait for one client; one that lets more pile up loses its stream (API-17)."""
    ping_s: float = 30.0
    pong_s: float = 60.0
    """WebSocket keepalive: a ping that often, and the longest wait for its answer."""
    keep_alive_s: int = 75
    """How long an idle HTTP connection is kept."""
    max_ws_bytes: int = 4 * 1024 * 1024
    """The longest WebSocket message."""
    compat_hermes: bool = False
    """Whether streams that fail carry the member that Hermes' own client reads."""
    stop_s: int = 3
    """How long open responses may take to end once the server stops."""
    cut_s: float = 0.5
    """How long after that those that are cut may take to say so."""
