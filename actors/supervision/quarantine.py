"""/quarantine: owns the open quarantines: asks hosts again, keeps the rows, and lets operators look and release."""

import hashlib
from typing import Any

import structlog

from actors.backoff import Backoff
from actors.exceptions import Conflict, NotFound
from actors.messages.base import ControlMessage
from actors.messages.lifecycle import DeadLetterReason, StopStatus
from actors.messages.quarantine import (
    DAEMON,
    Case,
    CaseState,
    Contain,
    ExitCause,
    HostLost,
    HostReturned,
    ListQuarantines,
    PlaceEnded,
    PlaceQuarantined,
    QuarantineReason,
    QuarantineRow,
    ReadQuarantines,
    ReconcileQuarantines,
    ReleaseQuarantine,
    StopSubject,
    Subject,
    SubjectEnded,
    SubjectFree,
    SubjectKind,
)
from actors.runtime import Actor, Ref
from actors.supervision import machine
from actors.supervision.ledger import CaseKept, KeepAgain, Ledger, VersionRead
from actors.supervision.settings import SupervisionSettings

log = structlog.get_logger("turnkeep.quarantine")


class RowsRead(ControlMessage, frozen=True, kw_only=True):
    """The open rows; None if the store could not say."""

    rows: tuple[QuarantineRow, ...] | None


class LoadAgain(ControlMessage, frozen=True, kw_only=True):
    """The wait before another look into the store is over."""


class CaseDue(ControlMessage, frozen=True, kw_only=True):
    """The wait before another try is over."""

    quarantine_id: str


class StopOver(ControlMessage, frozen=True, kw_only=True):
    """The budget of a stop is over."""

    quarantine_id: str


class HostAnswered(ControlMessage, frozen=True, kw_only=True):
    """What a host said of a subject; None if nothing in time."""

    quarantine_id: str
    generation: int
    status: StopStatus | None


