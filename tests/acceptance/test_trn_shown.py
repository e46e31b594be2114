"""TRN-10, 17, 18, 19, 28, 33, 34: what is left to show and to keep of turns that die, are stopped or are shut down."""

import signal

import pytest

from actors.messages.lane import ListLanes
from actors.messages.lifecycle import Resume, Suspend
from actors.messages.rows import DeliveryState, HistoryKind
from actors.messages.store import ListDeliveries, ListTurns
from actors.messages.turn import AttachTurnWatcher, Snapshot
from tests.acceptance.conftest import Api
from tests.acceptance.watched import Watched
from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.backend_script import Die, Done, Finish, Hold, Reply, Role, Silence, Text
from tests.fakes.connector import Connector, event
from tests.harness import Harness, until
from tests.peers import add_peer
from transports.backends.stream import Stream as Attempt

MARK = "[generation cancelled before completion]"
DEAD = "streaming from the dead attempt"
DYING = (Role(), Text(DEAD), Die("rst"))
GOOD = (Role(), Text("Hello "), Text("world"), Finish(), Done())
LONG = {"turn.retry_base_s": 3600.0, "turn.retry_cap_s": 3600.0}


async def buffer(chat):
    """Return the running turn's text so far, as a late watcher is told it."""
    late = chat.harness.system.port("/test/late")
    turn = chat.harness.at(f"/sessions/{chat.session_id}/turn")
    turn.tell(AttachTurnWatcher(watcher=late))
    snapshot = await late.receive(chat.harness.within())
    late.close()
    assert isinstance(snapshot, Snapshot)
    return snapshot.text


async def kept(chat):
    """Return what the store has of the running turn's text."""
    (turn,) = await chat.harness.ask("/store", ListTurns(session_id=chat.session_id))
    return turn.partial


# What a death leaves


async def test_trn_17_after_a_death_the_buffer_holds_the_good_text_alone(boot, backend):
    harness = await boot(**{"turn.flush_s": 0.0})
    backend.script(*DYING)
    backend.script(Role(), Text("Hello "), Text("world"), Hold("end"), Finish(), Done())
    async with Watched(harness) as chat:
        await chat.say()
        said = ""
        while said != "Hello world":
            said += (await chat.until("content", attempt=2))["text"]
        assert await buffer(chat) == "Hello world"

        async def stored():
            return await kept(chat) == "Hello world"

        await until(stored)
        backend.release("end")
        turn = await chat.over()
        assert turn.text == chat.state[1] == "Hello world" and await chat.rows() == ["Hello world"]


@pytest.mark.parametrize("tags", ["off", "leading", "anywhere"])
async def test_trn_18_a_stop_in_the_backoff_keeps_the_dead_text_and_the_row_begins_with_it(
    boot, backend, tags
):
    harness = await boot(lane={"think_tags": tags}, **LONG)
    backend.script(*DYING)
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("retry")
        assert DEAD.startswith(await buffer(chat)) and await buffer(chat) != ""
        await chat.stop()
        turn = await chat.over()
        assert chat.state == ("idle", DEAD) and await chat.rows() == [f"{DEAD}\n\n{MARK}"]
    assert turn.partial == f"{DEAD}\n\n{MARK}"


async def test_trn_19_who_knows_no_discarded_text_is_served_all_the_same(boot, client, backend):
    harness = await boot(**{"turn.flush_s": 0.0})
    secret = await add_peer(harness, "bot", "discord:bot-1")
    peer = Connector(harness.url, "bot", secret)
    await peer.dial()
    backend.script(*DYING)
    backend.script(*GOOD)
    await peer.buffered("b1", event("hi", "m1"))
    await peer.until(lambda: peer.contents())
    assert peer.contents() == ["Hello world"]

    async def delivered():
        return [row.state for row in await harness.ask("/store", ListDeliveries())] == [
            DeliveryState.DELIVERED
        ]

    await until(delivered)
    await peer.close()


async def test_trn_28_an_adapter_that_never_says_that_it_was_accepted_dies_in_mid_stream(
    boot, backend, monkeypatch
):
    monkeypatch.setattr(Attempt, "arm", lambda self: None)
    harness = await boot(lane={"think_tags": "anywhere"})
    backend.script(*DYING)
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        assert (await chat.over()).text == "Hello world"
        assert chat.contents == [DEAD[:-12], "Hello world"]
        assert [chat.kinds.count(kind) for kind in ("retry", "stream_discarded", "lane_retry")] == [1, 1, 0]
    assert len(backend.exchanges) == 2


# Stops while another lane is looked for


