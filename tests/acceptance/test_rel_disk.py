"""
REL-2, through the real daemon with a relay peer and an API client: whatever becomes of the disk, nothing is acknowledged
that isn't stored, the log says what to do, and it goes on by itself when the fault is gone.
"""

import contextlib
import json
import shutil
import sqlite3
import subprocess

import aiohttp
import pytest

from tests import disk
from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.connector import Connector, event
from tests.harness import until

BIG = "x" * 30_000
FILE = "turnkeep.db"
LOCKED, TOO_NEW, NO_STORE = 10, 11, 12

CONFIG = """
[store]
probe_s = 0.1
busy_s = 0.2
[server]
ready_check_s = 0.1
[relay]
retry_base_s = 0.05
retry_cap_s = 0.2
"""


class Rig:
    """A daemon with a relay peer and an API client, and what each of them holds for acknowledged."""

    def __init__(self, data_dir):
        self.data_dir = data_dir
        self.daemon = Daemon(data_dir, config=CONFIG)
        self.answered = []
        self.sent = []

    async def __aenter__(self):
        await self.daemon.start()
        async with AdminWire(self.daemon.url, self.daemon.admin_token) as wire:
            self.secret = (await wire.ask("peers.add", name="cn", identities=["discord:b"]))["secret"]
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))
        await self.dial()
        return self

    async def __aexit__(self, *_):
        with contextlib.suppress(Exception):
            await self.peer.close()
        await self.http.close()
        await self.daemon.close()

    async def dial(self):
        unacknowledged = self.peer.unacknowledged if self.sent else {}
        self.peer = Connector(self.daemon.url, "cn", self.secret, "discord")
        self.peer.unacknowledged = unacknowledged
        await self.peer.dial()

    @property
    def path(self):
        return self.data_dir / FILE

    async def say(self, text):
        """Ask the API; return the status, or the error's code where there is one."""
        headers = {"Authorization": f"Bearer {self.daemon.api_key}"}
        body = {"messages": [{"role": "user", "content": text}]}
        url = f"{self.daemon.url}/v1/chat/completions"
        async with self.http.post(url, json=body, headers=headers) as response:
            if response.status == 200:
                self.answered.append(text)
            return response.status

    async def send(self, text):
        """Send over the relay, to be acknowledged whenever that may be."""
        self.sent.append(text)
        await self.peer.buffered(text[:200], event(text, message_id=text[:200]))

    async def status(self, path):
        async with self.http.get(self.daemon.url + path) as response:
            return response.status

    async def ready(self):
        return await self.status("/readyz") == 200

    async def paused(self, *words, text="lost {}"):
        """
        See that both edges are refused while the fault lasts: no acknowledgement, no 200, not ready; alive all the same.

        ``words`` are what the log says of it.
        """
        await self.send(text.format("relay"))
        assert await self.say(text.format("api")) in (500, 503)
        await until(lambda: self._unready())
        assert await self.status("/livez") == 200
        assert text.format("relay")[:200] in self.peer.unacknowledged
        await until(lambda: all(word in self.daemon.log for word in words))

    async def _unready(self):
        return not await self.ready()

    async def goes_on(self):
        """See that the daemon, which was not restarted, serves again without being asked to; then that all is kept."""
        await until(self.ready)
        await self.peer.acknowledged()
        assert await self.say("after") == 200
        await self.send("after relay")
        await self.peer.acknowledged()
        await self.is_kept()

    async def is_kept(self):
        """Kill the daemon, start it again, and find everything that was acknowledged, once."""
        if self.daemon.url:
            await self.daemon.kill()
        with contextlib.closing(sqlite3.connect(self.path)) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        await self.daemon.start()
        await self.dial()
        await self.peer.acknowledged()
        await self.daemon.stop()
        with contextlib.closing(sqlite3.connect(self.path)) as raw:
            rows = raw.execute("SELECT entries FROM inbox")
            said = [entry["content"] for (entries,) in rows for entry in json.loads(entries)]
        for text in self.answered + self.sent:
            assert said.count(text) == 1, text[:200]


@pytest.fixture
async def rig(tmp_path):
    async with Rig(tmp_path / "data") as rig:
        assert await rig.say("before") == 200
        await rig.send("before relay")
        await rig.peer.acknowledged()
        yield rig


@pytest.fixture
def small_disk(request, tmp_path):
    if disk.ran_in_namespace(request):
        pytest.skip("passed, as root of a user namespace of its own")
    with disk.small_disk(tmp_path / "small", "6m") as path:
        yield path


@pytest.fixture
def immutable(tmp_path):
    """Make files unwritable also for root, and for whoever has them open."""
    made = []

    def change(*paths):
        for path in paths:
            ran = subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False)
            if ran.returncode != 0:
                pytest.skip("making a file immutable takes root, and a file system that can")
            made.append(path)

    def undo():
        for path in made:
            subprocess.run(["chattr", "-i", str(path)], check=True)
        made.clear()

    yield change, undo
    undo()


async def refused(data_dir, code, *words):
    """A daemon does not start there; it says why, with the exit code that is documented."""
    daemon = Daemon(data_dir, config=CONFIG)
    try:
        with pytest.raises(RuntimeError, match=f"ended with {code} "):
            await daemon.start()
        assert all(word in daemon.log for word in words), daemon.log
    finally:
        await daemon.close()


# While it is in use


async def test_rel_2_a_full_disk_pauses_and_goes_on_when_there_is_room(small_disk):
    async with Rig(small_disk / "data") as rig:
        assert await rig.say("before") == 200
        filler = disk.fill(small_disk)
        # Until what room the files themselves have is used up.
        for n in range(200):
            await rig.send(f"relay {n} {BIG}")
            if await rig.say(f"api {n} {BIG}") != 200:
                break
        else:
            pytest.fail("the disk was never full")
        await rig.paused("disk is full: free some space for", text=f"lost {{}} {BIG}")
        filler.unlink()
        await rig.goes_on()


