"""What can be said to every actor, and what a parent or watcher hears of one."""

import enum
from typing import Any

from actors.messages.base import ControlMessage, ControlRequest, Message


class Status(enum.IntEnum):
    """The life of an actor, in order. Only a restart goes back, from DOWN to STARTING."""

    CREATED = 0
    STARTING = 1
    RUNNING = 2
    SUSPENDED = 3
    STOPPING = 4
    DOWN = 5
    """Crashed; its supervisor decides whether it starts again."""
    QUARANTINED = 6
    """Ended, or lost; not routed to and not started until it is released."""
    STOPPED = 7


class DownReason(enum.StrEnum):
    """Why an actor ended."""

    NORMAL = "normal"
    """It ended itself."""
    PASSIVATED = "passivated"
    """It ended itself because it was idle; the next message activates it again."""
    SHUTDOWN = "shutdown"
    """It was told to stop."""
    RESTART = "restart"
    """It was told to stop so that its supervisor starts it again, whatever its restart type."""
    CRASHED = "crashed"
    """A handler raised."""
    START_FAILED = "start_failed"
    """``on_start`` raised."""
    KILLED = "killed"
    """It did not end in its budget, or was to end at once."""


ABNORMAL = frozenset({DownReason.CRASHED, DownReason.START_FAILED, DownReason.KILLED})
"""Reasons after which a transient child starts again."""


class StopStatus(enum.StrEnum):
    """The answer to a stop. No answer counts as STILL_ALIVE."""

    STOPPED = "stopped"
    ALREADY_GONE = "already_gone"
    STILL_ALIVE = "still_alive"


class Stop(ControlRequest[StopStatus], frozen=True, kw_only=True):
    """End: refuse what is queued, stop the children, run ``on_stop``."""

    reason: DownReason = DownReason.SHUTDOWN


class Suspend(ControlRequest[None], frozen=True, kw_only=True):
    """Hold the ordinary lane; control messages are still served (ADM-7)."""


class Resume(ControlRequest[None], frozen=True, kw_only=True):
    """Serve the ordinary lane again."""


class Watch(ControlMessage, frozen=True, kw_only=True):
    """Send ``watcher`` a Down when this actor ends."""

    watcher: Any


class Unwatch(ControlMessage, frozen=True, kw_only=True):
    """Send it none. One that is under way already still arrives."""

    watcher: Any


class Down(ControlMessage, frozen=True, kw_only=True):
    """An actor ended. Sent to its parent and its watchers."""

    path: str
    incarnation: int
    reason: DownReason
    error: str | None = None
    """The error's class name."""


class ActorInfo(Message, frozen=True, kw_only=True):
    """One row of ``ps``: counters that the runtime keeps of an actor. Ages in seconds."""

    path: str
    kind: str
    state: str
    incarnation: int
    parent: str | None
    control_depth: int
    ordinary_depth: int
    oldest_age: float
    busy_for: float
    handled: int
    restarts: int
    last_error: str | None
    age: float
    since: float
    """When this incarnation began, or its place was made, in Unix seconds."""


class Inspect(ControlRequest[ActorInfo], frozen=True, kw_only=True):
    """Answer with the row of ``ps``. That shows that it serves control messages, be its ordinary lane held or not."""


class DeadLetterReason(enum.StrEnum):
    """Why a message was not handled."""

    EXPIRED = "expired"
    OVERFLOW = "overflow"
    STOPPED = "stopped"
    REFUSED = "refused"
    QUARANTINED = "quarantined"
    STALE = "stale"
    """It belongs to an older generation or incarnation."""
    LATE = "late"
    """An answer that nobody waits for any more."""


class DeadLetter(Message, frozen=True, kw_only=True):
    """A message that was not handled. Holds its type, never its contents."""

    path: str
    message_type: str
    reason: DeadLetterReason
    at: float
    """Unix seconds."""
