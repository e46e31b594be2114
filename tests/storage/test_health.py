"""Whether the store can write is known without traffic: it remembers its last fault, and tries."""

import contextlib
import math

import pytest

from actors.exceptions import StoreUnavailable
from actors.messages.store import CheckStore, ListSessions, StoreInfo
from storage.settings import StoreSettings
from tests.clock import StillClock
from tests.storage.box import StoreBox

PROBE_S = StoreSettings().probe_s


@pytest.fixture
async def still(tmp_path):
    box = await StoreBox(tmp_path / "data", clock=StillClock()).open()
    box.told = box.system.port("/bus")
    box.system.publish_to(box.told)
    yield box
    await box.close()


def full():
    raise OSError(28, "No space left on device")


async def try_again(box):
    """Let the time of a try come, and wait for its end: a read shares its batch."""
    box.system.clock.advance(PROBE_S)
    with contextlib.suppress(StoreUnavailable):
        await box.ask(ListSessions())


async def fails(box):
    with pytest.raises(StoreUnavailable, match="No space left on device"):
        await box.ask(CheckStore())
    return True


async def test_rel_2_a_store_that_could_not_write_says_so_until_it_can(still):
    await still.ask(CheckStore())
    still.system.failpoints.set("store.before_commit", full, times=3)
    with pytest.raises(StoreUnavailable):
        await still.accept()
    # Reading still works, and proves nothing.
    await still.ask(ListSessions())
    for _ in range(2):
        assert await fails(still)
        await try_again(still)
    assert await fails(still)
    await try_again(still)
    await still.ask(CheckStore())
    kinds = [(await still.told.receive(still.within(5))).kind for _ in range(2)]
    assert kinds == ["store.unavailable", "store.recovered"]


async def test_a_healthy_store_tries_nothing(still):
    await still.accept()
    still.system.failpoints.set("store.before_commit", full)
    with pytest.raises(StoreUnavailable):
        await still.accept()
    await still.accept("again")
    before = (await still.ask(StoreInfo()))["writes"]
    still.system.clock.advance(10 * PROBE_S)
    assert (await still.ask(StoreInfo()))["writes"] == before


async def test_a_try_changes_nothing_and_is_a_write(still):
    await still.accept()
    version = await still.raw(lambda raw: raw.execute("PRAGMA user_version").fetchone()[0])
    log = still.data_dir / "turnkeep.db-wal"
    still.system.failpoints.set("store.before_commit", full, times=1)
    with pytest.raises(StoreUnavailable):
        await still.accept()
    await try_again(still)
    await still.ask(CheckStore())
    # One page in the log of the new connection.
    assert log.stat().st_size == 32 + 24 + 4096
    assert await still.raw(lambda raw: raw.execute("PRAGMA user_version").fetchone()[0]) == version


async def test_a_disk_that_stays_full_is_tried_again_and_again(still):
    still.system.failpoints.set("store.before_commit", full, times=math.inf)
    with pytest.raises(StoreUnavailable):
        await still.accept()
    for _ in range(5):
        await try_again(still)
        assert await fails(still)
    assert still.system.failpoints.passed["store.before_commit"] == 6
    still.system.failpoints.clear("store.before_commit")
