"""A backup is the database as it was at one moment, whole or not there at all, and holds nobody up."""

import asyncio
import contextlib
import os
import sqlite3
import stat
import threading

import pytest

from actors.exceptions import ActorStopped, Busy, Conflict, Invalid, Unavailable
from actors.messages.store import BackUp, ListSessions, StoreInfo
from storage import backup
from storage.database import FILE
from tests.storage.box import StoreBox


@pytest.fixture
def target(tmp_path):
    return tmp_path / "copies" / "copy.db"


@pytest.fixture(autouse=True)
def place(target):
    target.parent.mkdir()


def back_up(store, target):
    return store.ask(BackUp(path=str(target)), 30)


def only(target):
    """Nothing else lies beside the copy."""
    return list(target.parent.iterdir()) == [target]


class Held:
    """Holds the backup's thread between two steps, until it is let go."""

    def __init__(self, monkeypatch):
        self._open = threading.Event()
        self._reached = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait(seconds):
            loop.call_soon_threadsafe(self._reached.set)
            self._open.wait(20)

        monkeypatch.setattr(backup.time, "sleep", wait)

    async def reached(self):
        async with asyncio.timeout(20):
            await self._reached.wait()

    def let_go(self):
        self._open.set()


@pytest.fixture
async def held(monkeypatch):
    made = Held(monkeypatch)
    yield made
    made.let_go()


async def test_a_copy_is_private_whole_and_starts_a_store(store, target, tmp_path):
    accepted = await store.accept(message_id="m1")
    done = await back_up(store, target)
    assert (done.path, done.bytes) == (str(target), target.stat().st_size)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600 and only(target)
    (tmp_path / "new").mkdir()
    target.rename(tmp_path / "new" / FILE)
    box = await StoreBox(tmp_path / "new").open()
    assert await box.raw(lambda raw: raw.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
    assert await box.raw(lambda raw: raw.execute("PRAGMA foreign_key_check").fetchall()) == []
    assert (await box.accept(message_id="m1")).inbox_id == accepted.inbox_id
    await box.close()


async def test_a_copy_is_of_one_moment_and_writes_go_on_meanwhile(store, target, held):
    await asyncio.gather(*(store.accept("x" * 5000, session_key=f"k{n}") for n in range(200)))
    before = len(await store.ask(ListSessions(limit=1000)))
    copying = asyncio.ensure_future(back_up(store, target))
    await held.reached()
    # In the middle of the copy: these change pages that were copied, and some that were not.
    await asyncio.gather(*(store.accept("y" * 5000, session_key=f"l{n}") for n in range(200)))
    await store.accept("z", session_key="k0")
    held.let_go()
    await copying
    with contextlib.closing(sqlite3.connect(target)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("SELECT count(*) FROM sessions").fetchone() == (before,)
        assert raw.execute("SELECT count(*) FROM inbox").fetchone() == (before,)
    assert (await store.ask(StoreInfo()))["rows"]["inbox"] == 2 * before + 1


async def test_nothing_is_overwritten(store, target):
    target.write_text("precious")
    with pytest.raises(Conflict, match=f"{target} exists already: choose another name"):
        await back_up(store, target)
    assert target.read_text() == "precious" and only(target)
    target.unlink()
    target.symlink_to("nowhere")
    with pytest.raises(Conflict):
        await back_up(store, target)


async def test_a_file_that_appears_meanwhile_stays(store, target, held):
    copying = asyncio.ensure_future(back_up(store, target))
    await held.reached()
    target.write_text("precious")
    held.let_go()
    with pytest.raises(Conflict, match="by somebody else meanwhile"):
        await copying
    assert target.read_text() == "precious" and only(target)


@pytest.mark.parametrize("path", ["copy.db", "./copy.db", "/"])
async def test_a_path_that_names_no_file_is_refused(store, path):
    with pytest.raises(Invalid, match="absolute path"):
        await back_up(store, path)


@pytest.mark.parametrize("name", ["a\0b.db", "a\ud800.db"], ids=["NUL", "lone surrogate"])
async def test_a_path_that_no_system_can_be_told_is_refused_and_the_store_goes_on(store, target, name):
    with pytest.raises(Invalid, match="absolute path"):
        await back_up(store, target.with_name(name))
    assert (await back_up(store, target)).path == str(target) and only(target)


async def test_a_directory_that_is_not_there_is_named(store, target):
    with pytest.raises(Unavailable, match=r"none/copy\.db cannot be written: No such file"):
        await back_up(store, target.parent / "none" / "copy.db")


async def test_one_at_a_time_and_after_it_the_next(store, target, held):
    first = asyncio.ensure_future(back_up(store, target))
    await held.reached()
    with pytest.raises(Busy, match="under way already"):
        await back_up(store, target.with_name("other.db"))
    held.let_go()
    await first
    await back_up(store, target.with_name("other.db"))


async def test_one_whose_time_is_over_leaves_nothing(store, target, held):
    await asyncio.gather(*(store.accept("x" * 5000, session_key=f"k{n}") for n in range(200)))
    copying = asyncio.ensure_future(store.ask(BackUp(path=str(target)), 0.2))
    await held.reached()
    with pytest.raises(Exception, match="no time left"):
        await copying
    held.let_go()
    await until_idle(store)
    assert list(target.parent.iterdir()) == []


async def until_idle(store):
    """Wait for the end of the backup that is under way."""
    running = store.ref._cell.behaviour._backup
    if running is not None:
        await running._ended.wait()


async def test_a_store_that_stops_gives_it_up_and_leaves_nothing(store, target, held):
    await asyncio.gather(*(store.accept("x" * 5000, session_key=f"k{n}") for n in range(200)))
    copying = asyncio.ensure_future(back_up(store, target))
    await held.reached()
    running = store.ref._cell.behaviour._backup
    stopping = asyncio.ensure_future(store.system.stop(store.ref, store.within(10)))
    while not running._given_up.is_set():
        await asyncio.sleep(0)
    held.let_go()
    await stopping
    with pytest.raises((Unavailable, ActorStopped)):
        await copying
    assert list(target.parent.iterdir()) == []
    await store.open()


async def test_what_a_killed_daemon_left_behind_is_no_hindrance(store, target):
    target.with_name(f".{target.name}.partial").write_bytes(b"half")
    await back_up(store, target)
    assert only(target)


async def test_a_full_disk_leaves_nothing_and_harms_nobody(store, target, small_disk):
    await asyncio.gather(*(store.accept("x" * 20_000, session_key=f"k{n}") for n in range(100)))
    target = small_disk / "copy.db"
    with pytest.raises(Unavailable, match=r"disk is full|No space left"):
        await back_up(store, target)
    assert list(small_disk.iterdir()) == []
    assert (await store.accept("after", session_key="after")).created


async def test_nobody_else_may_read_it_while_it_grows(store, target, held):
    old = os.umask(0)
    try:
        copying = asyncio.ensure_future(back_up(store, target))
        await held.reached()
        (partial,) = target.parent.iterdir()
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    finally:
        os.umask(old)
    held.let_go()
    await copying
