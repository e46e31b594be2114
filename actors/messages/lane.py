"""What can be said to /lanes/<name>, one model backend, and what a turn hears of its stream."""

import enum
from typing import Any

from actors.messages.base import ControlMessage, Message, Request
from actors.messages.rows import Entry


class FailureClass(enum.StrEnum):
    """Our own taxonomy of what goes wrong at a backend; adapters map to it at their edge."""

    CONNECT = "connect"
    """No connection, or it broke before an answer."""
    TIMEOUT = "timeout"
    STALLED = "stalled"
    """Open and silent for longer than the watchdog allows."""
    INCOMPLETE = "incomplete"
    """The stream died before its end."""
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    AUTH_REFUSED = "auth_refused"
    BAD_REQUEST = "bad_request"
    OVERFLOW = "overflow"
    """The context window is exceeded."""
    PROTOCOL = "protocol"
    """The backend does not speak what it should."""


RETRYABLE = frozenset(
    {
        FailureClass.CONNECT,
        FailureClass.TIMEOUT,
        FailureClass.STALLED,
        FailureClass.INCOMPLETE,
        FailureClass.RATE_LIMITED,
        FailureClass.SERVER_ERROR,
    }
)


class OpenStream(Message, frozen=True, kw_only=True):
    """
    Ask the backend, and tell ``reply_to`` what comes, each with the same ``stream_id``.

    Exactly one of StreamFinished and StreamFailed ends it, unless it is cancelled: then nothing more is said.
    """

    stream_id: str
    """Unique for each attempt: it fences what a lost attempt still says."""
    entries: tuple[Entry, ...]
    params: dict[str, Any]
    reply_to: Any
    """An Address."""
    budget: Any
    """The turn's Budget."""


class CancelStream(ControlMessage, frozen=True, kw_only=True):
    """Close the stream's connection now (TRN-52); unknown ids are ignored."""

    stream_id: str


class DescribeLane(Request["LaneInfo"], frozen=True, kw_only=True):
    """What the lane is."""


class LaneInfo(Message, frozen=True, kw_only=True):
    """A lane as /v1/models and the admin view show it."""

    name: str
    kind: str
    model: str
    base_url: str | None
    streams: int
    """Streams under way."""


class StreamMessage(Message, frozen=True, kw_only=True):
    """Something about one stream."""

    stream_id: str


class StreamArmed(StreamMessage, frozen=True, kw_only=True):
    """The backend has accepted the request."""


class StreamDelta(StreamMessage, frozen=True, kw_only=True):
    """A piece of the answer, or of the model's reasoning."""

    text: str = ""
    reasoning: str = ""


class StreamFinished(StreamMessage, frozen=True, kw_only=True):
    """The stream came to its end."""

    finish_reason: str | None
    usage: dict[str, int] | None


class StreamFailed(StreamMessage, frozen=True, kw_only=True):
    """The stream ended otherwise. ``error_class`` is a class name and never a foreign text (REL-6)."""

    failure: FailureClass
    error_class: str
    status: int | None = None
    retry_after: float | None = None
    """Seconds that the backend asked for."""
