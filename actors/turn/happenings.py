"""What happens to a turn, as its machine hears of it."""

import msgspec

from actors.messages.lane import FailureClass, LaneBinding, ToolCallDelta


class Event(msgspec.Struct, frozen=True):
    """Something that happened to the turn."""


class Begun(Event, frozen=True):
    """The turn's actor runs."""

    model: str | None
    prompt_chars: int = 0
    runs_tools: bool = True


class Resolved(Event, frozen=True):
    """The lanes that may serve, the first choice first; none if there is none of that name."""

    request: int
    lanes: tuple[LaneBinding, ...]


class Unresolved(Event, frozen=True):
    """Nobody said which lanes there are."""

    request: int
    error_class: str


class Armed(Event, frozen=True):
    """The backend accepted the request."""


class Delta(Event, frozen=True):
    """A piece of the answer, of the reasoning or of tool calls."""

    text: str
    reasoning: str = ""
    calls: tuple[ToolCallDelta, ...] = ()


class Finished(Event, frozen=True):
    """The stream came to its end."""

    finish_reason: str | None
    usage: dict[str, int] | None


class Failed(Event, frozen=True):
    """The request or the stream failed; ``fraction`` (0 … 1) is the jitter of a wait that may follow."""

    failure: FailureClass
    error_class: str
    retry_after: float | None = None
    fraction: float = 1.0


class BackoffOver(Event, frozen=True):
    """The wait is over."""


class Compacted(Event, frozen=True):
    """The history is shorter now."""

    prompt_chars: int


class NotCompacted(Event, frozen=True):
    """It is not."""

    error_class: str


class FlushDue(Event, frozen=True):
    """The flush interval is over."""


class Flushed(Event, frozen=True):
    """The store has taken the text so far, or has not: the end will hold all of it."""


class StopAsked(Event, frozen=True):
    """Somebody stops the turn."""

    by: str


class BudgetOver(Event, frozen=True):
    """The whole turn has used up its time."""


class Stored(Event, frozen=True):
    """The end is durable."""


class StoreFailed(Event, frozen=True):
    """The end is not durable, or nobody knows."""


class Superseded(Event, frozen=True):
    """The store says that this turn is not the running one any more: nothing is said from here on."""
