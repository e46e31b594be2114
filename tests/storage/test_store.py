"""The store actor: batches, order, deadlines, refusals beside successes, and its life."""

import asyncio

import msgspec
import pytest

from actors.exceptions import Busy, Conflict, DeadlineExceeded, HandlerFailed, Invalid, StartFailed
from actors.messages.base import Request
from actors.messages.lifecycle import StopStatus
from actors.messages.rows import TurnState
from actors.messages.store import (
    AppendEvents,
    FlushPartial,
    GetSession,
    GetTurn,
    ListSessions,
    NextLinkGen,
    StoreInfo,
)
from actors.runtime import Budget
from storage import Store
from storage.schema import VERSION
from storage.store import BATCH_ROWS
from tests.gate import Gate
from tests.storage.box import StoreBox


async def commits(store):
    return (await store.ask(StoreInfo()))["commits"]


# Batches


async def test_writers_that_arrive_together_share_a_commit(store):
    before = await commits(store)
    await asyncio.gather(*(store.accept(session_key=f"k{n}") for n in range(64)))
    assert await commits(store) - before == 1


async def test_what_comes_during_a_commit_makes_the_next_batch(store):
    before = await commits(store)
    gate = Gate(store.system)
    first = store.send(store.message())
    await gate.reached()
    others = [store.send(store.message(session_key=f"k{n}")) for n in range(50)]
    await store.system.idle()
    assert not first.done()
    gate.open()
    await asyncio.gather(first, *others)
    assert await commits(store) - before == 2


async def test_a_batch_is_bounded(store):
    before = await commits(store)
    gate = Gate(store.system)
    first = store.send(store.message())
    await gate.reached()
    others = [store.send(store.message(session_key=f"k{n}")) for n in range(BATCH_ROWS + 1)]
    await store.system.idle()
    gate.open()
    await asyncio.gather(first, *others)
    assert await commits(store) - before == 3


async def test_reading_makes_no_commit(store):
    before = await commits(store)
    assert await store.ask(ListSessions()) == ()
    assert await commits(store) == before


async def test_the_store_says_what_it_is(store):
    await store.accept()
    info = await store.ask(StoreInfo())
    assert info["path"] == str(store.data_dir / "turnkeep.db")
    assert info["schema"] == VERSION and info["bytes"] > 0
    assert info["rows"]["inbox"] == 1 and info["rows"]["turns"] == 0
    assert (info["commits"], info["writes"]) == (1, 1)


# Order


async def test_requests_are_served_in_order_and_reads_see_the_writes_before_them(store):
    message = store.message(new_session_id="s")
    asked = [
        store.send(GetSession(session_id="s")),
        store.send(message),
        store.send(GetSession(session_id="s")),
    ]
    before, accepted, after = await asyncio.gather(*asked)
    assert before is None and accepted.created and after.session_id == "s"


async def test_a_read_is_not_answered_before_the_write_that_it_saw(store):
    gate = Gate(store.system)
    write, read = store.send(store.message(new_session_id="s")), store.send(GetSession(session_id="s"))
    await gate.reached()
    assert not read.done()
    gate.open()
    await write
    assert (await read).session_id == "s"


# Deadlines


async def test_a_write_whose_time_is_over_is_not_begun(store):
    gate = Gate(store.system)
    first = store.send(store.message())
    await gate.reached()
    late = store.send(store.message(new_session_id="late", session_key="late"), seconds=0.02)
    with pytest.raises(DeadlineExceeded):
        await late
    gate.open()
    await first
    assert await store.ask(GetSession(session_id="late")) is None
    assert store.system.dead_letters.counts["expired"] == 1


async def test_a_write_that_has_begun_is_finished_though_its_asker_has_given_up(store):
    gate = Gate(store.system)
    late = store.send(store.message(new_session_id="late"), seconds=0.02)
    await gate.reached()
    with pytest.raises(DeadlineExceeded):
        await late
    gate.open()
    assert (await store.ask(GetSession(session_id="late"))).session_id == "late"


# Refusals


async def test_a_refused_write_leaves_its_neighbours(store):
    await store.accept(max_queued=1)
    outcomes = await asyncio.gather(
        store.accept("a", session_key="other"),
        store.accept("b", max_queued=1),
        store.accept("c", session_key="third"),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], Busy)
    assert outcomes[0].created and outcomes[2].created
    assert len(await store.ask(ListSessions())) == 3


