"""REL-2: the database's files are missed when they are taken away, and what they held is saved where it can be."""

import contextlib
import os
import shutil
import sqlite3

import pytest

from actors.exceptions import StoreUnavailable
from actors.messages.store import ListSessions
from storage import open_database
from storage.database import FILE
from storage.place import SETTLE_SECONDS, LogSaved, Place
from tests.clock import StillClock
from tests.storage.box import StoreBox


def texts(path):
    """What another program reads there."""
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return sorted(row[0] for row in raw.execute("SELECT message_id FROM seen"))


@pytest.mark.parametrize("gone", [("-wal",), ("-shm",), ("-wal", "-shm")])
async def test_rel_2_a_log_that_is_deleted_in_use_costs_nothing(store, gone):
    await store.accept(message_id="m1")
    for suffix in gone:
        (store.data_dir / f"{FILE}{suffix}").unlink()
    assert not (await store.accept(message_id="m2", session_key="k")).duplicate
    assert (await store.accept(message_id="m1")).duplicate
    # As a kill would leave them.
    shutil.copytree(store.data_dir, store.data_dir.with_name("killed"))
    assert texts(store.data_dir.with_name("killed") / FILE) == ["m1", "m2"]


async def test_rel_2_a_log_that_cannot_be_saved_now_is_saved_later(store):
    path = store.data_dir / FILE
    await store.accept(message_id="m1")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM seen").fetchone() == (1,)
    await store.accept(message_id="m2", session_key="k")
    path.with_name(f"{FILE}-wal").unlink()
    await store.raw(lambda raw: raw.execute("PRAGMA busy_timeout = 10"))
    with pytest.raises(StoreUnavailable, match=r"-wal was deleted.* end that program, not the daemon"):
        await store.accept(message_id="m3", session_key="l")
    reader.close()
    assert not (await store.accept(message_id="m3", session_key="l")).duplicate
    await store.close()
    assert texts(path) == ["m1", "m2", "m3"]
    await store.open()


@pytest.fixture
def open_file(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("CREATE TABLE t (x)")
        yield raw


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_rel_2_a_file_that_goes_is_missed_however_long_all_were_there(tmp_path, open_file, suffix, settled):
    clock = StillClock()
    place = Place(tmp_path / FILE, clock.monotonic)
    for _ in range(3):
        place.check(open_file)
        clock.advance(SETTLE_SECONDS + 0.1 if settled else 0.01)
    file, away = tmp_path / f"{FILE}{suffix}", tmp_path / "away"
    for _ in range(3):
        file.rename(away)
        for _ in range(3):
            with pytest.raises((StoreUnavailable, LogSaved)):
                place.check(open_file)
            clock.advance(SETTLE_SECONDS + 0.1)
        away.rename(file)
        place.check(open_file)


def test_rel_2_a_file_that_goes_in_the_tick_in_which_all_were_seen_is_missed(tmp_path, open_file):
    clock = StillClock()
    place = Place(tmp_path / FILE, clock.monotonic)
    for _ in range(3):
        place.check(open_file)
        clock.advance(SETTLE_SECONDS / 4)
    stamp = os.stat(tmp_path).st_mtime_ns
    (tmp_path / FILE).unlink()
    # A file system that stamps coarsely.
    os.utime(tmp_path, ns=(stamp, stamp))
    with pytest.raises(StoreUnavailable):
        place.check(open_file)


async def crashed(directory):
    """Leave the directory as a kill does, with everything in the log."""
    box = await StoreBox(directory).open()
    await box.accept(message_id="m1")
    copy = directory.with_name("crashed")
    shutil.copytree(directory, copy)
    await box.close()
    return copy


async def test_rel_2_a_log_that_is_missing_after_a_crash_is_not_started_without(tmp_path):
    directory = await crashed(tmp_path / "data")
    log, index = (directory / f"{FILE}{suffix}" for suffix in ("-wal", "-shm"))
    kept = log.read_bytes()
    log.unlink()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=rf"{log} is missing.*put it back.*move {index} away"):
            await open_database(directory)
    log.write_bytes(kept)
    box = await StoreBox(directory).open()
    assert (await box.accept(message_id="m1")).duplicate
    await box.close()


async def test_rel_2_whoever_gives_the_log_up_says_so_and_starts(tmp_path):
    directory = await crashed(tmp_path / "data")
    for suffix in ("-wal", "-shm"):
        (directory / f"{FILE}{suffix}").unlink()
    box = await StoreBox(directory).open()
    assert await box.ask(ListSessions()) == ()
    await box.close()


async def test_rel_2_a_file_that_is_missing_beside_its_log_is_not_made_anew(tmp_path):
    directory = await crashed(tmp_path / "data")
    (directory / FILE).unlink()
    with pytest.raises(StoreUnavailable, match=rf"{FILE} is missing.*put it back"):
        await open_database(directory)
    assert not (directory / FILE).exists() and (directory / f"{FILE}-wal").exists()
