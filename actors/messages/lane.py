"""What can be said to /lanes and /lanes/<name>, one model backend, and what a turn hears of its stream."""

import enum
from collections.abc import Callable
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
    PREPARATION = "preparation"
    """The request could not be put together; nothing was sent."""


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


TOOL_CALLS = "tool_calls"
"""The finish reason of an answer that asks for tools; adapters say it whatever their backend calls it."""


class ThinkTags(enum.StrEnum):
    """Where a lane's model writes its reasoning between tags."""

    OFF = "off"
    LEADING = "leading"
    """Only where it opens the text."""
    ANYWHERE = "anywhere"


class Capability(enum.StrEnum):
    """What a lane's model can take."""

    SYSTEM_ANYWHERE = "system_anywhere"
    """System messages in mid-conversation; a lane without it gets them folded (TRN-40)."""
    DEVELOPER = "developer"
    """The role of that name; else it is sent as system."""
    IMAGES = "images"
    FILES = "files"
    TOOLS = "tools"


class LaneTraits(Message, frozen=True, kw_only=True):
    """What is known of a lane without asking it."""

    name: str
    kind: str
    model: str
    backend: str
    """Health is kept for each of these: the URL without what may be secret in it, or the kind."""
    order: int | None = None
    """Lanes that have one serve as fallbacks of the others, the lowest first."""
    capabilities: frozenset[Capability] = frozenset()
    retryable: frozenset[str] = frozenset()
    """Error classes, by their names, that are worth another try on this lane beside those that always are."""
    context_window: int | None = None
    """In tokens."""
    chars_per_token: float = 4.0
    think_tags: ThinkTags = ThinkTags.LEADING
    hold_back: bool = False
    """Nothing of an answer is shown before it is whole, so that a death is seen by nobody."""


class LaneSpec(Message, frozen=True, kw_only=True):
    """A lane to be run."""

    traits: LaneTraits
    settings: Any
    """What a running lane is told when it is set anew."""
    make: Callable[[int], Any]
    """Returns its actor, given the ``gen`` of its settings."""


class LaneBinding(Message, frozen=True, kw_only=True):
    """A lane as it is set now. Another ``gen`` means other settings: what was prepared for it before is void."""

    traits: LaneTraits
    gen: int
    lane: Any
    """Its Address."""
    degraded: bool
    """Its backend has failed too often in a row; such lanes come last."""
    live: bool = True
    """Whether it takes streams, or will in a moment; a quarantined one does not, and comes after all others."""


class ResolveLanes(Request[tuple[LaneBinding, ...]], frozen=True, kw_only=True):
    """
    The lane that is called ``model`` (None: the first live one), then its fallbacks; degraded ones last.

    Empty if there is no lane of that name.
    """

    model: str | None


class ListLanes(Request[tuple[LaneBinding, ...]], frozen=True, kw_only=True):
    """All lanes, as configured."""


class ReloadLanes(Request[tuple[str, ...]], frozen=True, kw_only=True):
    """
    Read the configuration again and run the lanes that it has now; answers the names of those new, changed or gone.

    Streams under way end on what they began with; the next attempt of their turns uses what is new. Refused, with what
    is wrong in it, if the configuration cannot be used: then the lanes stay as they are.
    """

    by: str
    """Who wants it."""


class SetLane(ControlMessage, frozen=True, kw_only=True):
    """Open new streams with these settings; those under way end on what they began with."""

    settings: Any
    gen: int


class RetireLane(ControlMessage, frozen=True, kw_only=True):
    """Take no more streams and end after the last one, unless it is set anew before."""


class BackendHealth(Message, frozen=True, kw_only=True):
    """A stream of a backend has completed, or failed in a way that speaks against the backend."""

    backend: str
    good: bool


class Prepared(Message, frozen=True, kw_only=True):
    """A request as it goes out, good for as long as its lane is the same."""

    lane: str
    gen: int
    body: bytes


class ToolCallDelta(Message, frozen=True, kw_only=True):
    """A piece of one tool call; ``arguments`` of one index are joined."""

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""


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
    prepared: Prepared | None = None
    """The request as an earlier attempt sent it: used if lane and gen are the same, else it is prepared again."""
    dump: bool = False
    """Whether the request goes to the debug log (TRN-36)."""


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
    max_streams: int
    """One more is refused as rate limited."""
    gen: int


class StreamMessage(Message, frozen=True, kw_only=True):
    """Something about one stream."""

    stream_id: str


class StreamPrepared(StreamMessage, frozen=True, kw_only=True):
    """The request has been put together and is about to go out."""

    prepared: Prepared


class StreamArmed(StreamMessage, frozen=True, kw_only=True):
    """The backend has accepted the request."""


class StreamDelta(StreamMessage, frozen=True, kw_only=True):
    """A piece of the answer, or of the model's reasoning."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()


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
