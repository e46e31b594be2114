"""Beginnings of answers: sent at most once, edited into what the turn ended with, forgotten where they were not shown."""

import pytest

from actors.exceptions import Conflict
from actors.messages.rows import DeliveryState, NewDelivery, Route, TurnState
from actors.messages.store import (
    BeginAnswer,
    ClaimDeliveries,
    ListDeliveries,
    LoseAttempts,
    PutDelivery,
    SettleDelivery,
    WithdrawBeginning,
)

ROUTE = Route(platform="discord", chat_id="C1")


def delivery(delivery_id, content="x", in_place=None):
    return NewDelivery(delivery_id=delivery_id, peer="p", route=ROUTE, content=content, in_place=in_place)


async def taken(store, **fields):
    return await store.take((await store.accept(**fields)).session_id)


async def begin(store, turn, delivery_id="b", content="Hel"):
    return await store.ask(
        BeginAnswer(
            turn_id=turn.turn_id,
            turn_gen=turn.turn_gen,
            delivery=delivery(delivery_id, content),
            at=1.0,
        )
    )


async def claim(store):
    return await store.ask(ClaimDeliveries(peer="p", at=2.0))


async def settle(store, delivery_id="b", state=DeliveryState.DELIVERED, **fields):
    return await store.ask(SettleDelivery(delivery_id=delivery_id, state=state, at=3.0, **fields))


async def shown(store, message_id="s1", **fields):
    """Return a turn, the beginning of whose answer is shown."""
    turn = await taken(store, **fields)
    await begin(store, turn)
    await claim(store)
    await settle(store, message_id=message_id)
    return turn


async def kept(store):
    rows = await store.ask(ListDeliveries())
    return {row.delivery_id: (row.state, row.reason) for row in reversed(rows)}


async def test_the_end_edits_the_message_with_the_beginning(store):
    turn = await shown(store)
    await store.end(turn, TurnState.COMMITTED, text="Hello", delivery=delivery("a", "Hello"))
    [row] = await claim(store)
    assert (row.delivery_id, row.edits, row.content, row.begins) == ("a", "s1", "Hello", False)


async def test_a_delivery_edits_nothing_that_it_is_not_the_end_of(store):
    await shown(store)
    await store.ask(PutDelivery(delivery=delivery("other"), at=1.0))
    other = await taken(store, session_key="k2")
    await store.end(other, TurnState.COMMITTED, text="Yes", delivery=delivery("a2", "Yes"))
    assert [row.edits for row in await claim(store)] == [None]
    await settle(store, "other")
    assert [(row.delivery_id, row.edits) for row in await claim(store)] == [("a2", None)]


@pytest.mark.parametrize("state", [TurnState.COMMITTED, TurnState.FAILED, TurnState.INTERRUPTED])
async def test_a_beginning_that_was_not_sent_gives_way_to_the_end(store, state):
    turn = await taken(store)
    assert (await begin(store, turn)).state is DeliveryState.PENDING
    await store.end(turn, state, delivery=delivery("a"))
    assert [(row.delivery_id, row.edits) for row in await claim(store)] == [("a", None)]
    assert list(await kept(store)) == ["a"]


async def test_a_beginning_is_forgotten_at_an_end_without_a_delivery(store):
    turn = await taken(store)
    await begin(store, turn)
    await store.end(turn, TurnState.INTERRUPTED)
    assert await claim(store) == ()


async def test_the_end_waits_for_a_beginning_that_is_being_sent(store):
    turn = await taken(store)
    await begin(store, turn)
    await claim(store)
    await store.end(turn, TurnState.COMMITTED, text="Hello", delivery=delivery("a", "Hello"))
    assert await claim(store) == ()
    await settle(store, message_id="s1")
    assert [(row.delivery_id, row.edits) for row in await claim(store)] == [("a", "s1")]


@pytest.mark.parametrize("outcome", [DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.PENDING])
async def test_a_beginning_that_nobody_can_edit_is_followed_by_the_whole(store, outcome):
    turn = await taken(store)
    await begin(store, turn)
    await claim(store)
    await store.end(turn, TurnState.COMMITTED, text="Hello", delivery=delivery("a", "Hello"))
    await settle(store, state=outcome, reason="why")
    assert [(row.delivery_id, row.edits) for row in await claim(store)] == [("a", None)]
    # What would be sent again is not: the whole says it all.
    left = {"b": (outcome, "why")} if outcome is not DeliveryState.PENDING else {}
    assert await kept(store) == {**left, "a": (DeliveryState.ATTEMPTING, None)}


async def test_a_message_without_an_id_cannot_be_edited(store):
    turn = await shown(store, message_id=None)
    await store.end(turn, TurnState.COMMITTED, text="Hello", delivery=delivery("a", "Hello"))
    assert [row.edits for row in await claim(store)] == [None]


# What is said only in place


