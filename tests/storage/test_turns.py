"""Turns: begun on the oldest message, one at a time, ended once."""

import pytest

from actors.exceptions import Conflict, Invalid
from actors.messages.rows import DeliveryState, HistoryKind, NewDelivery, Route, TurnState
from actors.messages.store import (
    EndTurn,
    FlushPartial,
    GetSession,
    GetTurn,
    ListDeliveries,
    ListTurns,
    ReadHistory,
    Unfinished,
)
from storage import Store
from storage.settings import StoreSettings
from tests.storage.box import StoreBox

ROUTE = Route(platform="discord", chat_id="C1")


async def test_messages_are_turned_in_order_with_growing_generations(store):
    accepted = await store.accept("one")
    await store.accept("two")
    first = await store.take(accepted.session_id)
    await store.end(first, TurnState.COMMITTED, text="1")
    second = await store.take(accepted.session_id)
    assert [first.history[-1].content, second.history[-1].content] == ["one", "two"]
    assert (first.turn_gen, second.turn_gen) == (1, 2)
    await store.end(second, TurnState.COMMITTED, text="2")
    assert await store.take(accepted.session_id) is None


async def test_trn_53_a_second_turn_is_refused_while_one_runs(store):
    accepted = await store.accept()
    await store.accept()
    await store.take(accepted.session_id)
    with pytest.raises(Conflict):
        await store.take(accepted.session_id)


async def test_an_end_stores_answer_and_delivery_together(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    delivery = NewDelivery(delivery_id="d", peer="p", route=ROUTE, content="yes")
    row = await store.end(
        taken, TurnState.COMMITTED, text="yes", usage={"n": 1}, estimated=True, delivery=delivery
    )
    assert (row.state, row.text) == (TurnState.COMMITTED, "yes")
    assert (row.usage, row.estimated) == ({"n": 1}, True)
    assert await store.ask(GetTurn(turn_id=taken.turn_id)) == row
    (stored,) = await store.ask(ListDeliveries())
    assert (stored.delivery_id, stored.state, stored.turn_id) == ("d", DeliveryState.PENDING, taken.turn_id)
    history = await store.ask(ReadHistory(session_id=accepted.session_id))
    assert [(row.role, row.content) for row in history] == [("user", "hi"), ("assistant", "yes")]


async def test_repeating_an_end_changes_nothing(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    first = await store.end(taken, TurnState.COMMITTED, text="yes")
    assert await store.end(taken, TurnState.COMMITTED, text="yes") == first
    assert len(await store.ask(ReadHistory(session_id=accepted.session_id))) == 2


async def test_a_stale_generation_neither_ends_nor_flushes(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    stale = EndTurn(turn_id=taken.turn_id, turn_gen=taken.turn_gen - 1, state=TurnState.COMMITTED, at=1.0)
    with pytest.raises(Conflict):
        await store.ask(stale)
    with pytest.raises(Conflict):
        await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen - 1, text="old", at=1.0))
    assert (await store.ask(GetTurn(turn_id=taken.turn_id))).partial == ""


async def test_ending_otherwise_after_an_end_is_a_conflict(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    await store.end(taken, TurnState.COMMITTED, text="yes")
    with pytest.raises(Conflict):
        await store.end(taken, TurnState.FAILED)


async def test_why_a_turn_failed_is_kept_with_it_and_shown_until_the_next(store):
    accepted = await store.accept()
    row = await store.end(await store.take(accepted.session_id), TurnState.FAILED, error="It (ReadError).")
    assert (await store.ask(GetTurn(turn_id=row.turn_id))).error == row.error == "It (ReadError)."
    assert (await store.ask(GetSession(session_id=accepted.session_id))).last_error == "It (ReadError)."
    await store.accept()
    await store.take(accepted.session_id)
    assert (await store.ask(GetSession(session_id=accepted.session_id))).last_error is None


async def test_an_unknown_turn_does_not_end(store):
    with pytest.raises(Conflict):
        await store.ask(EndTurn(turn_id="none", turn_gen=1, state=TurnState.FAILED, at=1.0))


async def test_trn_54_what_was_flushed_is_there_after_a_restart(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen, text="Hel", at=1.0))
    await store.reopen()
    ((turn, peer, route),) = await store.ask(Unfinished())
    assert (turn.state, turn.partial, peer, route) == (TurnState.RUNNING, "Hel", "p", ROUTE)


async def test_no_model_gets_notices_or_broken_off_texts(store):
    accepted = await store.accept("one")
    taken = await store.take(accepted.session_id)
    await store.end(taken, TurnState.FAILED, interrupted_text="Hal", notice="It broke.")
    await store.accept("two")
    again = await store.take(accepted.session_id)
    assert [entry.content for entry in again.history] == ["one", "two"]
    kinds = [row.kind for row in await store.ask(ReadHistory(session_id=accepted.session_id))]
    assert kinds == [
        HistoryKind.MESSAGE, HistoryKind.INTERRUPTED, HistoryKind.NOTICE, HistoryKind.MESSAGE,
    ]  # fmt: skip


async def test_the_newest_turn_of_a_message_is_found(store):
    accepted = await store.accept(inbox_id="I")
    taken = await store.take(accepted.session_id)
    assert (await store.ask(GetTurn(inbox_id="I"))).turn_id == taken.turn_id
    assert await store.ask(GetTurn(inbox_id="none")) is None


async def test_a_cancelled_turn_keeps_its_partial_and_feeds_it(store):
    accepted = await store.accept("one")
    taken = await store.take(accepted.session_id)
    row = await store.end(taken, TurnState.CANCELLED, reason="user", text="Hal\n\n[cancelled]")
    assert (row.text, row.partial, row.reason) == (None, "Hal\n\n[cancelled]", "user")
    await store.accept("two")
    again = await store.take(accepted.session_id)
    assert [entry.content for entry in again.history] == ["one", "Hal\n\n[cancelled]", "two"]


async def test_a_turn_that_did_not_end_well_keeps_what_was_flushed(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen, text="Hel", at=1.0))
    row = await store.end(taken, TurnState.FAILED, reason="timeout", notice="It broke.")
    assert (row.state, row.partial, row.text) == (TurnState.FAILED, "Hel", None)
    with pytest.raises(Conflict):
        await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen, text="late", at=2.0))
    assert await store.ask(GetTurn(turn_id=taken.turn_id)) == row


