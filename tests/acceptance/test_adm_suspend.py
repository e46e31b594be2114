"""ADM-7: a suspended actor holds its ordinary lane and obeys control; when it goes on, nothing is lost."""

import asyncio

import pytest

from actors.messages.lifecycle import Resume, Suspend
from actors.messages.rows import TurnState
from actors.messages.store import ListSessions, ListTurns
from tests.acceptance.conftest import Api
from tests.admin_wire import AdminWire
from tests.fakes.backend_script import Hold, Role, Text
from tests.fakes.connector import Connector, event
from tests.harness import until
from tests.peers import add_peer


async def test_adm_7_a_suspended_session_is_not_passivated_and_loses_nothing(boot, client):
    harness = await boot(**{"session.idle_s": 0.05})
    api = Api(client, harness)
    await api.say("one", "c1")
    (session,) = await harness.ask("/store", ListSessions())
    # It may have left between the answer and here: another message brings it back.
    ref = harness.system.find(f"/sessions/{session.session_id}")
    if ref is None:
        await api.say("two", "c1")
        ref = harness.at(f"/sessions/{session.session_id}")
    await ref.ask(Suspend(), harness.within())
    # What it still handles are its rest timers: they come several times, and it is still there.
    handled = ref._cell.handled
    await until(lambda: ref._cell.handled >= handled + 3)
    assert harness.system.find(f"/sessions/{session.session_id}") is ref
    await ref.ask(Resume(), harness.within())
    assert (await api.say("three", "c1"))[0] == 200
    await until(lambda: harness.system.find(f"/sessions/{session.session_id}") is None)


@pytest.fixture
async def wire(turnkeep):
    async with AdminWire(turnkeep.url, turnkeep.admin_token) as connection:
        yield connection


async def held(wire, path, depth=1):
    """Wait until so many ordinary messages wait there."""

    async def looked_at():
        row = (await wire.ask("actors.get", path=path))["actor"]
        return row["state"] == "suspended" and row["ordinary_depth"] >= depth

    await until(looked_at)


async def turns(harness, state):
    return await harness.ask("/store", ListTurns(states=(state,)))


async def test_adm_7_a_suspended_session_still_stops_its_turn(turnkeep, wire, api, backend):
    backend.script(Role(), Text("Hel"), Hold("never"))
    running = asyncio.ensure_future(api.say("one", "c1"))
    await backend.request(0)
    (session,) = await turnkeep.ask("/store", ListSessions())
    path = f"/sessions/{session.session_id}"
    assert await wire.ask("actors.suspend", path=path) == {"state": "suspended"}
    waiting = [asyncio.ensure_future(api.say(text, "c1")) for text in ("two", "three")]
    await held(wire, path, 2)
    assert (await wire.ask("sessions.stop_turn", session_id=session.session_id))["stopped"] is True
    assert (await running)[0] == 409
    assert not any(one.done() for one in waiting)
    assert await wire.ask("actors.resume", path=path) == {"state": "running"}
    assert [(await one)[0] for one in waiting] == [200, 200]
    assert sorted(one.last_user_message for one in backend.exchanges) == ["one", "three", "two"]


async def test_adm_7_a_suspended_router_holds_what_comes_and_stops_what_runs(turnkeep, wire, api, backend):
    backend.script(Role(), Text("Hel"), Hold("never"))
    running = asyncio.ensure_future(api.say("one", "c1"))
    await backend.request(0)
    (session,) = await turnkeep.ask("/store", ListSessions())
    await wire.ask("actors.suspend", path="/sessions")
    waiting = [asyncio.ensure_future(api.say("hello", f"new-{n}")) for n in range(10)]
    await held(wire, "/sessions", 10)
    assert len(await turns(turnkeep, TurnState.ADMITTED)) == 10
    assert (await wire.ask("sessions.stop_turn", session_id=session.session_id))["stopped"] is True
    assert (await running)[0] == 409
    await wire.ask("actors.resume", path="/sessions")
    assert [(await one)[0] for one in waiting] == [200] * 10
    assert len(backend.exchanges) == 11


async def test_adm_7_a_suspended_lane_holds_new_streams_and_ends_cancelled_ones(turnkeep, wire, api, backend):
    backend.script(Role(), Text("Hel"), Hold("never"))
    running = asyncio.ensure_future(api.say("one", "c1"))
    exchange = await backend.request(0)
    await wire.ask("actors.suspend", path="/lanes/fake")
    waiting = asyncio.ensure_future(api.say("two", "c2"))
    await held(wire, "/lanes/fake")
    await wire.ask("sessions.stop_turn", session_id=await chat_of(turnkeep, "c1"))
    assert (await running)[0] == 409
    await exchange.connection_closed.wait()
    assert not waiting.done()
    await wire.ask("actors.resume", path="/lanes/fake")
    assert (await waiting)[0] == 200
    assert [one.last_user_message for one in backend.exchanges] == ["one", "two"]


async def chat_of(harness, key):
    rows = await harness.ask("/store", ListSessions())
    return next(row.session_id for row in rows if row.session_key == key)


@pytest.mark.parametrize("path", ["/relays", "/relays/bot"])
async def test_adm_7_a_suspended_peer_keeps_its_link_and_its_answers(turnkeep, wire, path):
    secret = await add_peer(turnkeep, "bot", "discord:bot-1")
    connector = await Connector(turnkeep.url, "bot", secret).dial()
    await connector.buffered("b1", event("one", "m1"))
    await connector.frames("outbound")
    await wire.ask("actors.suspend", path=path)
    # Deliveries are control: its link is served as before.
    await connector.buffered("b2", event("two", "m2"))
    await connector.frames("outbound", 2)
    # A new link is not: it waits.
    await connector.close()
    dialled = asyncio.ensure_future(connector.dial())
    await held(wire, path)
    assert not dialled.done()
    await wire.ask("actors.resume", path=path)
    await dialled
    await connector.buffered("b3", event("three", "m3"))
    await connector.frames("outbound", 3)
    assert connector.contents() == ["reply to: one", "reply to: two", "reply to: three"]
    await connector.close()