@pytest.fixture
async def two_lanes(tmp_path, backend):
    """Two lanes of two backends, as far as their health goes."""
    lanes = [
        {"name": "big", "base_url": backend.url, "model": "big-1"},
        {
            "name": "small",
            "base_url": backend.url.replace("127.0.0.1", "localhost"),
            "model": "s-1",
            "order": 1,
        },
    ]
    settings = {"turn.retry_base_s": 0.0, "turn.creation_tries": 5}
    async with Harness(tmp_path / "data", lane=lanes, **settings) as harness:
        yield harness


async def stopped_while_the_fallback_is_looked_for(harness, backend):
    """Let the first lane refuse while /lanes says nothing, and stop the turn there; return what was told."""
    before = len(backend.exchanges)
    backend.script(Hold("refuse"), Reply(401, {}))
    lanes = harness.at("/lanes")
    async with Watched(harness) as chat:
        await chat.say()
        await backend.request(before)
        await lanes.ask(Suspend(), harness.within())
        backend.release("refuse")
        turn = harness.at(f"/sessions/{chat.session_id}/turn")
        await until(lambda: turn._cell.behaviour._state.given_up == ("big",))
        await chat.stop()
        await chat.over()
        await lanes.ask(Resume(), harness.within())
        await harness.system.idle()
        assert len(backend.exchanges) == before + 1
        assert await chat.rows() == []
        return chat


async def test_trn_33_a_stop_while_a_fallback_is_looked_for_asks_none_and_tells_of_none(two_lanes, backend):
    chat = await stopped_while_the_fallback_is_looked_for(two_lanes, backend)
    assert "lane_fallback" not in chat.kinds and chat.kinds[-2:] == ["cancelled", "state"]


async def test_trn_34_a_stop_before_a_degraded_fallback_tries_none_and_tells_of_none(
    two_lanes, backend, client
):
    backend.script(Reply(503, {}), times=5)
    assert (await Api(client, two_lanes).say("hi", model="small"))[0] == 500
    assert {lane.traits.name: lane.degraded for lane in await two_lanes.ask("/lanes", ListLanes())} == {
        "big": False,
        "small": True,
    }
    chat = await stopped_while_the_fallback_is_looked_for(two_lanes, backend)
    assert not {"lane_fallback", "lane_degraded"} & set(chat.kinds)


async def test_trn_34_without_the_stop_it_is_tried_and_told_of(two_lanes, backend, client):
    backend.script(Reply(503, {}), times=5)
    assert (await Api(client, two_lanes).say("hi", model="small"))[0] == 500
    backend.script(Reply(401, {}))
    backend.script(*GOOD)
    async with Watched(two_lanes) as chat:
        await chat.say()
        assert (await chat.over()).text == "Hello world"
        place = chat.kinds.index("lane_fallback")
        assert chat.kinds[place + 1] == "lane_degraded"


# A shutdown, through the daemon as a process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_trn_10_a_turn_that_outlives_the_drain_is_marked_and_nothing_of_it_is_lost(
    tmp_path, backend, client, number
):
    backend.script(Role(), Text("Half "), Text("an answer"), Silence())
    config = (
        f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "m"\nthink_tags = "anywhere"\n'
        "[shutdown]\nbudget_s = 4.0\n[turn]\nflush_s = 3600.0\n"
    )
    async with Daemon(tmp_path / "data", config=config) as daemon:
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            opened = await wire.ask("sessions.open", chat="main")
            session_id = opened["session"]["session_id"]
            await wire.ask("sessions.follow", session_id=session_id)
            await wire.ask("sessions.send", chat="main", text="hi")
            events = [await wire.event()]
            while events[-1]["event"] != "turn.content":
                events.append(await wire.event())
            daemon.process.send_signal(number)
            while events[-1]["data"].get("state") != "error":
                events.append(await wire.event())
        assert await daemon.ended() == 0
        kinds = [one["event"].removeprefix("turn.") for one in events]
        assert kinds.count("stream_end") == 1 and kinds[-3:] == ["stream_end", "cancelled", "state"]
        assert events[-2]["data"]["by"] == "shutdown"
        # What the next run finds, and what a model gets of it: what was said, and not what broke off.
        await daemon.start()
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            history = await wire.ask("sessions.history", session_id=session_id)
            await wire.ask("sessions.send", chat="main", text="again")
            exchange = await backend.request(1)
        assert await daemon.stop() == 0
    rows = [(row["role"], row["kind"], row["content"]) for row in history["history"]]
    assert rows[:2] == [
        ("user", HistoryKind.MESSAGE, "hi"),
        ("assistant", HistoryKind.INTERRUPTED, "Half an answer\n\n[interrupted by shutdown]"),
    ]
    assert [message["content"] for message in exchange.body["messages"]] == ["hi", "again"]
