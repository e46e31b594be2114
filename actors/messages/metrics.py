"""What can be said to /metrics, which counts what turns tell of their attempts."""

import enum

from actors.messages.base import Message, Request
from actors.messages.lane import FailureClass


class Outcome(enum.StrEnum):
    """How an attempt ended that did not fail; one that did bears its FailureClass."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    """Somebody wanted no more of it, or another turn has taken over."""


class AttemptMeasured(Message, frozen=True, kw_only=True):
    """One request to a lane is over."""

    lane: str
    outcome: Outcome | FailureClass
    first_token_s: float | None = None
    """Seconds from the request to the first piece of the answer or of its reasoning; None if none came."""
    usage: dict[str, int] | None = None
    """Tokens: ``prompt_tokens`` and ``completion_tokens``."""
    estimated: bool = False
    """The backend did not say what was used."""


class Histogram(Message, frozen=True, kw_only=True):
    """How many values were at most each bound, in order, the last of which is infinite; and their sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class LaneMeasures(Message, frozen=True, kw_only=True):
    """What is known of one lane's attempts since the daemon began."""

    lane: str
    attempts: dict[str, int]
    """By outcome."""
    first_token: Histogram
    """In seconds."""
    tokens: dict[tuple[str, bool], int]
    """By kind (``prompt``, ``completion``) and whether they are an estimate."""


class ReadMeasures(Request[tuple[LaneMeasures, ...]], frozen=True, kw_only=True):
    """What is known of each lane, by its name."""