async def test_rel_2_files_that_become_unwritable_in_use_pause_and_go_on(rig, immutable):
    change, undo = immutable
    change(rig.path, rig.path.with_name(f"{FILE}-wal"))
    await rig.paused("is read-only: make it and its directory writable")
    undo()
    await rig.goes_on()


async def test_rel_2_a_file_system_that_turns_read_only_loses_nothing(tmp_path):
    with disk.Image(tmp_path) as image:
        async with Rig(image.place / "data") as rig:
            assert await rig.say("before") == 200
            image.break_down()
            await rig.paused("is read-only: make it and its directory writable")
            await rig.daemon.kill()
            image.mount_again()
            await rig.is_kept()


async def test_rel_2_a_lock_of_another_program_pauses_until_it_is_gone(rig):
    other = sqlite3.connect(rig.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await rig.paused("another program holds a lock on", "end it")
    other.close()
    await rig.goes_on()


async def test_rel_2_a_file_that_is_deleted_in_use_is_missed_until_it_is_put_back(rig):
    away = rig.path.with_name("away")
    rig.path.rename(away)
    await rig.paused("was moved, deleted or replaced while it was in use: put it back")
    away.rename(rig.path)
    await rig.goes_on()


async def test_rel_2_a_file_that_is_replaced_in_use_is_not_written_to(rig):
    away = rig.path.with_name("away")
    rig.path.rename(away)
    shutil.copy(away, rig.path)
    before = rig.path.read_bytes()
    await rig.paused("was moved, deleted or replaced while it was in use: put it back")
    assert rig.path.read_bytes() == before
    away.replace(rig.path)
    await rig.goes_on()


async def test_rel_2_a_log_that_is_deleted_in_use_costs_nothing(rig):
    rig.path.with_name(f"{FILE}-wal").unlink()
    assert await rig.say("without") == 200
    await rig.send("without relay")
    await rig.goes_on()


async def test_rel_2_damage_in_use_is_said_and_gone_when_the_file_is_good_again(rig):
    # More than a connection keeps in memory, and all of it in the file.
    for n in range(8):
        assert await rig.say(f"{n} {'x' * 500_000}") == 200
    await rig.daemon.stop()
    await rig.daemon.start()
    await rig.dial()
    good = rig.path.read_bytes()
    with rig.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (len(good) - 4096))
    await rig.paused("is damaged: stop the daemon, keep a copy, and put a backup in its place")
    with rig.path.open("r+b") as file:
        file.write(good)
    await rig.goes_on()


# At the start


async def test_rel_2_a_second_daemon_is_refused_and_the_first_serves_on(rig):
    await refused(rig.data_dir, LOCKED, f"another turnkeepd (pid {rig.daemon.pid}) uses", "--data-dir")
    assert await rig.say("after") == 200


async def test_rel_2_a_read_only_directory_is_refused_until_it_is_writable(small_disk):
    async with Rig(small_disk / "data") as rig:
        assert await rig.say("before") == 200
        await rig.daemon.stop()
        assert disk.mount("-o", "remount,ro", str(small_disk))
        with pytest.raises(RuntimeError, match=f"ended with {NO_STORE} "):
            await rig.daemon.start()
        assert (
            "cannot be used: Read-only file system; make it writable, or name another one" in rig.daemon.log
        )
        assert disk.mount("-o", "remount,rw", str(small_disk))
        await rig.is_kept()


async def test_rel_2_a_locked_database_is_refused_until_it_is_free(rig):
    await rig.daemon.stop()
    other = sqlite3.connect(rig.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await refused(rig.data_dir, NO_STORE, "another program holds a lock on")
    other.close()
    await rig.is_kept()


async def test_rel_2_a_damaged_file_is_refused_and_a_backup_takes_its_place(rig, tmp_path):
    async with AdminWire(rig.daemon.url, rig.daemon.admin_token) as wire:
        done = await wire.ask("system.backup", path=str(tmp_path / "copy.db"))
    assert done["backup"]["bytes"] == (tmp_path / "copy.db").stat().st_size
    await rig.daemon.stop()
    with rig.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 8)
    before = rig.path.read_bytes()
    await refused(rig.data_dir, NO_STORE, "is damaged: keep a copy, and put a backup in its place")
    assert rig.path.read_bytes() == before
    shutil.copy(tmp_path / "copy.db", rig.path)
    await rig.is_kept()


async def test_rel_2_a_newer_schema_is_refused_and_left_alone(rig):
    await rig.daemon.stop()
    with contextlib.closing(sqlite3.connect(rig.path, isolation_level=None)) as raw:
        version = raw.execute("PRAGMA user_version").fetchone()[0]
        raw.execute("PRAGMA user_version = 99")
    before = rig.path.read_bytes()
    await refused(rig.data_dir, TOO_NEW, "has schema version 99", "install a newer one")
    assert rig.path.read_bytes() == before
    with contextlib.closing(sqlite3.connect(rig.path, isolation_level=None)) as raw:
        raw.execute(f"PRAGMA user_version = {version}")
    await rig.is_kept()


@pytest.mark.parametrize("gone", ["-wal", ""])
async def test_rel_2_a_part_that_is_missing_after_a_crash_is_refused_until_it_is_back(rig, gone):
    await rig.daemon.kill()
    missing = rig.path.with_name(f"{FILE}{gone}")
    away = rig.path.with_name("away")
    missing.rename(away)
    await refused(rig.data_dir, NO_STORE, f"{missing} is missing", "put it back")
    away.rename(missing)
    await rig.is_kept()