async def test_a_committed_turn_keeps_its_answer_once(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen, text="Hel", at=1.0))
    row = await store.end(taken, TurnState.COMMITTED, text="Hello")
    assert (row.text, row.partial) == ("Hello", "")


async def test_running_is_no_end(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    with pytest.raises(Invalid):
        await store.end(taken, TurnState.RUNNING)


async def test_trn_54_a_turn_of_before_cannot_end_under_its_old_generation(store):
    accepted = await store.accept(inbox_id="I", turn_id="T")
    old = await store.take(accepted.session_id)
    await store.reopen()
    await store.end(old, TurnState.INTERRUPTED, reason="restart", again=True)
    new = await store.take(accepted.session_id)
    assert (old.turn_id, new.turn_gen) == ("T", old.turn_gen + 1) and new.turn_id != "T"
    with pytest.raises(Conflict):
        await store.end(old, TurnState.COMMITTED, text="late")
    assert (await store.ask(GetTurn(inbox_id="I"))).turn_id == new.turn_id


async def test_turns_are_listed_newest_first_by_state_and_session(store):
    sessions = [(await store.accept(session_key=key)).session_id for key in ("k1", "k2")]
    ends = (TurnState.COMMITTED, TurnState.FAILED)
    ids = []
    for session_id, state in zip(sessions, ends, strict=True):
        taken = await store.take(session_id)
        ids.append(taken.turn_id)
        await store.end(taken, state)
    await store.accept(session_key="k1", turn_id="T")

    async def listed(*states, **fields):
        return [row.turn_id for row in await store.ask(ListTurns(states=states, **fields))]

    assert await listed() == ["T", ids[1], ids[0]]
    assert await listed(limit=1) == ["T"]
    assert await listed(TurnState.FAILED, TurnState.ADMITTED) == ["T", ids[1]]
    assert await listed(TurnState.COMMITTED) == [ids[0]]
    assert await listed(session_id=sessions[0]) == ["T", ids[0]]
    assert await listed(TurnState.ADMITTED, session_id=sessions[0]) == ["T"]


async def test_a_model_gets_the_newest_messages_of_a_very_long_session(tmp_path):
    box = StoreBox(tmp_path / "data")
    await box.open()
    await box.system.stop(box.ref, box.within(5))
    settings = StoreSettings(history_rows=3)
    box.ref = box.system.spawn("/store", lambda: Store(box.database, settings))
    accepted = await box.accept("q0")
    for n in range(3):
        taken = await box.take(accepted.session_id)
        await box.end(taken, TurnState.COMMITTED, text=f"a{n}")
        await box.accept(f"q{n + 1}")
    taken = await box.take(accepted.session_id)
    assert [entry.content for entry in taken.history] == ["q2", "a2", "q3"]
    await box.close()
