"""Turns: begun on the oldest message, one at a time, ended once."""

import pytest

from actors.exceptions import Conflict
from actors.messages.rows import DeliveryState, HistoryKind, NewDelivery, Route, TurnState
from actors.messages.store import EndTurn, FlushPartial, GetTurn, ListDeliveries, ReadHistory, Unfinished

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
    row = await store.end(taken, TurnState.COMMITTED, text="yes", usage={"n": 1}, delivery=delivery)
    assert (row.state, row.text, row.usage) == (TurnState.COMMITTED, "yes", {"n": 1})
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
    await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen - 1, text="old", at=1.0))
    assert (await store.ask(GetTurn(turn_id=taken.turn_id))).partial == ""


async def test_ending_otherwise_after_an_end_is_a_conflict(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    await store.end(taken, TurnState.COMMITTED, text="yes")
    with pytest.raises(Conflict):
        await store.end(taken, TurnState.FAILED)


async def test_an_unknown_turn_does_not_end(store):
    with pytest.raises(Conflict):
        await store.ask(EndTurn(turn_id="none", turn_gen=1, state=TurnState.FAILED, at=1.0))


async def test_trn_54_what_was_flushed_is_there_after_a_restart(store, reopened):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen, text="Hel", at=1.0))
    store = await reopened()
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
