"""Retention: every table has its rule, and it is kept in small steps."""

import asyncio
import sqlite3

import pytest

from actors.messages.events import Event
from actors.messages.rows import DeliveryState, NewDelivery, Route, TurnState
from actors.messages.store import (
    AppendEvents,
    ClaimDeliveries,
    GetTurn,
    LastEventSeq,
    ListDeliveries,
    PutDelivery,
    ReadHistory,
    SettleDelivery,
)
from actors.runtime import Budget, System
from storage import Store, open_database
from storage.info import tables
from storage.migrations import migrate
from storage.retention import UNTIL_DELETED, Retain, rules
from storage.settings import RetentionSettings, StoreSettings
from tests.clock import StillClock

HOUR = 3600.0
DAY = 24 * HOUR


def retain(store, after):
    return store.ask(Retain(at=store.now + after))


async def put(store, delivery_id, state=None):
    route = Route(platform="discord", chat_id=delivery_id)
    delivery = NewDelivery(delivery_id=delivery_id, peer="p", route=route, content="x")
    await store.ask(PutDelivery(delivery=delivery, at=store.now))
    if state is not None:
        await store.ask(ClaimDeliveries(peer="p", at=store.now))
        await store.ask(SettleDelivery(delivery_id=delivery_id, state=state, at=store.now))


def test_every_table_has_a_rule_or_a_reason(tmp_path):
    raw = sqlite3.connect(tmp_path / "x", isolation_level=None)
    migrate(raw, tmp_path / "x")
    ruled = {rule.table for rule in rules(RetentionSettings())}
    assert ruled | UNTIL_DELETED == set(tables(raw)) and not ruled & UNTIL_DELETED
    raw.close()


async def test_rly_12_a_message_is_known_again_for_48_hours_and_goes_in_small_steps(store):
    await asyncio.gather(*(store.accept(session_key="k", message_id=f"m{n}") for n in range(250)))
    assert (await retain(store, 47 * HOUR)).gone == 0
    assert (await store.accept(session_key="k", message_id="m1")).duplicate
    steps = [await retain(store, 49 * HOUR) for _ in range(3)]
    assert [(step.gone, step.more) for step in steps] == [(200, True), (50, False), (0, False)]
    assert not (await store.accept(session_key="k", message_id="m1")).duplicate


async def test_messages_go_but_not_those_that_wait_nor_what_was_said(store):
    accepted = await store.accept("one")
    taken = await store.take(accepted.session_id)
    await store.end(taken, TurnState.COMMITTED, text="1")
    waiting = await store.accept("two")
    assert (await retain(store, 29 * DAY)).gone == 0
    assert (await retain(store, 31 * DAY)).gone == 1
    assert (await store.ask(GetTurn(turn_id=taken.turn_id))).text == "1"
    texts = [row.content for row in await store.ask(ReadHistory(session_id=accepted.session_id))]
    assert texts == ["one", "1"]
    assert (await store.take(accepted.session_id)).inbox_id == waiting.inbox_id
    assert (await retain(store, 91 * DAY)).gone == 2
    assert await store.ask(GetTurn(turn_id=taken.turn_id)) is None


async def test_the_newest_event_stays_so_that_numbers_only_grow(store):
    events = tuple(Event(seq=n, kind="k", path="/", at=store.now, data={}) for n in range(1, 4))
    await store.ask(AppendEvents(events=events, at=store.now))
    assert (await retain(store, 29 * DAY)).gone == 0
    assert (await retain(store, 31 * DAY)).gone == 2
    assert await store.ask(LastEventSeq()) == 3


@pytest.mark.parametrize(
    ("state", "days"), [(DeliveryState.DELIVERED, 7), (DeliveryState.DEAD, 90)], ids=["delivered", "dead"]
)
async def test_settled_deliveries_go(store, state, days):
    await put(store, "d", state)
    await put(store, "waiting")
    assert (await retain(store, days * DAY - HOUR)).gone == 0
    assert (await retain(store, days * DAY + HOUR)).gone == 1
    assert [row.delivery_id for row in await store.ask(ListDeliveries())] == ["waiting"]


async def test_rly_17_a_delivery_that_waited_for_a_day_is_dead_and_stays_to_be_seen(store):
    await put(store, "d")
    assert (await retain(store, 23 * HOUR)).died == ()
    (dead,) = (await retain(store, 25 * HOUR)).died
    assert (dead.delivery_id, dead.state, dead.reason) == ("d", DeliveryState.DEAD, "expired")
    assert await store.ask(ListDeliveries(states=(DeliveryState.DEAD,))) == (dead,)
    assert (await retain(store, 25 * HOUR)).died == ()


async def test_an_outcome_that_nobody_saw_for_a_day_is_dead_by_that_reason(store):
    await put(store, "d", DeliveryState.UNKNOWN)
    assert (await retain(store, 23 * HOUR)).died == ()
    (dead,) = (await retain(store, 25 * HOUR)).died
    assert (dead.state, dead.reason) == (DeliveryState.DEAD, "outcome_unknown")


async def test_an_attempt_under_way_is_left_to_its_link(store):
    await put(store, "d")
    await store.ask(ClaimDeliveries(peer="p", at=store.now))
    assert (await retain(store, 25 * HOUR)).died == ()


class Kept:
    """A store on a clock that stands still, with a bus that listens."""

    def __init__(self, data_dir):
        self._data_dir = data_dir

    async def __aenter__(self):
        self.clock = StillClock()
        self.system = System(clock=self.clock)
        self.bus = self.system.port("/bus")
        self.system.publish_to(self.bus)
        self.database = await open_database(self._data_dir)
        settings = StoreSettings(retain_every_s=60.0, retain_pause_s=0.25)
        self.ref = self.system.spawn("/store", lambda: Store(self.database, settings))
        await self.ask(PutDelivery(delivery=self.delivery("d"), at=self.clock.wall()))
        return self

    async def __aexit__(self, *_):
        await self.system.stop(self.ref, self.within())
        self.database.close()

    def delivery(self, delivery_id):
        route = Route(platform="discord", chat_id="C")
        return NewDelivery(delivery_id=delivery_id, peer="p", route=route, content="x")

    def within(self):
        return Budget.of(self.clock, 10)

    def ask(self, request):
        return self.ref.ask(request, self.within())

    async def states(self):
        return [row.state for row in await self.ask(ListDeliveries())]

    async def pass_time(self, seconds):
        """Let time pass in pieces, so that the store looks in each."""
        for _ in range(int(seconds // 600)):
            self.clock.advance(600)
            await self.system.idle()
            await self.ask(ListDeliveries())


async def test_the_store_looks_by_itself_and_says_what_died(tmp_path):
    async with Kept(tmp_path) as kept:
        await kept.pass_time(25 * HOUR)
        assert await kept.states() == [DeliveryState.DEAD]
        event = await kept.bus.receive()
        assert event.kind == "delivery.dead"
        assert event.data == {"peer": "p", "delivery_id": "d", "reason": "expired"}


async def test_rel_7_a_wall_clock_that_jumps_lets_nothing_expire_early(tmp_path):
    async with Kept(tmp_path) as kept:
        kept.clock.wall_seconds += DAY
        await kept.pass_time(HOUR)
        assert await kept.states() == [DeliveryState.PENDING]
        kept.clock.wall_seconds -= DAY + HOUR
        await kept.ask(PutDelivery(delivery=kept.delivery("e"), at=kept.clock.wall()))
        await kept.pass_time(22.5 * HOUR)
        assert await kept.states() == [DeliveryState.PENDING] * 2
