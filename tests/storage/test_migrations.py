"""Migrations that are cut short: the database is as before, or as after, and the way back is there."""

import asyncio
import contextlib
import sqlite3
import sys

import pytest

from actors.exceptions import StoreUnavailable
from actors.messages.rows import TurnState
from actors.messages.store import ReadHistory
from storage import Database, open_database
from storage.database import FILE
from storage.migrations import migrate
from storage.schema import COLUMNS, DELIVERY_COLUMNS, TURN_COLUMNS, VERSION
from storage.settings import StoreSettings
from tests import disk
from tests.storage.box import StoreBox

PROGRAM = f"""
import os, pathlib, signal, sqlite3, sys
from storage.migrations import migrate
def step(connection):
    connection.execute("CREATE TABLE half (x)")
    connection.execute("INSERT INTO half SELECT seq FROM events")
    os.kill(os.getpid(), signal.SIGKILL)
path = pathlib.Path(sys.argv[1])
raw = sqlite3.connect(path, isolation_level=None)
raw.execute("PRAGMA journal_mode = WAL")
def good(connection):
    connection.execute("CREATE TABLE whole (x)")
migrate(raw, path, target={VERSION + 2}, steps={{{VERSION}: good, {VERSION + 1}: step}})
"""


def made(path, rows=1):
    """A database of the present version with something in it."""
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(raw, path)
    raw.execute("BEGIN")
    raw.executemany(
        "INSERT INTO events VALUES (?, 'k', '/', 1.0, ?)", [(n, "x" * 1000) for n in range(1, rows + 1)]
    )
    raw.execute("COMMIT")
    return raw


def state(path):
    """Return version and names of tables."""
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = {row[0] for row in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        return raw.execute("PRAGMA user_version").fetchone()[0], names & {"half", "whole"}


def lead_back(raw, version):
    """Make a database of the present version what ``version`` had."""
    if version < 5:
        raw.execute("DROP INDEX history_compaction")
        for table, column in TURN_COLUMNS:
            raw.execute(f"ALTER TABLE {table} DROP COLUMN {column.split()[0]}")
    if version < 4:
        raw.execute("DROP INDEX deliveries_beginnings")
        for table, column in DELIVERY_COLUMNS:
            raw.execute(f"ALTER TABLE {table} DROP COLUMN {column.split()[0]}")
    if version < 3:
        for table, column in COLUMNS:
            raw.execute(f"ALTER TABLE {table} DROP COLUMN {column.split()[0]}")
    if version < 2:
        raw.execute("DROP TABLE quarantines")
    raw.execute(f"PRAGMA user_version = {version}")


def columns(raw):
    """Return the columns of each table, and the indexes."""
    names = [row[0] for row in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    indexes = {row[0] for row in raw.execute("SELECT sql FROM sqlite_schema WHERE type = 'index'")}
    return {name: raw.execute(f"PRAGMA table_info({name})").fetchall() for name in names}, indexes


async def test_a_kill_in_the_middle_of_a_step_leaves_the_version_before_it(tmp_path):
    path = tmp_path / FILE
    made(path, 100).close()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(path))
    assert await process.wait() == -9
    # The step before the kill stays, as it was one of its own.
    assert state(path) == (VERSION + 1, {"whole"})
    assert state(tmp_path / f"{FILE}.v{VERSION}.bak") == (VERSION, set())
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(
        raw,
        path,
        target=VERSION + 2,
        steps={VERSION + 1: lambda connection: connection.execute("CREATE TABLE half (x)")},
    )
    raw.close()
    assert state(path) == (VERSION + 2, {"whole", "half"})
    assert state(tmp_path / f"{FILE}.v{VERSION + 1}.bak") == (VERSION + 1, {"whole"})


def test_without_room_for_the_backup_nothing_is_migrated_nor_left_behind(small_disk):
    path = small_disk / FILE
    raw = made(path, 250)
    steps = {VERSION: lambda connection: connection.execute("CREATE TABLE whole (x)")}
    filler = disk.fill(small_disk)
    before = sorted(small_disk.iterdir())
    for _ in range(2):
        with pytest.raises((sqlite3.OperationalError, OSError), match=r"full|No space"):
            migrate(raw, path, target=VERSION + 1, steps=steps)
    assert sorted(small_disk.iterdir()) == before
    assert raw.execute("PRAGMA user_version").fetchone() == (VERSION,)
    filler.unlink()
    migrate(raw, path, target=VERSION + 1, steps=steps)
    raw.close()
    assert state(path)[0] == VERSION + 1


def test_a_backup_of_before_stays_until_the_new_one_is_whole(small_disk):
    path = small_disk / FILE
    raw = made(path, 200)
    backup = small_disk / f"{FILE}.v{VERSION}.bak"
    backup.write_bytes(b"of before")
    disk.fill(small_disk)
    with pytest.raises((sqlite3.OperationalError, OSError)):
        migrate(raw, path, target=VERSION + 1, steps={})
    raw.close()
    assert backup.read_bytes() == b"of before"


@pytest.mark.parametrize("version", range(1, VERSION))
async def test_a_database_of_each_older_version_is_migrated_when_it_is_opened(tmp_path, version):
    path = tmp_path / "data" / FILE
    path.parent.mkdir()
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(raw, path)
    new = columns(raw)
    lead_back(raw, version)
    assert columns(raw) != new
    raw.close()
    (await open_database(path.parent)).close()
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert columns(raw) == new


async def test_what_an_older_turnkeep_has_kept_goes_on_in_the_newer_one(tmp_path):
    box = await StoreBox(tmp_path / "data").open()
    accepted = await box.accept("one")
    await box.end(await box.take(accepted.session_id), TurnState.COMMITTED, text="yes")
    await box.accept("two")
    await box.close()
    raw = sqlite3.connect(box.data_dir / FILE, isolation_level=None)
    # As it wrote what waits: text alone.
    raw.execute(
        "UPDATE inbox SET entries = ? WHERE state = 'accepted'", ('[{"role":"user","content":"two"}]',)
    )
    lead_back(raw, 2)
    raw.close()
    await box.open()
    taken = await box.take(accepted.session_id)
    assert [entry.content for entry in taken.history] == ["one", "yes", "two"]
    assert [row.content for row in await box.ask(ReadHistory(session_id=accepted.session_id))] == [
        "one", "yes", "two",
    ]  # fmt: skip
    await box.close()


async def test_rel_2_a_start_that_cannot_migrate_says_why_and_can_be_repeated(small_disk):
    data_dir = small_disk / "data"
    database = Database(data_dir, StoreSettings())
    await database.connect()
    await database.disconnect()
    database.close()
    raw = sqlite3.connect(data_dir / FILE, isolation_level=None)
    lead_back(raw, 1)
    raw.close()
    filler = disk.fill(small_disk)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"disk is full: free some space|No space left"):
            await open_database(data_dir)
    filler.unlink()
    (await open_database(data_dir)).close()
