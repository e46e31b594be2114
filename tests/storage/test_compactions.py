"""Compactions: models get the summary in place of what it stands for, people still get everything."""

import pytest

from actors.exceptions import Conflict, Invalid
from actors.messages.rows import Entry, HistoryKind, TurnState
from actors.messages.store import CompactHistory, ReadConversation, ReadHistory
from storage import Store
from storage.settings import StoreSettings


def texts(entries):
    return [entry.content for entry in entries]


async def say(store, *messages):
    """Let messages be answered, and take a turn over one more; return that."""
    for message in messages:
        accepted = await store.accept(message)
        await store.end(await store.take(accepted.session_id), TurnState.COMMITTED, text=message.upper())
    return await store.take((await store.accept("now")).session_id)


async def before(store, taken):
    return await store.ask(ReadConversation(session_id=taken.session_id, inbox_id=taken.inbox_id))


async def compact(store, taken, upto, summary="SUMMARY", **fields):
    known = {
        "turn_id": taken.turn_id,
        "turn_gen": taken.turn_gen,
        "upto": upto,
        "summary": summary,
        "at": 1.0,
    }
    return await store.ask(CompactHistory(**{**known, **fields}))


async def test_the_summary_takes_the_place_of_what_it_stands_for(store):
    taken = await say(store, "a", "b")
    older = await before(store, taken)
    assert texts(said.entry for said in older) == ["a", "A", "b", "B"]
    history = await compact(store, taken, older[1].seq)
    assert texts(history) == ["SUMMARY", "b", "B", "now"] and history[0].role == "system"
    await store.end(taken, TurnState.COMMITTED, text="NOW")
    await store.accept("next")
    after = ["SUMMARY", "b", "B", "now", "NOW", "next"]
    taken = await store.take(taken.session_id)
    assert texts(taken.history) == after
    await store.end(taken, TurnState.INTERRUPTED, again=True)
    await store.reopen()
    assert texts((await store.take(taken.session_id)).history) == after


async def test_people_still_see_what_was_said(store):
    taken = await say(store, "a")
    await compact(store, taken, (await before(store, taken))[-1].seq)
    rows = await store.ask(ReadHistory(session_id=taken.session_id))
    assert [(row.content, row.kind) for row in rows] == [
        ("a", HistoryKind.MESSAGE), ("A", HistoryKind.MESSAGE), ("now", HistoryKind.MESSAGE),
        ("SUMMARY", HistoryKind.COMPACTION),
    ]  # fmt: skip
    assert rows[-1].turn_id == taken.turn_id


async def test_a_second_summary_takes_the_place_of_the_first(store):
    taken = await say(store, "a", "b")
    older = await before(store, taken)
    await compact(store, taken, older[1].seq, "first")
    again = await before(store, taken)
    assert [(said.seq, said.entry.content, said.summary) for said in again] == [
        (older[1].seq, "first", True), (older[2].seq, "b", False), (older[3].seq, "B", False),
    ]  # fmt: skip
    assert texts(await compact(store, taken, again[-1].seq, "second")) == ["second", "now"]
    # An older one that comes late changes nothing.
    assert texts(await compact(store, taken, older[1].seq, "first")) == ["second", "now"]


async def test_the_message_that_is_answered_is_never_swallowed(store):
    taken = await say(store, "a")
    own = (await store.ask(ReadHistory(session_id=taken.session_id)))[-1].seq
    with pytest.raises(Invalid):
        await compact(store, taken, own)
    assert texts(await compact(store, taken, own - 1)) == ["SUMMARY", "now"]


async def test_only_the_running_turn_may(store):
    taken = await say(store, "a")
    for stale in ({"turn_gen": taken.turn_gen - 1}, {"turn_id": "none"}):
        with pytest.raises(Conflict):
            await compact(store, taken, 1, **stale)
    await store.end(taken, TurnState.CANCELLED)
    with pytest.raises(Conflict):
        await compact(store, taken, 1)
    assert HistoryKind.COMPACTION not in {
        row.kind for row in await store.ask(ReadHistory(session_id=taken.session_id))
    }


async def test_of_a_message_that_is_turned_again_what_came_since_stays(store):
    first = await say(store, "a")
    await store.end(first, TurnState.FAILED, again=True)
    await store.post("since")
    again = await store.take(first.session_id)
    assert texts(again.history) == ["a", "A", "since", "now"]
    older = await before(store, again)
    assert texts(said.entry for said in older) == ["a", "A"]
    assert texts(await compact(store, again, older[-1].seq)) == ["SUMMARY", "since", "now"]


async def test_a_summary_goes_before_the_newest_rows_that_models_get(store):
    await store.system.stop(store.ref, store.within(10))
    store.ref = store.system.spawn("/small", lambda: Store(store.database, StoreSettings(history_rows=3)))
    taken = await say(store, "a", "b")
    older = await before(store, taken)
    assert texts(said.entry for said in older) == ["b", "B"]
    assert texts(await compact(store, taken, older[0].seq)) == ["SUMMARY", "B", "now"]


async def test_tool_calls_are_read_as_they_were_made(store):
    taken = await say(store, "a")
    await store.end(taken, TurnState.COMMITTED, text="NOW")
    parts = ({"type": "image_url", "image_url": {"url": "data:"}},)
    said = (Entry(role="user", content="look", parts=parts),)
    accepted = await store.accept(entries=said)
    await store.end(await store.take(accepted.session_id), TurnState.COMMITTED, text="seen")
    taken = await store.take((await store.accept("and")).session_id)
    assert (await before(store, taken))[-2].entry == said[0]
