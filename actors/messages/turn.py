"""What can be said to a turn, and the typed events that it publishes to whoever watches (turns.md, section 1)."""

import enum
from typing import Any

import msgspec

from actors.messages.base import ControlMessage, Message
from actors.messages.lane import ToolCallDelta
from actors.messages.rows import ToolCall


class StopGeneration(ControlMessage, frozen=True, kw_only=True):
    """End the turn now: close the stream, keep what was produced."""

    by: str
    """Who or why: user, client_gone, stream_died (its client was sent text that is void), interrupt, superseded, shutdown."""


class AttachTurnWatcher(ControlMessage, frozen=True, kw_only=True):
    """
    Send ``watcher`` every event from now on, and first what it lacks: the events after ``after_seq``, if they are all
    kept, else a Snapshot of what was shown so far.
    """

    watcher: Any
    after_seq: int | None = None
    """The last event that it has heard of this turn_gen; 0: none. None: it wants a Snapshot."""


class DetachTurnWatcher(ControlMessage, frozen=True, kw_only=True):
    """Send it nothing more."""

    watcher: Any


class RunPhase(enum.StrEnum):
    """What a person sees of a session."""

    THINKING = "thinking"
    RUNNING = "running"
    ATTENTION = "attention"
    IDLE = "idle"
    ERROR = "error"


class TurnEvent(Message, frozen=True, kw_only=True, tag_field="kind"):
    """One event of one turn; ``seq`` counts from 1 in each turn_gen."""

    session_id: str
    turn_id: str
    turn_gen: int
    attempt: int
    seq: int


class TurnStart(TurnEvent, frozen=True, kw_only=True, tag="turn_start"):
    """The user's message is stored and the turn has begun."""


class ThinkingStart(TurnEvent, frozen=True, kw_only=True, tag="thinking_start"):
    """A request is about to go out."""


class ThinkingStop(TurnEvent, frozen=True, kw_only=True, tag="thinking_stop"):
    """The first delta is there."""


class Content(TurnEvent, frozen=True, kw_only=True, tag="content"):
    """A piece of the answer."""

    text: str


class Reasoning(TurnEvent, frozen=True, kw_only=True, tag="reasoning"):
    """A piece of the model's reasoning; no part of the answer."""

    text: str


class StreamEnd(TurnEvent, frozen=True, kw_only=True, tag="stream_end"):
    """The attempt's stream is over, however it ended."""


class Retry(TurnEvent, frozen=True, kw_only=True, tag="retry"):
    """The stream died; the answer begins again after ``delay_s``, for the ``n``-th of ``of`` times."""

    error_class: str
    n: int
    of: int
    delay_s: float


class StreamDiscarded(TurnEvent, frozen=True, kw_only=True, tag="stream_discarded"):
    """What the attempt has shown is void: events with a ``seq`` above ``keep_upto`` are no part of the answer."""

    keep_upto: int


class LaneRetry(TurnEvent, frozen=True, kw_only=True, tag="lane_retry"):
    """The lane did not take the request; the next try comes after ``delay_s``."""

    lane: str
    error_class: str
    n: int
    delay_s: float


class LaneFallback(TurnEvent, frozen=True, kw_only=True, tag="lane_fallback"):
    """A lane has failed; the next one is tried."""

    from_lane: str = msgspec.field(name="from")
    to_lane: str = msgspec.field(name="to")


class LaneFailed(TurnEvent, frozen=True, kw_only=True, tag="lane_failed"):
    """A fallback has failed too."""

    lane: str
    error_class: str


class LaneDegraded(TurnEvent, frozen=True, kw_only=True, tag="lane_degraded"):
    """A fallback has failed often of late; it is tried anyway."""

    lane: str


class Overflow(TurnEvent, frozen=True, kw_only=True, tag="overflow"):
    """The conversation does not fit into the lane's context window."""


class Compacted(TurnEvent, frozen=True, kw_only=True, tag="compacted"):
    """Older turns have been summarised."""


class ToolCalls(TurnEvent, frozen=True, kw_only=True, tag="tool_calls"):
    """Pieces of the answer's tool calls."""

    calls: tuple[ToolCallDelta, ...]


class StatusUpdate(TurnEvent, frozen=True, kw_only=True, tag="status"):
    """What the turn used."""

    usage: dict[str, int] | None
    estimated: bool


class TurnCommitted(TurnEvent, frozen=True, kw_only=True, tag="turn_committed"):
    """The answer is whole; the row is being stored."""

    finish_reason: str | None


class Cancelled(TurnEvent, frozen=True, kw_only=True, tag="cancelled"):
    """The turn was stopped."""

    by: str


class TurnError(TurnEvent, frozen=True, kw_only=True, tag="error"):
    """The turn failed. Category, class and our own wording; never a backend's text."""

    category: str
    error_class: str
    text: str


class StateChange(TurnEvent, frozen=True, kw_only=True, tag="state"):
    """
    What a person sees now. ``idle`` and ``error`` are the last event of a turn, sent once its end is durable;
    the text of ``idle`` is the answer, or the partial without its marker.
    """

    state: RunPhase
    text: str | None = None


class Snapshot(TurnEvent, frozen=True, kw_only=True, tag="snapshot"):
    """What a late watcher missed: the content and the tool calls shown so far."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    gap: bool = False
    """Events that the watcher has asked for are not kept any more."""
