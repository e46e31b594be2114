"""Deliveries: in order per chat, settled once, never lost."""

import pytest

from actors.exceptions import Conflict, NotFound
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


async def test_attempts_of_a_former_run_are_unknown(store):
    await put(store, "a1")
    await put(store, "b1", "B")
    await claim(store, limit=1)
    await store.reopen()
    assert await store.ask(LoseAttempts(at=5.0)) == 1
    (lost,) = await store.ask(ListDeliveries(states=(DeliveryState.UNKNOWN,)))
    assert (lost.delivery_id, lost.reason) == ("a1", "restart")
    assert await store.ask(PeersWithDeliveries()) == ("p",)


async def test_the_outcome_of_an_older_attempt_is_refused(store):
    await put(store, "a1")
    await claim(store)
    await settle(store, "a1", DeliveryState.PENDING, attempt=1)
    await claim(store)
    with pytest.raises(Conflict, match="claimed again"):
        await settle(store, "a1", DeliveryState.PENDING, attempt=1)
    assert (await settle(store, "a1", DeliveryState.DELIVERED, attempt=2)).attempts == 2


@pytest.mark.parametrize("later", [DeliveryState.DELIVERED, DeliveryState.DEAD, DeliveryState.PENDING])
async def test_an_unknown_outcome_may_still_become_known(store, later):
    await put(store, "a1")
    await claim(store)
    await settle(store, "a1", DeliveryState.UNKNOWN, reason="outcome_unknown")
    row = await settle(store, "a1", later, reason="r")
    assert (row.state, row.reason) == (later, "r")
    assert (row.settled_at is None) is (later is DeliveryState.PENDING)


async def test_what_nobody_claimed_may_be_given_up_but_was_not_delivered(store):
    await put(store, "a1")
    with pytest.raises(Conflict):
        await settle(store, "a1", DeliveryState.DELIVERED)
    assert (await settle(store, "a1", DeliveryState.DEAD, reason="discarded")).state is DeliveryState.DEAD


async def test_a_delivery_that_is_not_there_is_not_found(store):
    with pytest.raises(NotFound):
        await settle(store, "none", DeliveryState.DELIVERED)


async def test_scopes_of_a_chat_are_chats_of_their_own(store):
    for delivery_id, scope in (("a", "G1"), ("b", "G2"), ("c", "G1")):
        route = Route(platform="discord", chat_id="C1", scope_id=scope)
        delivery = NewDelivery(delivery_id=delivery_id, peer="p", route=route, content="x")
        await store.ask(PutDelivery(delivery=delivery, at=1.0))
    assert await claim(store) == ["a", "b"]


async def test_a_claim_takes_the_longest_waiting_up_to_its_limit(store):
    for n in range(5):
        await put(store, f"d{n}", chat=f"C{9 - n}")
    assert await claim(store, limit=2) == ["d0", "d1"]
    assert await claim(store, limit=9) == ["d2", "d3", "d4"]


async def test_another_peers_deliveries_are_its_own(store):
    await put(store, "a1", peer="q")
    assert await claim(store) == []
    assert await store.ask(PeersWithDeliveries()) == ("q",)
    assert await store.ask(ListDeliveries(peer="p")) == ()


async def test_deliveries_are_listed_newest_first_by_state_and_peer(store):
    for n in range(4):
        await put(store, f"d{n}", chat=f"C{n}")
    await claim(store, limit=2)
    await settle(store, "d0", DeliveryState.DELIVERED)

    async def listed(*states, **fields):
        return [row.delivery_id for row in await store.ask(ListDeliveries(states=states, **fields))]

    assert await listed() == ["d3", "d2", "d1", "d0"]
    assert await listed(limit=2) == ["d3", "d2"]
    assert await listed(DeliveryState.PENDING, DeliveryState.DELIVERED, peer="p") == ["d3", "d2", "d0"]
