"""What the runtime puts into a mailbox on an actor's own behalf."""

from actors.messages.base import ControlMessage, Message
from actors.messages.lifecycle import DownReason


class Own(ControlMessage, frozen=True, kw_only=True):
    """What an incarnation has sent itself: no later one gets it."""


class TimerFired(Own, frozen=True, kw_only=True):
    """A timer fired; ``token`` tells it from one that was cancelled or replaced meanwhile."""

    key: str
    token: object
    message: Message


class Piped(Own, frozen=True, kw_only=True):
    """An answer that was piped has come, as ``message``."""

    message: Message


class OwnStop(Own, frozen=True, kw_only=True):
    """The actor ends itself."""

    reason: DownReason


class TaskFailed(Own, frozen=True, kw_only=True):
    """A task that the actor runs beside its handlers raised."""

    error: BaseException


class TraceChanged(ControlMessage, frozen=True, kw_only=True):
    """Tracing began or ended: the batch under way looks again at how it hands messages over."""
