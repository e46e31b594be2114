"""Stop-then-quarantine: every state with every event, and every path up to a depth."""

import itertools

import msgspec
import pytest

from actors.messages.lifecycle import StopStatus
from actors.messages.quarantine import (
    DAEMON,
    Case,
    CaseState,
    ExitCause,
    QuarantineReason,
    Subject,
    SubjectKind,
)
from actors.supervision.machine import (
    Announce,
    Answered,
    AskStop,
    Booted,
    BudgetOver,
    CountStale,
    Due,
    Ended,
    Free,
    GivenUp,
    Keep,
    Refuse,
    ReleaseAsked,
    RetryLater,
    Settle,
    TrackLost,
    step,
)

NOW = 2000.0
GEN = 7
NEW_BOOT, OLD_BOOT = "b2", "b1"

STOPPED = Answered(GEN, StopStatus.STOPPED)
GONE = Answered(GEN, StopStatus.ALREADY_GONE)
ALIVE = Answered(GEN, StopStatus.STILL_ALIVE)
SILENT = Answered(GEN, None)
ENDED = Ended(GEN)
PLAIN, FORCED = ReleaseAsked("ann", False), ReleaseAsked("ann", True)
GIVEN_UP, GIVEN_UP_UNPROVED = GivenUp(True), GivenUp(False)
SAME_PROCESS, NEXT_PROCESS = Booted(OLD_BOOT), Booted(NEW_BOOT)
STALE = (Answered(GEN - 1, StopStatus.STOPPED), Answered(GEN + 1, None), Ended(GEN - 1), Ended(GEN + 1))
EVENTS = (
    STOPPED, GONE, ALIVE, SILENT, ENDED, BudgetOver(), TrackLost(), GIVEN_UP, GIVEN_UP_UNPROVED, Due(),
    SAME_PROCESS, NEXT_PROCESS, PLAIN, FORCED, *STALE,
)  # fmt: skip


def case(state=CaseState.STOPPING, host=DAEMON, kind=SubjectKind.ACTOR, **fields):
    subject = Subject(kind=kind, name="/a", generation=GEN)
    return Case(
        subject=subject,
        host=host,
        boot_id=OLD_BOOT,
        by="ann",
        why="stuck",
        state=state,
        since=1000.0,
        **fields,
    )


STOPPING = case()
UNPROVED = case(CaseState.QUARANTINED, attempts=2)
INTENSE = case(CaseState.QUARANTINED, reason=QuarantineReason.INTENSITY, proved=True)
INTENSE_UNPROVED = case(CaseState.QUARANTINED, reason=QuarantineReason.INTENSITY)
ENDED_CASES = (
    case(CaseState.GONE, cause=ExitCause.STOPPED, ended_at=1500.0),
    case(CaseState.LIFTED, cause=ExitCause.FORCED, ended_at=1500.0),
)


def summary(before, event):
    """Return (state, cause, effects by name) after the event."""
    after, effects = step(before, event, NOW)
    return after.state, after.cause, tuple(type(effect) for effect in effects)


ENTER = (Keep, Announce, RetryLater)
LIFT = (Settle, Keep, Announce, Free)
Q, L, G, S = CaseState.QUARANTINED, CaseState.LIFTED, CaseState.GONE, CaseState.STOPPING

