"""
Stop-then-quarantine: pure, one for sessions, links, turns and actors alike.

A case begins as STOPPING. Nothing takes a subject's place before FREE, which comes once and only with a proof of the
subject's end or an operator's word. No answer counts as still_alive; losing track of the host proves nothing.

| event | STOPPING | QUARANTINED, unproved | QUARANTINED, proved |
|---|---|---|---|
| Answered stopped, already_gone | GONE (stopped): free | still_alive: LIFTED (stopped): keep, free; intensity: proved: keep | – |
| Answered still_alive, no answer | QUARANTINED: keep, announce, retry | noted: keep, retry | – |
| Ended | GONE (ended): free | still_alive: LIFTED (ended): keep, free; intensity: proved: keep | – |
| BudgetOver | QUARANTINED: keep, announce, retry | – | – |
| TrackLost | QUARANTINED: keep, announce, retry | – | – |
| GivenUp (past the restart intensity) | QUARANTINED: keep, announce, unproved: retry | – | – |
| Due (timer, host returned, operator) | – | ask the host to stop it | – |
| Booted, the host was an earlier process of ours | GONE (process_restarted): free | LIFTED (process_restarted): keep, free | same |
| Booted, another host | QUARANTINED: keep, announce, ask | ask | – |
| ReleaseAsked | refused | forced: LIFTED (forced): keep, free; plain: refused | LIFTED (released): keep, free |

In GONE and LIFTED nothing happens any more, and a release is refused. An answer or end of another generation is stale:
counted, never applied. LIFTED announces, too.
"""

from typing import TypeAlias

import msgspec

from actors.messages.lifecycle import StopStatus
from actors.messages.quarantine import DAEMON, Case, CaseState, ExitCause, QuarantineReason

NO_ANSWER = "no_answer"


# Events


class Answered(msgspec.Struct, frozen=True):
    """The host's answer to a stop of ``generation``; None if there was none in time."""

    generation: int
    status: StopStatus | None


class Ended(msgspec.Struct, frozen=True):
    """The end of ``generation`` was seen."""

    generation: int


class BudgetOver(msgspec.Struct, frozen=True):
    """The budget of the stop is over."""


class TrackLost(msgspec.Struct, frozen=True):
    """The host is away."""


class GivenUp(msgspec.Struct, frozen=True):
    """Its supervisor does not start it again; ``proved`` says whether all of its last incarnation has ended."""

    proved: bool


class Due(msgspec.Struct, frozen=True):
    """Time to reconcile: the timer fired, the host returned, or an operator wants to know."""


class Booted(msgspec.Struct, frozen=True):
    """The daemon has started, as the process ``boot_id``, and finds the case in the store."""

    boot_id: str


class ReleaseAsked(msgspec.Struct, frozen=True):
    """An operator wants the quarantine lifted."""

    by: str
    forced: bool


Event: TypeAlias = Answered | Ended | BudgetOver | TrackLost | GivenUp | Due | Booted | ReleaseAsked


# Effects


class AskStop(msgspec.Struct, frozen=True):
    """Ask the host to stop the subject and to say what is known of it."""


class RetryLater(msgspec.Struct, frozen=True):
    """Be due again after a backoff that grows with ``attempts``."""

    attempts: int


class Settle(msgspec.Struct, frozen=True):
    """Stop the timers."""


class Keep(msgspec.Struct, frozen=True):
    """Make the case durable."""


class Announce(msgspec.Struct, frozen=True):
    """Say that it is quarantined, or no longer."""


class Free(msgspec.Struct, frozen=True):
    """Let something take the subject's place."""


class Refuse(msgspec.Struct, frozen=True):
    """Say no to a release, and why."""

    text: str


class CountStale(msgspec.Struct, frozen=True):
    """Something was said of another generation."""


Effect: TypeAlias = AskStop | RetryLater | Settle | Keep | Announce | Free | Refuse | CountStale

Step: TypeAlias = tuple[Case, tuple[Effect, ...]]


def step(case: Case, event: Event, now: float) -> Step:
    """Return the case after an event, and what is to be done. ``now`` is unix seconds."""
    if isinstance(event, Answered | Ended) and event.generation != case.subject.generation:
        return case, (CountStale(),)
    match case.state:
        case CaseState.STOPPING:
            return _stopping(case, event, now)
        case CaseState.QUARANTINED if case.proved:
            return _held(case, event, now)
        case CaseState.QUARANTINED:
            return _unproved(case, event, now)
    if isinstance(event, ReleaseAsked):
        return case, (Refuse(f"{case.subject} is not quarantined"),)
    return case, ()