async def test_what_is_said_in_place_only_needs_a_place(store):
    turn = await taken(store)
    await store.end(turn, TurnState.CANCELLED, text="x", delivery=delivery("a", "", "Hel [cancelled]"))
    assert await kept(store) == {}


async def test_what_is_said_in_place_only_is_kept_for_a_beginning_that_is_shown(store):
    turn = await shown(store)
    await store.end(turn, TurnState.CANCELLED, text="x", delivery=delivery("a", "", "Hel [cancelled]"))
    [row] = await claim(store)
    assert (row.content, row.in_place, row.edits) == ("", "Hel [cancelled]", "s1")


@pytest.mark.parametrize("outcome", [DeliveryState.UNKNOWN, DeliveryState.PENDING])
async def test_what_is_said_in_place_only_goes_with_its_place(store, outcome):
    turn = await taken(store)
    await begin(store, turn)
    await claim(store)
    await store.end(turn, TurnState.CANCELLED, text="x", delivery=delivery("a", "", "Hel [cancelled]"))
    assert "a" in await kept(store)
    await settle(store, state=outcome)
    assert "a" not in await kept(store)
    assert await claim(store) == ()


async def test_a_restart_gives_up_a_beginning_that_was_being_sent_and_what_was_to_be_said_in_its_place(store):
    turn = await taken(store)
    other = await taken(store, session_key="k2", route=Route(platform="discord", chat_id="C2"))
    await begin(store, turn)
    await claim(store)
    await store.end(turn, TurnState.CANCELLED, text="x", delivery=delivery("a", "", "Hel [cancelled]"))
    await store.end(other, TurnState.COMMITTED, text="Hello", delivery=delivery("a2", "Hello"))
    assert await store.ask(LoseAttempts(at=5.0)) == 1
    assert await kept(store) == {
        "b": (DeliveryState.UNKNOWN, "restart"),
        "a2": (DeliveryState.PENDING, None),
    }


# Which turn, which beginning


async def test_only_the_running_turn_begins_an_answer(store):
    turn = await taken(store)
    await store.end(turn, TurnState.FAILED)
    with pytest.raises(Conflict, match="is not running under generation 1"):
        await begin(store, turn)
    assert await kept(store) == {}


async def test_a_second_run_over_a_message_goes_on_in_the_message_of_the_first(store):
    first = await shown(store)
    await store.end(first, TurnState.INTERRUPTED, again=True)
    second = await store.take(first.session_id)
    assert second.turn_id != first.turn_id
    begun = await begin(store, second, "b2")
    assert (begun.delivery_id, begun.state, begun.message_id) == ("b", DeliveryState.DELIVERED, "s1")
    await store.end(second, TurnState.COMMITTED, text="Hello", delivery=delivery("a", "Hello"))
    assert [row.edits for row in await claim(store)] == ["s1"]


async def test_a_beginning_is_withdrawn_only_while_it_waits(store):
    turn = await taken(store)
    await begin(store, turn)
    for _ in range(2):
        assert await store.ask(WithdrawBeginning(delivery_id="b", at=1.0)) is True
    assert await claim(store) == ()
    await begin(store, turn)
    await claim(store)
    assert await store.ask(WithdrawBeginning(delivery_id="b", at=1.0)) is False


async def test_a_beginning_keeps_its_place_behind_what_its_chat_waits_for(store):
    turn = await taken(store)
    await store.ask(PutDelivery(delivery=delivery("before"), at=1.0))
    await begin(store, turn)
    assert [row.delivery_id for row in await claim(store)] == ["before"]
    await settle(store, "before")
    assert [row.delivery_id for row in await claim(store)] == ["b"]


# What may have been said


@pytest.mark.parametrize("first", ["the end", "the outcome"])
async def test_an_end_that_an_unknown_beginning_may_show_is_unknown_too(store, first):
    turn = await taken(store)
    await begin(store, turn, content="Hello")
    await claim(store)

    async def end():
        await store.end(turn, TurnState.COMMITTED, text="Hello", delivery=delivery("a", "Hello"))

    async def outcome():
        await settle(store, state=DeliveryState.UNKNOWN, reason="outcome_unknown")

    for step in (end, outcome) if first == "the end" else (outcome, end):
        await step()
    assert await kept(store) == {
        "b": (DeliveryState.UNKNOWN, "outcome_unknown"),
        "a": (DeliveryState.UNKNOWN, "beginning_unknown"),
    }
    assert await claim(store) == ()


async def test_an_end_that_a_restart_finds_maybe_shown_is_unknown_too(store):
    turn = await taken(store)
    await begin(store, turn, content="Hello")
    await claim(store)
    await store.end(turn, TurnState.COMMITTED, text="Hello", delivery=delivery("a", "Hello"))
    await store.ask(LoseAttempts(at=5.0))
    assert {state for state, _ in (await kept(store)).values()} == {DeliveryState.UNKNOWN}
