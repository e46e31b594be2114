"""REL-7: a wall clock that is set, an hour back or a day forward, changes no deadline and expires nothing early."""

import asyncio
import time

import pytest

from actors.messages.rows import DeliveryState, NewDelivery, Route, TurnState
from actors.messages.secret import Secret
from actors.messages.store import ListDeliveries, ListSessions, ListTurns, PutDelivery, StoreInfo
from actors.relay.credentials import mint_token
from actors.runtime import SystemClock
from storage.store import RetainDue
from tests.acceptance.conftest import Api
from tests.admin_wire import AdminWire
from tests.fakes.backend_script import Finish, Hold, Role, Text
from tests.fakes.connector import Connector, event
from tests.harness import until
from tests.peers import add_peer

HOUR, DAY = 3600.0, 86400.0
JUMPS = pytest.mark.parametrize("jump", [-HOUR, DAY])


class SetClock(SystemClock):
    """The machine's clock, whose wall somebody sets; ``passed`` is time that has really gone by."""

    def __init__(self) -> None:
        self.off = 0.0
        self.passed = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.passed

    def wall(self) -> float:
        return time.time() + self.passed + self.off


@pytest.fixture
def clock():
    return SetClock()


async def retained(harness):
    """Let everything go whose time is over."""
    harness.store.tell(RetainDue())
    await harness.ask("/store", StoreInfo())


async def known(connector, name):
    """Say whether a message that comes again is recognised: it gets no second answer before a fresh one's."""
    before = len(connector.contents())
    fresh = f"fresh-{before}"
    await connector.buffered(f"{name}-{before}", event(name, name))
    await connector.buffered(fresh, event(fresh, fresh))
    await connector.until(lambda: f"reply to: {fresh}" in connector.contents())
    return len(connector.contents()) == before + 1


@JUMPS
async def test_rel_7_a_repetition_stays_known_and_pending_answers_stay(boot, clock, jump):
    harness = await boot(clock=clock, **{"retention.dedupe_h": 0.5, "retention.pending_h": 0.5})
    secret = await add_peer(harness, "bot", "discord:bot-1")
    connector = await Connector(harness.url, "bot", secret).dial()
    await connector.buffered("m1", event("m1", "m1"))
    await connector.frames("outbound")
    route = Route(platform="telegram", chat_id="c")
    waiting = NewDelivery(delivery_id="d1", peer="away", route=route, content="hello")
    await harness.ask("/store", PutDelivery(at=clock.wall(), delivery=waiting))

    async def nothing_expired():
        await retained(harness)
        assert await known(connector, "m1")
        rows = await harness.ask("/store", ListDeliveries(peer="away"))
        assert [row.state for row in rows] == [DeliveryState.PENDING]

    clock.off = jump
    await nothing_expired()
    # What comes now has its stamp from the wrong clock, and the store starts anew under it.
    await connector.buffered("m2", event("m2", "m2"))
    await connector.until(lambda: "reply to: m2" in connector.contents())
    async with AdminWire(harness.url, harness.admin_token) as wire:
        assert (await wire.ask("actors.restart", path="/store"))["status"] == "restarted"
    await nothing_expired()
    # It is right again.
    clock.off = 0.0
    await nothing_expired()
    assert await known(connector, "m2")
    await connector.close()


async def test_rel_7_what_was_stamped_while_the_clock_was_wrong_does_not_expire_early(boot, clock):
    harness = await boot(clock=clock, **{"retention.dedupe_h": 0.5})
    secret = await add_peer(harness, "bot", "discord:bot-1")
    connector = await Connector(harness.url, "bot", secret).dial()
    clock.off = -HOUR
    await connector.buffered("m1", event("m1", "m1"))
    await connector.frames("outbound")
    clock.off = 0.0
    await retained(harness)
    assert await known(connector, "m1")
    await connector.close()


async def test_rel_7_what_is_old_goes_all_the_same(boot, clock):
    """The other side: without it nothing of the above would mean anything."""
    harness = await boot(clock=clock, **{"retention.dedupe_h": 0.5})
    secret = await add_peer(harness, "bot", "discord:bot-1")
    connector = await Connector(harness.url, "bot", secret).dial()
    clock.off = -2 * HOUR
    await connector.buffered("m1", event("m1", "m1"))
    await connector.frames("outbound")
    await retained(harness)
    assert await known(connector, "m1")
    clock.passed = 4 * HOUR
    await retained(harness)
    assert not await known(connector, "m1")
    await connector.close()


@JUMPS
async def test_rel_7_a_turn_under_way_and_its_session_go_on(boot, clock, client, backend, jump):
    harness = await boot(clock=clock, **{"session.idle_s": 600.0, "server.keepalive_s": 0.05})
    api = Api(client, harness)
    backend.script(Role(), Text("Hel"), Hold("go"), Text("lo"), Finish())
    running = asyncio.ensure_future(api.say("one", "c1"))
    await backend.request(0)
    clock.off = jump
    waiting = asyncio.ensure_future(api.say("two", "c1"))
    await until(lambda: _admitted(harness))
    backend.release("go")
    status, _, answer = await running
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Hello")
    assert (await waiting)[0] == 200
    (session,) = await harness.ask("/store", ListSessions())
    assert harness.system.find(f"/sessions/{session.session_id}") is not None
    rows = await harness.ask("/store", ListTurns())
    assert {row.state for row in rows} == {TurnState.COMMITTED} and len(rows) == 2


async def _admitted(harness):
    return await harness.ask("/store", ListTurns(states=(TurnState.ADMITTED,)))


@JUMPS
async def test_rel_7_links_and_what_operators_see_go_on(boot, clock, jump):
    harness = await boot(clock=clock, **{"admin_socket.recheck_s": 0.01, "supervision.stuck_s": 30.0})
    secret = await add_peer(harness, "bot", "discord:bot-1")
    connector = Connector(harness.url, "bot", secret)
    # A token of an hour: the link that it opened is not cut by a clock, and a new one asks for a new token.
    connector.bearer = mint_token("bot", Secret(secret), int(clock.wall() + HOUR))
    await connector.dial()
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await wire.ask("events.subscribe", from_seq=1)
        clock.off = jump
        await connector.buffered("m1", event("m1", "m1"))
        await connector.frames("outbound")
        rows = (await wire.ask("actors.list"))["actors"]
        assert all(0 <= row["age"] < 300 and row["oldest_age"] < 30 and row["busy_for"] < 30 for row in rows)
        assert 0 <= (await wire.ask("system.info"))["uptime_s"] < 300
        assert not [row for row in rows if row["restarts"]]
        await wire.ask("sessions.open", chat="c")
        opened = await wire.event("admin.sessions.open")
        assert abs(opened["ts"] - clock.wall()) < 30
    await connector.close()


def test_rel_7_deadlines_are_made_by_a_clock_that_nobody_can_set():
    before = time.monotonic()
    assert before <= SystemClock().monotonic() <= time.monotonic()