class Quarantine(Actor):
    """
    Performs what the machine decides about each case.

    A place in the tree is held by the runtime, whether or not this actor or the store is there: here it gets its row,
    its tries and its release. A case that could not be stored yet is open all the same.
    """

    kind = "quarantine"

    def __init__(self, *, store: Ref, boot_id: str, settings: SupervisionSettings) -> None:
        self._store = store
        self._boot_id = boot_id
        self._settings = settings
        self._backoff = Backoff(settings.reconcile_base_s, settings.reconcile_cap_s)
        self._cases: dict[str, Case] = {}
        # Hosts other than the daemon that can be asked now.
        self._hosts: dict[str, Ref] = {}
        # Who wants to know when the subject's place is free, of cases that were opened by Contain.
        self._owners: dict[str, Ref] = {}
        self._load_failures = 0

    async def on_start(self) -> None:
        """Take over what an earlier process, or an earlier incarnation, left open, before anything of it can start."""
        self._ledger = Ledger(self.ctx, self._store, self._settings)
        self.ctx.system.custody.report_to(self.ctx.ref)
        if self.ctx.incarnation > 0:
            # The store may be why: what is held by the runtime is known without it.
            self._adopt_places()
            self._read_rows()
            return
        self._load(await self._store.ask(ReadQuarantines(), self.ctx.within(self._settings.store_s)))

    async def on_receive(self, message: Any) -> Any:
        """Translate a message into an event of a case's machine."""
        match message:
            case PlaceQuarantined():
                self._open_place(message)
            case PlaceEnded(path=path, incarnation=incarnation):
                self._ended(Subject(kind=SubjectKind.ACTOR, name=path, generation=incarnation))
            case SubjectEnded(subject=subject):
                self._ended(subject)
            case Contain():
                self._contain(message)
            case CaseDue(quarantine_id=quarantine_id):
                self._decide(quarantine_id, machine.Due())
            case StopOver(quarantine_id=quarantine_id):
                self._decide(quarantine_id, machine.BudgetOver())
            case HostAnswered(quarantine_id=quarantine_id):
                self._decide(quarantine_id, machine.Answered(message.generation, message.status))
            case HostReturned(host=host, address=address):
                self._hosts[host] = address
                self._decide_all(host, machine.Due())
            case HostLost(host=host):
                self._hosts.pop(host, None)
                self._decide_all(host, machine.TrackLost())
            case RowsRead(rows=rows):
                self._rows_read(rows)
            case LoadAgain():
                self._read_rows()
            case CaseKept() | KeepAgain() | VersionRead():
                self._ledger.hear(message)
            case ListQuarantines():
                return self._rows(self._cases)
            case ReconcileQuarantines(name=name):
                return self._reconcile(name)
            case ReleaseQuarantine():
                return self._release(message)
        return None

    # Opening

    def _open_place(self, place: PlaceQuarantined) -> None:
        held = self.ctx.system.custody.place(place.path)
        if held is None or held.since != place.since:
            # Free again before this was read.
            return
        subject = Subject(kind=SubjectKind.ACTOR, name=place.path, generation=place.incarnation)
        case = self._case(subject, DAEMON, place.by, place.why, place.since)
        quarantine_id = self._id(case)
        if quarantine_id in self._cases:
            return
        self._cases[quarantine_id] = case
        intensity = place.reason is QuarantineReason.INTENSITY
        self._decide(quarantine_id, machine.GivenUp(held.proved) if intensity else machine.BudgetOver())

    def _contain(self, message: Contain) -> None:
        case = self._case(message.subject, message.host, message.by, message.why, self.ctx.wall())
        if self._find_subject(message.subject) is not None:
            return
        quarantine_id = self._id(case)
        self._cases[quarantine_id] = case
        self._owners[quarantine_id] = message.owner
        self.ctx.set_timer(f"stop:{quarantine_id}", message.stop_s, StopOver(quarantine_id=quarantine_id))
        self._ask(quarantine_id, case, message.stop_s)

    def _case(self, subject: Subject, host: str, by: str, why: str, since: float) -> Case:
        return Case(subject=subject, host=host, boot_id=self._boot_id, by=by, why=why, since=since)

    def _id(self, case: Case) -> str:
        # Named after the case, so that one that is met again is the same one.
        subject = case.subject
        parts = (self._boot_id, subject.kind, subject.name, str(subject.generation), str(case.since))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    # What was left open

    def _adopt_places(self) -> None:
        for place in self.ctx.system.custody.quarantined():
            self._open_place(place)

    def _read_rows(self) -> None:
        self.ctx.pipe(
            self._store.ask(ReadQuarantines(), self.ctx.within(self._settings.store_s)),
            lambda rows: RowsRead(rows=rows),
            lambda error: RowsRead(rows=None),
        )

    def _rows_read(self, rows: tuple[QuarantineRow, ...] | None) -> None:
        if rows is None:
            self._load_failures += 1
            delay = self._backoff.delay(self._load_failures, self.ctx.system.random.random())
            self.ctx.set_timer("load", delay, LoadAgain())
            return
        self._load_failures = 0
        self._load(rows)

    def _load(self, rows: tuple[QuarantineRow, ...]) -> None:
        for row in reversed(rows):
            if row.quarantine_id in self._cases:
                continue
            self._cases[row.quarantine_id] = row.case
            self._ledger.enter(row)
            self._decide(row.quarantine_id, self._found(row.case))

    def _found(self, case: Case) -> machine.Event:
        subject = case.subject
        if case.boot_id != self._boot_id or subject.kind is not SubjectKind.ACTOR:
            return machine.Booted(self._boot_id)
        # An earlier incarnation opened it. If the runtime does not hold the place any more it is over, by its own end or
        # by an operator's word; only the exit was not written.
        if case.reason is QuarantineReason.STILL_ALIVE:
            return machine.Ended(subject.generation)
        return machine.ReleaseAsked("an operator", forced=True)

    # Deciding

    def _ended(self, subject: Subject) -> None:
        quarantine_id = self._find_subject(subject)
        if quarantine_id is None:
            self.ctx.system.dead_letters.add(self.ctx.path, machine.Ended.__name__, DeadLetterReason.STALE)
        else:
            self._decide(quarantine_id, machine.Ended(subject.generation))

    def _decide_all(self, host: str, event: machine.Event) -> None:
        for quarantine_id, case in list(self._cases.items()):
            if case.host == host:
                self._decide(quarantine_id, event)

    def _decide(self, quarantine_id: str, event: machine.Event) -> machine.Step | None:
        before = self._cases.get(quarantine_id)
        if before is None:
            # A timer, or an answer, of a case that is closed.
            return None
        after, effects = machine.step(before, event, self.ctx.wall())
        self._log(before, event, after, effects)
        if after.open:
            self._cases[quarantine_id] = after
        else:
            del self._cases[quarantine_id]
        for effect in effects:
            self._perform(quarantine_id, after, effect)
        return after, effects

    def _log(
        self, before: Case, event: machine.Event, after: Case, effects: tuple[machine.Effect, ...]
    ) -> None:
        log.info(
            "quarantine.decided",
            kind=str(before.subject.kind),
            subject=before.subject.name,
            generation=before.subject.generation,
            state=str(before.state),
            event_kind=type(event).__name__,
            action=[type(effect).__name__ for effect in effects],
            next=str(after.state),
            attempts=after.attempts,
            last_answer=after.last_answer,
            cause=after.cause,
        )

    def _perform(self, quarantine_id: str, case: Case, effect: machine.Effect) -> None:
        match effect:
            case machine.AskStop():
                self._ask(quarantine_id, case, self._settings.answer_s)
            case machine.RetryLater(attempts=attempts):
                delay = self._backoff.delay(attempts + 1, self.ctx.system.random.random())
                self.ctx.cancel_timer(f"stop:{quarantine_id}")
                self.ctx.set_timer(f"due:{quarantine_id}", delay, CaseDue(quarantine_id=quarantine_id))
            case machine.Settle():
                self.ctx.cancel_timer(f"stop:{quarantine_id}")
                self.ctx.cancel_timer(f"due:{quarantine_id}")
            case machine.Keep():
                self._ledger.keep(quarantine_id, case)
            case machine.Announce():
                self._announce(case)
            case machine.Free():
                self._free(quarantine_id, case)
            case machine.CountStale():
                self.ctx.system.dead_letters.add(self.ctx.path, "Answered", DeadLetterReason.STALE)

    def _ask(self, quarantine_id: str, case: Case, seconds: float) -> None:
        subject = case.subject
        if subject.kind is SubjectKind.ACTOR and case.host == DAEMON:
            alive = self.ctx.system.custody.cancel_again(subject.name)
            status = StopStatus.STILL_ALIVE if alive else StopStatus.ALREADY_GONE
            self._decide(quarantine_id, machine.Answered(subject.generation, status))
            return
        host = self._owners.get(quarantine_id) if case.host == DAEMON else self._hosts.get(case.host)
        if host is None:
            self._decide(quarantine_id, machine.Answered(subject.generation, None))
            return
        self.ctx.pipe(
            host.ask(StopSubject(subject=subject), self.ctx.within(seconds)),
            lambda status: HostAnswered(
                quarantine_id=quarantine_id, generation=subject.generation, status=status
            ),
            lambda error: HostAnswered(
                quarantine_id=quarantine_id, generation=subject.generation, status=None
            ),
        )

    def _announce(self, case: Case) -> None:
        subject = case.subject
        facts: dict[str, str | int | None] = {
            "subject": subject.name,
            "subject_kind": str(subject.kind),
            "generation": subject.generation,
            "host": case.host,
            "reason": str(case.reason),
        }
        if case.state is CaseState.LIFTED:
            cause = str(case.cause) if case.cause is not None else None
            self.ctx.publish("quarantine.lifted", **facts, cause=cause, by=case.ended_by)
        else:
            self.ctx.publish("quarantine.opened", **facts, why=case.why)

    def _free(self, quarantine_id: str, case: Case) -> None:
        owner = self._owners.pop(quarantine_id, None)
        if case.subject.kind is SubjectKind.ACTOR and case.host == DAEMON:
            if case.boot_id == self._boot_id:
                self.ctx.system.custody.release(case.subject.name, case.subject.generation)
        elif owner is not None:
            owner.tell(SubjectFree(subject=case.subject, cause=case.cause or ExitCause.ENDED))

    # Operators

    def _reconcile(self, name: str | None) -> tuple[QuarantineRow, ...]:
        asked = list(self._cases) if name is None else self._named(name)
        before = self._rows(asked)
        for quarantine_id in asked:
            self._decide(quarantine_id, machine.Due())
        # One whose end was found is over by now: it is shown as it was.
        return tuple(
            QuarantineRow(
                quarantine_id=row.quarantine_id,
                version=row.version,
                case=self._cases.get(row.quarantine_id, row.case),
            )
            for row in before
        )

    def _release(self, message: ReleaseQuarantine) -> QuarantineRow:
        found = self._named(message.name)
        if len(found) > 1:
            raise Conflict(f"several things named {message.name} are quarantined: name one by its id")
        (quarantine_id,) = found
        step = self._decide(quarantine_id, machine.ReleaseAsked(message.by, message.forced))
        assert step is not None
        after, effects = step
        for effect in effects:
            if isinstance(effect, machine.Refuse):
                raise Conflict(effect.text)
        return QuarantineRow(
            quarantine_id=quarantine_id, version=self._ledger.version(quarantine_id), case=after
        )

    def _named(self, name: str) -> list[str]:
        found = [
            quarantine_id
            for quarantine_id, case in self._cases.items()
            if case.subject.name == name or quarantine_id.startswith(name)
        ]
        if not found:
            raise NotFound(f"nothing named {name} is quarantined")
        return found

    def _find_subject(self, subject: Subject) -> str | None:
        """Return the case of the same thing, whichever its generation."""
        for quarantine_id, case in self._cases.items():
            if (case.subject.kind, case.subject.name) == (subject.kind, subject.name):
                return quarantine_id
        return None

    def _rows(self, ids: Any) -> tuple[QuarantineRow, ...]:
        rows = [
            QuarantineRow(
                quarantine_id=quarantine_id,
                version=self._ledger.version(quarantine_id),
                case=self._cases[quarantine_id],
            )
            for quarantine_id in ids
        ]
        return tuple(sorted(rows, key=lambda row: row.case.since))
