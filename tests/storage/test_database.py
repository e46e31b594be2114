"""The data directory: owned by one, private, of a known schema, and whole (REL-2)."""

import asyncio
import os
import sqlite3
import stat
import sys

import pytest

from actors.exceptions import DataDirLocked, SchemaTooNew, StoreUnavailable
from actors.messages.store import ListSessions
from storage import open_database
from storage.database import FILE
from storage.migrations import migrate
from storage.schema import VERSION
from tests.storage.box import StoreBox


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "data"


async def with_one_session(directory):
    box = await StoreBox(directory).open()
    await box.accept()
    await box.close()


def write(path, sql):
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(sql)
    raw.close()


async def refused(directory, kind, match):
    """The directory is refused, and free for the next one afterwards."""
    for _ in range(2):
        with pytest.raises(kind, match=match):
            await open_database(directory)


# Ownership


async def test_rel_2_a_second_daemon_is_refused_with_the_owner_named(directory):
    first = await open_database(directory)
    with pytest.raises(DataDirLocked, match=rf"pid {os.getpid()}\) uses {directory}"):
        await open_database(directory)
    first.close()
    (await open_database(directory)).close()


async def test_rel_2_a_dead_owner_holds_nothing(directory):
    program = (
        "import asyncio, os, pathlib, signal, sys\n"
        "from storage import open_database\n"
        "async def main():\n"
        "    await open_database(pathlib.Path(sys.argv[1]))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(directory))
    assert await process.wait() == -9
    database = await open_database(directory)
    assert (directory / "lock").read_text() == f"{os.getpid()}\n"
    database.close()


async def test_closing_twice_does_nothing_more(directory):
    database = await open_database(directory)
    database.close()
    database.close()
    (await open_database(directory)).close()


async def test_a_database_that_was_closed_takes_its_directory_again(directory):
    database = await open_database(directory)
    database.close()
    await database.connect()
    with pytest.raises(DataDirLocked):
        await open_database(directory)
    await database.disconnect()
    database.close()


async def test_directory_and_files_are_private(directory):
    box = await StoreBox(directory).open()
    await box.accept()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {file.name for file in directory.iterdir()} >= {FILE, f"{FILE}-wal", "secret.key", "lock"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {0o600}
    await box.close()


async def test_rel_2_a_directory_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    await refused(tmp_path / "file" / "data", StoreUnavailable, "cannot be used")


async def test_rel_2_a_file_that_cannot_be_opened_is_named(directory):
    (directory / FILE).mkdir(parents=True)
    await refused(directory, StoreUnavailable, FILE)


# Schema


async def test_rel_2_a_newer_schema_is_left_alone(directory):
    await with_one_session(directory)
    write(directory / FILE, "PRAGMA user_version = 99")
    before = (directory / FILE).read_bytes()
    await refused(directory, SchemaTooNew, f"version 99, this Turnkeep knows {VERSION}: install a newer one")
    assert (directory / FILE).read_bytes() == before


def test_a_migration_backs_up_and_goes_forward(tmp_path):
    path = tmp_path / FILE
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(raw, path)
    raw.execute("INSERT INTO events VALUES (1, 'k', '/', 1.0, '{}')")
    steps = {
        VERSION: lambda connection: connection.execute("CREATE TABLE later (x)"),
        VERSION + 1: lambda connection: connection.execute("INSERT INTO later SELECT seq FROM events"),
    }
    migrate(raw, path, target=VERSION + 2, steps=steps)
    migrate(raw, path, target=VERSION + 2, steps=steps)
    assert raw.execute("SELECT x FROM later").fetchall() == [(1,)]
    raw.close()
    backup = tmp_path / f"{FILE}.v{VERSION}.bak"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    copy = sqlite3.connect(backup)
    assert copy.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert copy.execute("SELECT count(*) FROM events").fetchone() == (1,)
    copy.close()


def test_a_step_that_fails_leaves_the_version_before_it(tmp_path):
    path = tmp_path / FILE
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(raw, path)

    def fail(connection):
        connection.execute("CREATE TABLE half (x)")
        raise sqlite3.OperationalError("no")

    with pytest.raises(sqlite3.OperationalError):
        migrate(raw, path, target=VERSION + 1, steps={VERSION: fail})
    raw.close()
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert raw.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").fetchone() == (0,)
    raw.close()


# Damage


async def test_rel_2_a_file_that_is_no_database_is_named(directory):
    directory.mkdir()
    (directory / FILE).write_bytes(b"this is no database, whatever its name says" * 100)
    await refused(directory, StoreUnavailable, "no database: move it away, or put a backup")


async def test_rel_2_somebody_elses_database_is_left_alone(directory):
    directory.mkdir()
    write(directory / FILE, "CREATE TABLE precious (x)")
    await refused(directory, StoreUnavailable, "not Turnkeep's: move it away")


async def test_rel_2_a_damaged_page_is_found_at_the_start(directory):
    await with_one_session(directory)
    path = directory / FILE
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(content)
    await refused(directory, StoreUnavailable, "damaged.* put a backup in its place")


async def test_rel_2_a_damaged_page_is_said_when_it_is_met_later(directory):
    await with_one_session(directory)
    box = await StoreBox(directory).open()
    # Emptied, SQLite's own cache has no good copy.
    await box.raw(lambda raw: raw.execute("PRAGMA shrink_memory"))
    path = directory / FILE
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="damaged: stop the daemon"):
        await box.ask(ListSessions())
    await box.close()


async def test_rel_2_a_damaged_key_file_is_named(directory):
    directory.mkdir()
    (directory / "secret.key").write_text("short")
    await refused(directory, StoreUnavailable, r"secret\.key is no key: restore it")
