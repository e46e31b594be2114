"""Deliveries: in order per chat, settled once, never lost."""

import pytest

from actors.exceptions import Conflict
from actors.messages.rows import DeliveryState, NewDelivery, Route
from actors.messages.store import (
    AdvanceDelivery,
    ClaimDeliveries,
    ListDeliveries,
    LoseAttempts,
    PeersWithDeliveries,
    PutDelivery,
    SettleDelivery,
)


async def put(store, delivery_id, chat="C1", peer="p"):
    route = Route(platform="discord", chat_id=chat)
    return await store.ask(
        PutDelivery(
            delivery=NewDelivery(delivery_id=delivery_id, peer=peer, route=route, content=delivery_id), at=1.0
        )
    )


async def claim(store, *busy, limit=100):
    rows = await store.ask(ClaimDeliveries(peer="p", busy_chats=busy, limit=limit, at=2.0))
    return [row.delivery_id for row in rows]


async def settle(store, delivery_id, state, **fields):
    return await store.ask(SettleDelivery(delivery_id=delivery_id, state=state, at=3.0, **fields))


async def test_chats_keep_their_order_and_go_in_parallel(store):
    for delivery_id, chat in (("a1", "A"), ("a2", "A"), ("b1", "B")):
        await put(store, delivery_id, chat)
    assert await claim(store) == ["a1", "b1"]
    assert await claim(store) == []
    await settle(store, "a1", DeliveryState.DELIVERED, message_id="m")
    assert await claim(store) == ["a2"]


async def test_a_pending_again_delivery_keeps_its_place(store):
    await put(store, "a1", "A")
    await put(store, "a2", "A")
    await claim(store)
    await settle(store, "a1", DeliveryState.PENDING)
    assert await claim(store) == ["a1"]


async def test_unknown_blocks_nothing(store):
    await put(store, "a1", "A")
    await put(store, "a2", "A")
    await claim(store)
    await settle(store, "a1", DeliveryState.UNKNOWN)
    assert await claim(store) == ["a2"]


async def test_busy_chats_get_none(store):
    route = await put(store, "a1", "A")
    await put(store, "b1", "B")
    assert await claim(store, route.chat, limit=1) == ["b1"]


async def test_settling_twice_is_harmless_and_otherwise_a_conflict(store):
    await put(store, "a1")
    await claim(store)
    first = await settle(store, "a1", DeliveryState.DELIVERED, message_id="m")
    assert await settle(store, "a1", DeliveryState.DELIVERED) == first
    with pytest.raises(Conflict):
        await settle(store, "a1", DeliveryState.PENDING)


async def test_the_same_delivery_is_stored_once(store):
    await put(store, "a1")
    await put(store, "a1")
    assert len(await store.ask(ListDeliveries())) == 1


async def test_progress_of_a_long_one_is_kept(store):
    await put(store, "a1")
    await claim(store)
    await store.ask(AdvanceDelivery(delivery_id="a1", parts_done=2, at=2.0))
    await settle(store, "a1", DeliveryState.PENDING)
    (row,) = await store.ask(ClaimDeliveries(peer="p", at=2.0))
    assert (row.parts_done, row.attempts) == (2, 2)


async def test_attempts_of_a_former_run_are_unknown(store, reopened):
    await put(store, "a1")
    await put(store, "b1", "B")
    await claim(store, limit=1)
    store = await reopened()
    assert await store.ask(LoseAttempts(at=5.0)) == 1
    (lost,) = await store.ask(ListDeliveries(states=(DeliveryState.UNKNOWN,)))
    assert (lost.delivery_id, lost.reason) == ("a1", "restart")
    assert await store.ask(PeersWithDeliveries()) == ("p",)