TABLE = [
    (STOPPING, STOPPED, (G, ExitCause.STOPPED, (Settle, Free))),
    (STOPPING, GONE, (G, ExitCause.STOPPED, (Settle, Free))),
    (STOPPING, ALIVE, (Q, None, ENTER)),
    (STOPPING, SILENT, (Q, None, ENTER)),
    (STOPPING, ENDED, (G, ExitCause.ENDED, (Settle, Free))),
    (STOPPING, BudgetOver(), (Q, None, ENTER)),
    (STOPPING, TrackLost(), (Q, None, ENTER)),
    (STOPPING, GIVEN_UP, (Q, None, (Keep, Announce, Settle))),
    (STOPPING, GIVEN_UP_UNPROVED, (Q, None, ENTER)),
    (STOPPING, Due(), (S, None, ())),
    (STOPPING, SAME_PROCESS, (Q, None, (Keep, Announce, AskStop))),
    (STOPPING, NEXT_PROCESS, (G, ExitCause.PROCESS_RESTARTED, (Settle, Free))),
    (STOPPING, PLAIN, (S, None, (Refuse,))),
    (STOPPING, FORCED, (S, None, (Refuse,))),
    (UNPROVED, STOPPED, (L, ExitCause.STOPPED, LIFT)),
    (UNPROVED, GONE, (L, ExitCause.STOPPED, LIFT)),
    (UNPROVED, ALIVE, (Q, None, (Keep, RetryLater))),
    (UNPROVED, SILENT, (Q, None, (Keep, RetryLater))),
    (UNPROVED, ENDED, (L, ExitCause.ENDED, LIFT)),
    (UNPROVED, BudgetOver(), (Q, None, ())),
    (UNPROVED, TrackLost(), (Q, None, ())),
    (UNPROVED, GIVEN_UP, (Q, None, ())),
    (UNPROVED, GIVEN_UP_UNPROVED, (Q, None, ())),
    (UNPROVED, Due(), (Q, None, (AskStop,))),
    (UNPROVED, SAME_PROCESS, (Q, None, (AskStop,))),
    (UNPROVED, NEXT_PROCESS, (L, ExitCause.PROCESS_RESTARTED, LIFT)),
    (UNPROVED, PLAIN, (Q, None, (Refuse,))),
    (UNPROVED, FORCED, (L, ExitCause.FORCED, LIFT)),
    (INTENSE, STOPPED, (Q, None, ())),
    (INTENSE, GONE, (Q, None, ())),
    (INTENSE, ALIVE, (Q, None, ())),
    (INTENSE, SILENT, (Q, None, ())),
    (INTENSE, ENDED, (Q, None, ())),
    (INTENSE, BudgetOver(), (Q, None, ())),
    (INTENSE, TrackLost(), (Q, None, ())),
    (INTENSE, GIVEN_UP, (Q, None, ())),
    (INTENSE, GIVEN_UP_UNPROVED, (Q, None, ())),
    (INTENSE, Due(), (Q, None, ())),
    (INTENSE, SAME_PROCESS, (Q, None, ())),
    (INTENSE, NEXT_PROCESS, (L, ExitCause.PROCESS_RESTARTED, LIFT)),
    (INTENSE, PLAIN, (L, ExitCause.RELEASED, LIFT)),
    (INTENSE, FORCED, (L, ExitCause.RELEASED, LIFT)),
    (INTENSE_UNPROVED, STOPPED, (Q, None, (Keep, Settle))),
    (INTENSE_UNPROVED, GONE, (Q, None, (Keep, Settle))),
    (INTENSE_UNPROVED, ALIVE, (Q, None, (Keep, RetryLater))),
    (INTENSE_UNPROVED, SILENT, (Q, None, (Keep, RetryLater))),
    (INTENSE_UNPROVED, ENDED, (Q, None, (Keep, Settle))),
    (INTENSE_UNPROVED, BudgetOver(), (Q, None, ())),
    (INTENSE_UNPROVED, TrackLost(), (Q, None, ())),
    (INTENSE_UNPROVED, GIVEN_UP, (Q, None, ())),
    (INTENSE_UNPROVED, GIVEN_UP_UNPROVED, (Q, None, ())),
    (INTENSE_UNPROVED, Due(), (Q, None, (AskStop,))),
    (INTENSE_UNPROVED, SAME_PROCESS, (Q, None, (AskStop,))),
    (INTENSE_UNPROVED, NEXT_PROCESS, (L, ExitCause.PROCESS_RESTARTED, LIFT)),
    (INTENSE_UNPROVED, PLAIN, (Q, None, (Refuse,))),
    (INTENSE_UNPROVED, FORCED, (L, ExitCause.FORCED, LIFT)),
]


@pytest.mark.parametrize(("before", "event", "expected"), TABLE, ids=lambda value: type(value).__name__)
def test_the_table(before, event, expected):
    assert summary(before, event) == expected


def test_the_table_has_every_open_state_with_every_event():
    events = [event for event in EVENTS if event not in STALE]
    open_cases = (STOPPING, UNPROVED, INTENSE, INTENSE_UNPROVED)
    asked = [(before, event) for before, event, _ in TABLE]
    assert len(asked) == len(open_cases) * len(events)
    assert all(pair in asked for pair in itertools.product(open_cases, events))