def _stopping(case: Case, event: Event, now: float) -> Step:
    match event:
        case Answered(status=status):
            asked = _noted(case, status, now)
            return _closed(asked, ExitCause.STOPPED, now) if _is_proof(status) else _quarantined(asked)
        case Ended():
            return _closed(case, ExitCause.ENDED, now)
        case BudgetOver() | TrackLost():
            return _quarantined(case)
        case GivenUp(proved=proved):
            return _quarantined(
                msgspec.structs.replace(case, reason=QuarantineReason.INTENSITY, proved=proved)
            )
        case Booted(boot_id=boot_id) if _ended_with_its_process(case, boot_id):
            return _closed(case, ExitCause.PROCESS_RESTARTED, now)
        case Booted():
            found, _ = _quarantined(case)
            return found, (Keep(), Announce(), AskStop())
        case ReleaseAsked():
            return case, (Refuse(f"a stop of {case.subject} is under way: wait for its end"),)
    return case, ()


def _unproved(case: Case, event: Event, now: float) -> Step:
    match event:
        case Answered(status=status):
            asked = _noted(case, status, now)
            if _is_proof(status):
                return _proved(asked, ExitCause.STOPPED, now)
            return asked, (Keep(), RetryLater(asked.attempts))
        case Ended():
            return _proved(case, ExitCause.ENDED, now)
        case Due():
            return case, (AskStop(),)
        case Booted(boot_id=boot_id) if _ended_with_its_process(case, boot_id):
            return _closed(case, ExitCause.PROCESS_RESTARTED, now)
        case Booted():
            return case, (AskStop(),)
        case ReleaseAsked(by=by, forced=True):
            return _closed(msgspec.structs.replace(case, ended_by=by), ExitCause.FORCED, now)
        case ReleaseAsked():
            return case, (Refuse(_unproved_text(case)),)
    return case, ()


def _held(case: Case, event: Event, now: float) -> Step:
    match event:
        case Booted(boot_id=boot_id) if _ended_with_its_process(case, boot_id):
            return _closed(case, ExitCause.PROCESS_RESTARTED, now)
        case ReleaseAsked(by=by):
            return _closed(msgspec.structs.replace(case, ended_by=by), ExitCause.RELEASED, now)
    return case, ()


def _quarantined(case: Case) -> Step:
    after = msgspec.structs.replace(case, state=CaseState.QUARANTINED)
    return after, (Keep(), Announce(), Settle() if case.proved else RetryLater(case.attempts))


def _proved(case: Case, cause: ExitCause, now: float) -> Step:
    """Go on from a proof of the end: it lifts a quarantine that was only about the end."""
    if case.reason is QuarantineReason.STILL_ALIVE:
        return _closed(case, cause, now)
    return msgspec.structs.replace(case, proved=True), (Keep(), Settle())


def _closed(case: Case, cause: ExitCause, now: float) -> Step:
    was_quarantined = case.state is CaseState.QUARANTINED
    state = CaseState.LIFTED if was_quarantined else CaseState.GONE
    after = msgspec.structs.replace(case, state=state, cause=cause, ended_at=now)
    return after, ((Settle(), Keep(), Announce(), Free()) if was_quarantined else (Settle(), Free()))


def _noted(case: Case, status: StopStatus | None, now: float) -> Case:
    return msgspec.structs.replace(
        case,
        attempts=case.attempts + 1,
        last_answer=NO_ANSWER if status is None else status.value,
        last_try_at=now,
    )


def _is_proof(status: StopStatus | None) -> bool:
    return status in (StopStatus.STOPPED, StopStatus.ALREADY_GONE)


def _ended_with_its_process(case: Case, boot_id: str) -> bool:
    return case.host == DAEMON and case.boot_id != boot_id


def _unproved_text(case: Case) -> str:
    tries = (
        f"asked {case.attempts} times, last answer {case.last_answer}" if case.attempts else "not asked yet"
    )
    return (
        f"nothing proves that {case.subject} on {case.host} has ended ({tries}): wait until it has, or release it with"
        " force; then two of it may run at once"
    )
