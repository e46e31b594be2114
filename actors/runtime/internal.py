"""What the runtime puts into a mailbox on an actor's own behalf."""

from actors.messages.base import ControlMessage, Message


class TimerFired(ControlMessage, frozen=True, kw_only=True):
    """A timer fired; ``token`` tells it from one that was cancelled or replaced meanwhile."""

    key: str
    token: object
    message: Message


class TaskFailed(ControlMessage, frozen=True, kw_only=True):
    """A task that the actor runs beside its handlers raised."""

    error: BaseException


class TraceChanged(ControlMessage, frozen=True, kw_only=True):
    """Tracing began or ended: the batch under way looks again at how it hands messages over."""