@pytest.mark.parametrize("before", ENDED_CASES)
@pytest.mark.parametrize("event", EVENTS)
def test_after_the_end_nothing_happens_any_more(before, event):
    after, effects = step(before, event, NOW)
    assert after == before
    if isinstance(event, ReleaseAsked):
        assert effects == (Refuse("actor /a (generation 7) is not quarantined"),)
    else:
        assert effects == ((CountStale(),) if event in STALE else ())


@pytest.mark.parametrize("event", STALE)
@pytest.mark.parametrize("before", [STOPPING, UNPROVED, INTENSE, INTENSE_UNPROVED])
def test_another_generation_is_counted_and_changes_nothing(before, event):
    assert step(before, event, NOW) == (before, (CountStale(),))


@pytest.mark.parametrize("before", [STOPPING, UNPROVED, INTENSE_UNPROVED])
def test_a_restart_of_ours_proves_nothing_about_what_another_host_runs(before):
    elsewhere = msgspec.structs.replace(before, host="machine-x")
    after, effects = step(elsewhere, NEXT_PROCESS, NOW)
    assert after.state is Q and AskStop() in effects and Free() not in effects


def test_a_try_is_evidence():
    after, effects = step(UNPROVED, SILENT, NOW)
    assert (after.attempts, after.last_answer, after.last_try_at) == (3, "no_answer", NOW)
    assert effects[-1] == RetryLater(3)
    assert step(after, ALIVE, NOW + 1)[0].last_answer == "still_alive"


def test_an_exit_says_when_and_who():
    after, _ = step(UNPROVED, FORCED, NOW)
    assert (after.ended_at, after.ended_by, after.by) == (NOW, "ann", "ann")
    assert step(UNPROVED, ENDED, NOW)[0].ended_by is None


def test_a_plain_release_says_what_is_unproved_and_what_to_do():
    _, (refused,) = step(msgspec.structs.replace(UNPROVED, last_answer="still_alive"), PLAIN, NOW)
    assert refused.text == (
        "nothing proves that actor /a (generation 7) on daemon has ended (asked 2 times, last answer still_alive):"
        " wait until it has, or release it with force; then two of it may run at once"
    )
    _, (refused,) = step(msgspec.structs.replace(UNPROVED, attempts=0), PLAIN, NOW)
    assert "(not asked yet)" in refused.text


# Paths

DEPTH = 5


def proves(before, event):
    """Say whether an event allows a replacement, by the rules and not by the machine."""
    match event:
        case Answered(generation=generation, status=status):
            return generation == GEN and status in (StopStatus.STOPPED, StopStatus.ALREADY_GONE)
        case Ended(generation=generation):
            return generation == GEN
        case Booted(boot_id=boot_id):
            return before.host == DAEMON and boot_id != before.boot_id
        case GivenUp(proved=proved):
            return proved and before.state is S
    return False


@pytest.mark.parametrize("host", [DAEMON, "machine-x"])
def test_no_path_frees_a_place_without_a_proof_or_an_operators_word(host):
    """Walk all paths; a state that was reached with the same knowledge before is not walked twice."""
    seen = set()
    edge = {(case(host=host), False, False)}
    ends = set()
    for _ in range(DEPTH):
        reached = set()
        for before, proved, freed in edge:
            for event in EVENTS:
                after, effects = step(before, event, NOW)
                known = proved or (before.open and proves(before, event))
                frees = effects.count(Free())
                if frees:
                    assert frees == 1 and not freed
                    by_order = isinstance(event, ReleaseAsked) and before.state is Q
                    assert known or (by_order and event.forced)
                assert (after.state in (G, L)) is (freed or frees == 1)
                assert after.open or after.cause is not None
                if before.state is not after.state:
                    assert list(CaseState).index(after.state) > list(CaseState).index(before.state)
                if after.state in (Q, L) and before.state is not after.state:
                    assert Keep() in effects and Announce() in effects
                ends.add(after.state)
                reached.add((after, known, freed or frees == 1))
        seen |= edge
        edge = reached - seen
    assert ends == set(CaseState)


def test_an_unproved_quarantine_always_has_something_to_wait_for():
    """Whatever happens to it, a timer, or an answer that brings one, is on its way; so it ends or is asked about."""
    for before in (UNPROVED, INTENSE_UNPROVED, STOPPING):
        for event in EVENTS:
            after, effects = step(before, event, NOW)
            if after.state is Q and not after.proved and after != before:
                assert any(isinstance(effect, RetryLater | AskStop) for effect in effects), (before, event)
