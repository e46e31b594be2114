"""REL-2: faults of the disk, said in words that help, survived without a restart; nothing answered that isn't stored."""

import asyncio
import contextlib
import resource
import sqlite3

import pytest

from actors.exceptions import StoreUnavailable
from actors.messages.rows import TurnState
from actors.messages.store import ListSessions
from storage.database import FILE
from storage.faults import explain

BIG = "x" * 100_000


@pytest.fixture
def told(store):
    """What the bus hears."""
    port = store.system.port("/bus")
    store.system.publish_to(port)
    return port


async def test_rel_2_a_full_disk_is_said_and_survived(store, told):
    def limit(pages):
        return lambda raw: raw.execute(f"PRAGMA max_page_count = {pages}").fetchone()[0]

    used = await store.raw(lambda raw: raw.execute("PRAGMA page_count").fetchone()[0])
    await store.raw(limit(used))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="disk is full: free some space"):
            await store.accept(BIG, message_id="m1")
    await store.raw(limit(1_000_000))
    accepted = await store.accept(BIG, message_id="m1")
    assert not accepted.duplicate and accepted.queued == 1
    kinds = [(await told.receive(store.within(5))).kind for _ in range(2)]
    assert kinds == ["store.unavailable", "store.recovered"]


async def test_rel_2_the_whole_batch_of_a_fault_is_answered_and_none_of_it_kept(store):
    used = await store.raw(lambda raw: raw.execute("PRAGMA page_count").fetchone()[0])
    await store.raw(lambda raw: raw.execute(f"PRAGMA max_page_count = {used}").fetchone())
    outcomes = await asyncio.gather(
        store.accept("small", session_key="k1"),
        store.accept(BIG, session_key="k2"),
        store.ask(ListSessions()),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert await store.ask(ListSessions()) == ()


@contextlib.contextmanager
def no_file_larger_than(size):
    """A quota as the kernel enforces it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_rel_2_a_write_that_the_system_refuses_is_said_and_survived(store):
    await store.accept()
    log = store.data_dir / f"{FILE}-wal"
    with no_file_larger_than(log.stat().st_size + 8192), pytest.raises(StoreUnavailable, match=r"quota|full"):
        await store.accept(BIG, message_id="m1")
    assert not (await store.accept(BIG, message_id="m1")).duplicate
    assert await store.raw(lambda raw: raw.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"


async def test_rel_2_a_file_that_is_gone_is_missed_at_once_and_goes_on_when_it_is_back(store, told):
    await store.accept(message_id="m1")
    file, away = store.data_dir / FILE, store.data_dir / "away"
    file.rename(away)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"moved, deleted or replaced.*put it back"):
            await store.accept(message_id="m2")
    with pytest.raises(StoreUnavailable):
        await store.ask(ListSessions())
    assert not file.exists()
    away.rename(file)
    assert not (await store.accept(message_id="m2")).duplicate
    assert (await store.accept(message_id="m1")).duplicate
    kinds = [(await told.receive(store.within(5))).kind for _ in range(2)]
    assert kinds == ["store.unavailable", "store.recovered"]


async def test_rel_2_a_missing_file_is_not_made_anew_by_a_new_connection(store):
    await store.accept()
    file = store.data_dir / FILE
    file.unlink()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await store.database.connect()
    assert not file.exists()


async def test_rel_2_a_database_locked_by_another_program_is_said_and_survived(store):
    await store.raw(lambda raw: raw.execute("PRAGMA busy_timeout = 10"))
    other = sqlite3.connect(store.data_dir / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another program holds a lock"):
        await store.accept(message_id="m1")
    other.execute("ROLLBACK")
    other.close()
    assert not (await store.accept(message_id="m1")).duplicate


async def test_rel_2_a_read_only_database_is_said_and_survived(store):
    await store.raw(lambda raw: raw.execute("PRAGMA query_only = 1"))
    with pytest.raises(StoreUnavailable, match="read-only: make it"):
        await store.accept(message_id="m1")
    # The fault is the connection's as far as the store can know, so it takes a new one.
    assert not (await store.accept(message_id="m1")).duplicate


async def test_rel_2_a_fault_right_before_the_commit_keeps_nothing(store):
    def fail():
        raise OSError(5, "Input/output error")

    store.system.failpoints.set("store.before_commit", fail)
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        await store.accept(message_id="m1")
    assert not (await store.accept(message_id="m1")).duplicate


async def test_no_model_gets_what_was_undone(store):
    accepted = await store.accept("one")
    taken = await store.take(accepted.session_id)
    await store.accept("two")

    def fail():
        raise OSError(5, "Input/output error")

    store.system.failpoints.set("store.before_commit", fail)
    lost = await asyncio.gather(
        store.end(taken, TurnState.COMMITTED, text="lost"),
        store.take(accepted.session_id),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in lost] == [StoreUnavailable] * 2
    await store.end(taken, TurnState.COMMITTED, text="kept")
    again = await store.take(accepted.session_id)
    assert [entry.content for entry in again.history] == ["one", "kept", "two"]


def test_a_fault_without_a_meaning_of_its_own_is_named_by_its_class(tmp_path):
    fault = explain(sqlite3.OperationalError("the text may hold a secret"), tmp_path / FILE)
    assert "OperationalError" in str(fault) and "secret" not in str(fault)