async def test_what_a_refused_write_has_changed_already_is_undone_alone(store):
    before = await commits(store)
    first = store.message("a", session_key="one")
    # The turn's id is taken, which shows only when session and message are written.
    broken = store.message("b", session_key="two", turn_id="T")
    await store.accept(turn_id="T")
    outcomes = await asyncio.gather(
        store.ask(first), store.ask(broken), store.accept("c", session_key="three"), return_exceptions=True
    )
    assert isinstance(outcomes[1], Conflict)
    assert outcomes[0].created and outcomes[2].created
    keys = {row.session_key for row in await store.ask(ListSessions())}
    assert keys == {"agent:main:discord:group:C1", "one", "three"}
    assert await commits(store) - before == 2
    assert not (await store.ask(msgspec.structs.replace(broken, turn_id=None))).duplicate


async def test_what_it_does_not_know_is_refused(store):
    class Strange(Request[None], frozen=True, kw_only=True):
        """Nothing that the store knows."""

    with pytest.raises(Invalid, match="Strange"):
        await store.ask(Strange())


@pytest.mark.parametrize("value", [2**80, -(2**63) - 1])
async def test_rel_3_a_number_that_no_column_holds_is_refused(store, value):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    with pytest.raises(Invalid):
        await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=value, text="x", at=1.0))


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
async def test_rel_3_half_a_character_is_refused(store, text):
    with pytest.raises(Invalid):
        await store.accept(session_key=text)


async def test_rel_3_control_characters_come_back_as_they_were(store):
    text = "a\0b\x1f\u2028'\"; DROP TABLE inbox; --"
    accepted = await store.accept(text, session_key=text, message_id=text)
    assert (await store.take(accepted.session_id)).history[-1].content == text
    assert (await store.accept(session_key=text, message_id=text)).duplicate


async def test_a_mistake_of_ours_fails_its_request_alone(store):
    # What no check let in: a field of a wrong type.
    broken = NextLinkGen(peer=object(), at=1.0)
    outcomes = await asyncio.gather(store.ask(broken), store.accept(), return_exceptions=True)
    assert isinstance(outcomes[0], HandlerFailed)
    assert outcomes[1].created


async def test_a_told_write_that_fails_harms_nobody(store):
    store.ref.tell(AppendEvents(events=(object(),), at=1.0))
    assert (await store.accept()).created


# Its life


async def test_stopping_commits_what_is_queued(store):
    asked = [store.send(store.message(session_key=f"k{n}")) for n in range(300)]
    await store.system.idle()
    assert await store.system.stop(store.ref, store.within(10)) is StopStatus.STOPPED
    await asyncio.gather(*asked)
    assert not (store.data_dir / "turnkeep.db-wal").exists()
    await store.reopen()
    assert len(await store.ask(ListSessions(limit=1000))) == 300


async def test_a_stop_waits_for_the_commit_under_way(store):
    gate = Gate(store.system)
    asked = store.send(store.message())
    await gate.reached()
    stopping = asyncio.ensure_future(store.system.stop(store.ref, store.within(10)))
    await store.system.loop.run_in_executor(None, gate.open)
    assert await stopping is StopStatus.STOPPED
    assert (await asked).created


async def test_a_killed_stores_successor_has_a_connection_of_its_own(store):
    gate = Gate(store.system)
    lost = store.send(store.message(new_session_id="s"))
    await gate.reached()
    store.ref._cell.kill()
    with pytest.raises(Exception, match="killed"):
        await lost
    store.ref = store.system.spawn("/store", lambda: Store(store.database))
    gate.open()
    await store.ref.started(store.within(10))
    # Its predecessor's batch was on its way to the disk: unknown is not no.
    assert (await store.ask(GetSession(session_id="s"))).session_id == "s"
    assert not (await store.accept()).created


async def test_an_answer_lost_after_the_commit_means_unknown(store):
    def fail():
        raise RuntimeError("lost")

    store.system.failpoints.set("store.after_commit", fail)
    lost = store.message(turn_id="T")
    with pytest.raises(HandlerFailed):
        await store.ask(lost)
    store.ref = store.system.spawn("/store", lambda: Store(store.database))
    assert (await store.ask(GetTurn(turn_id="T"))).state is TurnState.ADMITTED
    again = await store.ask(lost)
    assert again.duplicate and again.inbox_id == lost.inbox_id


async def test_a_store_that_cannot_open_its_file_does_not_start(tmp_path):
    box = await StoreBox(tmp_path / "data").open()
    await box.close()
    (tmp_path / "data" / "turnkeep.db").write_bytes(b"no database" * 1000)
    ref = box.system.spawn("/store", lambda: Store(box.database))
    with pytest.raises(StartFailed, match="no database"):
        await ref.started(Budget.of(box.system.clock, 10))
    box.database.close()
