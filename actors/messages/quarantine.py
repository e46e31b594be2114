"""Stop-then-quarantine: its vocabulary, and what can be said to /quarantine and by it."""

import enum
from typing import Any

import msgspec

from actors.messages.base import ControlMessage, ControlRequest
from actors.messages.lifecycle import StopStatus
from actors.messages.store import Read, Write

DAEMON = "daemon"
"""The host of whatever runs in the daemon's own process: the end of that process is the proof of its end."""


class SubjectKind(enum.StrEnum):
    """What can be stopped, and be quarantined if its end is not proved."""

    ACTOR = "actor"
    SESSION = "session"
    LINK = "link"
    TURN = "turn"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of something; a later one is another subject."""

    kind: SubjectKind
    name: str
    """For an actor its path."""
    generation: int

    def __str__(self) -> str:
        return f"{self.kind} {self.name} (generation {self.generation})"


class CaseState(enum.StrEnum):
    """How far a stop has come, in order."""

    STOPPING = "stopping"
    """It has been asked for; its budget runs."""
    QUARANTINED = "quarantined"
    """Unrouted, and nothing takes its place."""
    GONE = "gone"
    """Its end was proved within the budget: it was never quarantined."""
    LIFTED = "lifted"
    """The quarantine is over; ``cause`` says why."""


class QuarantineReason(enum.StrEnum):
    """Why something is quarantined."""

    STILL_ALIVE = "still_alive"
    """It did not end within the budget of its stop."""
    INTENSITY = "restart_intensity"
    """It ended more often than its supervisor starts it again."""


class ExitCause(enum.StrEnum):
    """How a case was closed."""

    ENDED = "ended"
    """It ended by itself."""
    STOPPED = "stopped"
    """A stop was confirmed."""
    RELEASED = "released"
    """An operator let it go on; its end was proved."""
    FORCED = "forced"
    """An operator let it go on although its end was not proved."""
    PROCESS_RESTARTED = "process_restarted"
    """The process that it ran in has ended."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One stop, with its evidence. Times are unix seconds."""

    subject: Subject
    host: str = DAEMON
    """Who runs it, and can therefore say whether it has ended."""
    boot_id: str
    """The process that asked for the stop."""
    by: str
    """Who asked."""
    why: str
    reason: QuarantineReason = QuarantineReason.STILL_ALIVE
    state: CaseState = CaseState.STOPPING
    proved: bool = False
    """Whether its end is proved: one past its restart intensity is quarantined all the same."""
    since: float
    attempts: int = 0
    """How often its host was asked to stop it."""
    last_answer: str | None = None
    """A StopStatus, or ``no_answer``, which counts as still_alive."""
    last_try_at: float | None = None
    cause: ExitCause | None = None
    ended_at: float | None = None
    ended_by: str | None = None
    """The operator who released it."""

    @property
    def open(self) -> bool:
        """Whether nothing may take its place yet."""
        return self.state in (CaseState.STOPPING, CaseState.QUARANTINED)


class QuarantineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A case as the store keeps it. ``version`` counts its writes; 0 is one that was never written."""

    quarantine_id: str
    version: int = 0
    case: Case


# From the runtime: places in the tree


class PlaceQuarantined(ControlMessage, frozen=True, kw_only=True):
    """An actor's place is unrouted and not started again until it is lifted. Times are unix seconds."""

    path: str
    incarnation: int
    reason: QuarantineReason
    proved: bool
    by: str
    why: str
    since: float


class PlaceEnded(ControlMessage, frozen=True, kw_only=True):
    """Whatever was lost of a quarantined actor has ended."""

    path: str
    incarnation: int


class PlaceFree(ControlMessage, frozen=True, kw_only=True):
    """Told to a parent: a child of that name may be started."""

    name: str
    released: bool = False
    """An operator wants it."""


# Between /quarantine and hosts other than the daemon


class Contain(ControlMessage, frozen=True, kw_only=True):
    """Stop ``subject`` and, if its end is not proved in ``stop_s`` seconds, quarantine it. ``owner`` hears SubjectFree."""

    subject: Subject
    host: str
    owner: Any
    by: str
    why: str
    stop_s: float


class HostReturned(ControlMessage, frozen=True, kw_only=True):
    """A host can be asked again, at ``address``, about what it was running."""

    host: str
    address: Any


class HostLost(ControlMessage, frozen=True, kw_only=True):
    """A host cannot be asked any more: that proves nothing about what it runs."""

    host: str


class SubjectEnded(ControlMessage, frozen=True, kw_only=True):
    """A host has seen the end of a subject."""

    subject: Subject


class StopSubject(ControlRequest[StopStatus], frozen=True, kw_only=True):
    """Asked of a host: end that generation and say what is known of it."""

    subject: Subject


class SubjectFree(ControlMessage, frozen=True, kw_only=True):
    """Told to the owner: something may take the subject's place."""

    subject: Subject
    cause: ExitCause


# From operators


class ListQuarantines(ControlRequest[tuple[QuarantineRow, ...]], frozen=True, kw_only=True):
    """What is quarantined now, the oldest first; those that the store does not know yet included."""


class ReleaseQuarantine(ControlRequest[QuarantineRow], frozen=True, kw_only=True):
    """
    Lift a quarantine. Refused with Conflict while nothing proves the end, unless ``forced``.

    Refused with NotFound if nothing of that name or id is quarantined.
    """

    name: str
    by: str
    forced: bool = False


class ReconcileQuarantines(ControlRequest[tuple[QuarantineRow, ...]], frozen=True, kw_only=True):
    """Ask the hosts again, now, about one or about all. Answers what has been asked about, as it is then."""

    name: str | None = None


# To /store


class KeepQuarantine(Write[QuarantineRow], frozen=True, kw_only=True):
    """
    Write a case over the ``version`` that the caller has seen; the answer has the next one. Repeating it is harmless.

    Refused with Conflict if another version is stored, or the subject's name has another open case.
    """

    row: QuarantineRow


class ReadQuarantines(Read[tuple[QuarantineRow, ...]], frozen=True, kw_only=True):
    """Cases, the newest first: the open ones, or the closed ones; of one name or of all. By its id, any one."""

    closed: bool = False
    name: str | None = None
    quarantine_id: str | None = None
    limit: int = 1000
