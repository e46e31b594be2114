"""What a turn's machine knows: where it is, what its attempts have come to, and how it ends."""

import enum

import msgspec

from actors.messages.lane import FailureClass, LaneBinding
from actors.messages.rows import ToolCall, TurnState
from actors.turn.calls import Calls
from actors.turn.text import Text


class Phase(enum.IntEnum):
    """What the turn is at, in the order of a turn without trouble; only a retry and a compaction go back, to resolving."""

    RESOLVING = 0
    """The lanes as they are now have been asked for."""
    COMPACTING = 1
    """Older turns are being summarised."""
    OPENING = 2
    """A request is out and not accepted."""
    STREAMING = 3
    """The backend has accepted it."""
    BACKOFF = 4
    """Waiting before the next request."""
    ENDING = 5
    """The end is being stored."""
    ENDED = 6


class Aim(enum.Enum):
    """Which lane the next request is for."""

    FIRST = "first"
    """The primary one, or whichever comes first while that is degraded."""
    SAME = "same"
    """The one that was tried last."""
    NEXT = "next"
    """The one after those that have been given up."""


class Lost(msgspec.Struct, frozen=True):
    """Why an attempt came to nothing."""

    failure: FailureClass
    error_class: str


class End(msgspec.Struct, frozen=True):
    """How the turn ends: what is stored in one transaction."""

    state: TurnState
    reason: str | None = None
    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    interrupted_text: str | None = None
    notice: str | None = None
    error: str | None = None
    usage: dict[str, int] | None = None
    estimated: bool = False


class State(msgspec.Struct, frozen=True):
    """All that decides."""

    phase: Phase = Phase.RESOLVING
    aim: Aim = Aim.FIRST
    seq: int = 0
    """The number of the last event."""
    keep_upto: int = 0
    """The number of the last event before this attempt's first one."""
    attempt: int = 0
    """How often the answer has begun, from 1."""
    request: int = 0
    """Numbers what is asked of lanes: an answer to an older number is fenced."""
    model: str | None = None
    """The lane that was asked for by name."""
    prompt_chars: int = 0
    runs_tools: bool = True
    """Whether there is a client that can run them; else calls are no part of the answer."""
    primary: str | None = None
    lane: LaneBinding | None = None
    """The one that serves the attempt."""
    given_up: tuple[str, ...] = ()
    """Lanes that did not take the request since the answer last began."""
    others: bool = False
    """There are lanes that have not been given up."""
    failures: int = 0
    """How often the lane has not taken the request."""
    refused: Lost | None = None
    """Why the first of the lanes did not take it."""
    deaths: int = 0
    """Streams that died."""
    death: Lost | None = None
    """Of the last of them, until an answer begins again."""
    armed: bool = False
    """Some request of this turn was accepted."""
    compacted: bool = False
    """An overflow has been answered by a compaction: there is no second one."""
    cautious: bool = False
    """The history has been shortened before it could overflow, or could not be: it is not tried again."""
    thinking: bool = True
    """No delta of this attempt was seen yet."""
    text: Text = Text()
    calls: Calls = Calls()
    kept: str = ""
    """The partial text of the last dead attempt that had any."""
    flushed: int = 0
    """How many characters of the partial text were given to the store."""
    flushing: bool = False
    """The store has not answered that yet. Each flush holds the whole text: one at a time is enough."""
    end: End | None = None
    store_failures: int = 0

    @property
    def partial(self) -> str:
        """What was said so far: of this attempt or, while that has said nothing, of the last one that had."""
        return self.text.partial or self.kept
