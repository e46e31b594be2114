"""Quarantines: written by compare-and-set, one open at a time, their exits kept for a while."""

import asyncio
import sqlite3

import msgspec
import pytest

from actors.exceptions import Conflict
from actors.messages.lifecycle import StopStatus
from actors.messages.quarantine import (
    Case,
    CaseState,
    ExitCause,
    KeepQuarantine,
    QuarantineReason,
    QuarantineRow,
    ReadQuarantines,
    Subject,
    SubjectKind,
)
from actors.supervision.machine import Answered, BudgetOver, ReleaseAsked, step
from storage.migrations import migrate
from storage.retention import Retain
from storage.schema import QUARANTINES

DAY = 86_400.0


def opened(quarantine_id="q1", name="/a", generation=3, kind=SubjectKind.ACTOR):
    subject = Subject(kind=kind, name=name, generation=generation)
    case = Case(subject=subject, boot_id="b1", by="ann", why="stuck in a handler", since=900.0)
    return QuarantineRow(quarantine_id=quarantine_id, case=step(case, BudgetOver(), 905.0)[0])


def then(row, event, now=950.0):
    return msgspec.structs.replace(row, case=step(row.case, event, now)[0])


def keep(store, row):
    return store.ask(KeepQuarantine(row=row, at=store.now))


async def test_a_case_comes_back_as_it_was_over_a_restart(store):
    row = await keep(store, opened())
    assert row == msgspec.structs.replace(opened(), version=1)
    tried = await keep(store, then(row, Answered(3, StopStatus.STILL_ALIVE)))
    await store.reopen()
    (found,) = await store.ask(ReadQuarantines())
    assert found == tried
    assert (found.version, found.case.attempts, found.case.last_answer) == (2, 1, "still_alive")
    assert (found.case.by, found.case.why, found.case.state) == (
        "ann",
        "stuck in a handler",
        CaseState.QUARANTINED,
    )
    assert found.case.reason is QuarantineReason.STILL_ALIVE


async def test_an_exit_is_kept_with_its_cause_apart_from_what_is_open(store):
    row = await keep(store, opened())
    lifted = await keep(store, then(row, ReleaseAsked("bob", True)))
    assert await store.ask(ReadQuarantines()) == ()
    (found,) = await store.ask(ReadQuarantines(closed=True))
    assert found == lifted
    assert (found.case.cause, found.case.ended_by, found.case.ended_at) == (ExitCause.FORCED, "bob", 950.0)


async def test_of_two_writers_over_one_version_one_is_refused(store):
    row = await keep(store, opened())
    one, other = then(row, Answered(3, None)), then(row, ReleaseAsked("bob", True))
    outcomes = await asyncio.gather(keep(store, one), keep(store, other), return_exceptions=True)
    assert outcomes[0].version == 2
    with pytest.raises(Conflict, match="version 1 was expected, version 2 is stored"):
        raise outcomes[1]
    assert (await store.ask(ReadQuarantines()))[0].case.last_answer == "no_answer"


async def test_a_write_whose_answer_was_lost_may_be_repeated(store):
    first = opened()
    assert await keep(store, first) == await keep(store, first)
    second = then(await keep(store, first), Answered(3, None))
    assert await keep(store, second) == await keep(store, second)
    assert (await store.ask(ReadQuarantines()))[0].version == 2
    with pytest.raises(Conflict):
        await keep(store, first)


async def test_a_name_has_one_open_case_at_a_time_in_each_kind(store):
    row = await keep(store, opened())
    with pytest.raises(Conflict, match="actor /a is quarantined already, as generation 3"):
        await keep(store, opened("q2", generation=4))
    await keep(store, opened("q3", kind=SubjectKind.LINK))
    await keep(store, then(row, ReleaseAsked("bob", True)))
    await keep(store, opened("q2", generation=4))
    assert [found.quarantine_id for found in await store.ask(ReadQuarantines(name="/a"))] == ["q2", "q3"]
    assert [found.quarantine_id for found in await store.ask(ReadQuarantines(closed=True))] == ["q1"]


async def test_a_case_that_was_never_written_cannot_be_changed(store):
    with pytest.raises(Conflict, match="version 4 was expected, it is gone"):
        await keep(store, msgspec.structs.replace(opened(), version=4))


async def test_exits_go_after_90_days_and_open_ones_never(store):
    row = await keep(store, opened())
    await keep(store, opened("q2", name="/b"))
    await keep(store, then(row, ReleaseAsked("bob", True)))
    assert (await store.ask(Retain(at=950.0 + 89 * DAY))).gone == 0
    assert (await store.ask(Retain(at=950.0 + 91 * DAY))).gone == 1
    assert await store.ask(ReadQuarantines(closed=True)) == ()
    assert [found.quarantine_id for found in await store.ask(ReadQuarantines())] == ["q2"]


def test_version_1_gets_the_table_and_keeps_its_rows(tmp_path):
    """What a database of version 1 had is all but this table."""
    path = tmp_path / "turnkeep.db"
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(raw, path)
    whole = schema(raw)
    raw.execute("DROP TABLE quarantines")
    raw.execute("INSERT INTO events VALUES (1, 'k', '/', 1.0, '{}')")
    raw.execute("PRAGMA user_version = 1")
    migrate(raw, path, target=2)
    assert schema(raw) == whole
    assert raw.execute("PRAGMA user_version").fetchone() == (2,)
    assert raw.execute("SELECT count(*) FROM events").fetchone() == (1,)
    raw.close()
    assert (tmp_path / "turnkeep.db.v1.bak").exists()


def schema(raw):
    rows = raw.execute("SELECT name, trim(sql, char(10)) FROM sqlite_schema ORDER BY name").fetchall()
    assert len([name for name, _ in rows if name.startswith("quarantines")]) == len(QUARANTINES)
    return rows
