"""RLY-11, REL-1: after a kill around a commit, what was answered is there, and nothing is there by half."""

import asyncio
import sys

import pytest

from actors.messages.store import StoreInfo
from tests.storage.box import StoreBox
from tests.storage.writer import WRITERS


async def write_until_killed(directory, failpoints):
    """Return the ids of the messages for which the program had answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.storage.writer",
        str(directory),
        failpoints,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == -9
    return out.decode().split()


@pytest.mark.parametrize(
    ("point", "unanswered"),
    [("store.before_commit", range(1)), ("store.after_commit", range(1, WRITERS + 1))],
)
async def test_rly_11_a_kill_around_a_commit_keeps_all_of_a_batch_or_nothing(tmp_path, point, unanswered):
    answered = await write_until_killed(tmp_path / "data", f"{point}=kill@10")
    assert answered
    box = await StoreBox(tmp_path / "data").open()
    assert await box.raw(lambda raw: raw.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
    assert await box.raw(lambda raw: raw.execute("PRAGMA foreign_key_check").fetchall()) == []
    rows = (await box.ask(StoreInfo()))["rows"]
    assert rows["inbox"] == rows["seen"]
    assert rows["inbox"] - len(answered) in unanswered
    for message_id in answered:
        number = message_id.partition("-")[0]
        again = await box.accept(message_id, session_key=f"k{number}", message_id=message_id)
        assert again.duplicate, message_id
    await box.close()


async def test_rel_1_killed_again_and_again_it_keeps_all_that_was_answered(tmp_path):
    kept = 0
    for kill in (3, 7, 5):
        box = await StoreBox(tmp_path / "data").open()
        kept = (await box.ask(StoreInfo()))["rows"]["inbox"]
        await box.close()
        answered = await write_until_killed(tmp_path / "data", f"store.after_commit=kill@{kill}")
        box = await StoreBox(tmp_path / "data").open()
        # Ids repeat from run to run, and are duplicates then: nothing is stored twice.
        assert (await box.ask(StoreInfo()))["rows"]["inbox"] >= max(kept, len(answered))
        await box.close()
    assert kept > 0
