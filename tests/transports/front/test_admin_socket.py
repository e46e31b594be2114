"""The admin socket on the real server: keys, requests side by side, events, and observers that are too slow."""

import asyncio
import json
from functools import partial

import pytest
from websockets.exceptions import ConnectionClosed

from actors.messages.admin import AddKey, Perform
from actors.messages.events import Publish, ReadBack
from actors.messages.lifecycle import Resume, Suspend
from actors.messages.rows import KeyRow, KeyScope
from actors.messages.store import LastEventSeq
from tests.admin_wire import AdminWire
from tests.fakes.backend_script import Hold, Role, Text, answer
from tests.harness import until


@pytest.fixture
async def harness(boot):
    return await boot()


@pytest.fixture
async def wire(harness):
    async with AdminWire(harness.url, harness.admin_token) as connection:
        yield connection


async def new_key(harness, name, *scopes):
    caller = KeyRow(key_id="k", name="t", owner="t", scopes=(KeyScope.ADMIN,), created_at=0.0)
    request = AddKey(name=name, scopes=scopes)
    return (await harness.ask("/admin", Perform(request=request, caller=caller, watcher=None)))["secret"]


def publish(harness, kind, n=1):
    for _ in range(n):
        harness.at("/events").tell(Publish(kind=kind, path="/test", data={}, at=1.0))


async def stored(harness, seq):
    return await harness.ask("/store", LastEventSeq()) >= seq


# Keys


@pytest.mark.parametrize("token", [None, "", "wrong", "tka_" + "0" * 64])
async def test_adm_6_without_a_key_nothing_is_said(harness, token):
    async with AdminWire(harness.url, token) as wire:
        assert await wire.closed() == 4401
        assert wire.socket.close_reason == ""


async def test_adm_6_a_key_for_the_api_may_do_nothing_here(harness):
    async with AdminWire(harness.url, harness.api_key) as wire:
        for request_type in ("system.info", "events.subscribe", "events.unsubscribe"):
            assert await wire.ask(request_type) == "forbidden"


async def test_scopes_reach_as_far_as_they_say(harness):
    async with AdminWire(harness.url, await new_key(harness, "o", KeyScope.OBSERVE)) as wire:
        assert "actors" in await wire.ask("actors.list")
        assert await wire.ask("sessions.open", chat="main") == "forbidden"
        assert await wire.ask("keys.list") == "forbidden"


async def test_a_revoked_key_is_refused_on_open_connections_too(harness, wire):
    token = await new_key(harness, "o", KeyScope.OBSERVE)
    async with AdminWire(harness.url, token) as other:
        await other.ask("actors.list")
        await wire.ask("keys.revoke", key="o")
        await other.send({"id": 9, "type": "actors.list"})
        assert await other.closed() == 4401


async def test_an_observer_whose_key_is_revoked_is_not_left_listening(boot):
    harness = await boot(**{"admin_socket.recheck_s": 0.01})
    token = await new_key(harness, "o", KeyScope.OBSERVE)
    async with AdminWire(harness.url, token) as observer, AdminWire(harness.url, harness.admin_token) as wire:
        await observer.ask("actors.list")
        await wire.ask("keys.revoke", key="o")
        assert await observer.closed() == 4401


async def test_while_the_store_is_away_one_may_still_look(boot):
    harness = await boot(**{"admin_socket.store_s": 0.05, "admin.glance_s": 0.05})
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await wire.ask("actors.list")
        await harness.ask("/store", Suspend())
        assert (await wire.ask("system.info"))["store"] is None
        assert await wire.ask("actors.resume", path="/store") == {"state": "running"}
        assert (await wire.ask("system.info"))["store"]["schema"]


async def test_a_newcomer_is_told_to_try_again_while_the_store_is_away(boot):
    harness = await boot(**{"admin_socket.store_s": 0.05})
    token = harness.admin_token
    await harness.ask("/store", Suspend())
    async with AdminWire(harness.url, token) as wire:
        assert await wire.closed() == 1013
    await harness.ask("/store", Resume())


# Requests


async def test_malformed_input_is_answered_and_the_connection_lives(wire):
    for hostile in ("{", "[]", "null", b"\xff\xfe", '{"type": 5}', '{"id": 1.5, "type": "actors.list"}'):
        await wire.send(hostile)
        answer = await wire.receive()
        assert (answer["id"], answer["ok"], answer["error"]["code"]) == (None, False, "invalid")
    await wire.send('{"id": "x", "type": "actors.lst"}')
    answer = await wire.receive()
    assert answer["id"] == "x" and answer["error"]["code"] == "unknown_type"
    assert "actors.list" in answer["error"]["message"]
    assert "actors" in await wire.ask("actors.list")


async def test_bytes_are_as_good_as_text(wire):
    await wire.send(json.dumps({"id": "b", "type": "actors.get", "path": "/"}).encode())
    assert (await wire.receive())["result"]["actor"]["path"] == "/"


async def test_a_message_that_is_too_big_closes_the_connection(wire):
    await wire.send({"id": 1, "type": "sessions.send", "chat": "main", "text": "x" * 1024 * 1024})
    with pytest.raises(ConnectionClosed):
        await wire.receive()
    assert wire.socket.close_code == 1009


async def test_a_slow_request_delays_no_other_on_the_same_connection(harness, wire):
    await harness.ask("/sessions", Suspend())
    await wire.send({"id": "slow", "type": "sessions.list"})
    await wire.send({"id": "quick", "type": "actors.get", "path": "/"})
    assert (await wire.receive())["id"] == "quick"
    await harness.ask("/sessions", Resume())
    assert (await wire.receive())["id"] == "slow"


async def test_beyond_the_bound_reading_waits(boot):
    harness = await boot(**{"admin_socket.in_flight": 2})
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await harness.ask("/sessions", Suspend())
        for n in range(5):
            await wire.send({"id": n, "type": "sessions.list"})
        await until(lambda: harness.at("/admin")._cell.behaviour._under_way == 2)
        async with AdminWire(harness.url, harness.admin_token) as other:
            await other.ask("actors.list")
        assert harness.at("/admin")._cell.behaviour._under_way == 2
        await harness.ask("/sessions", Resume())
        assert sorted([(await wire.receive())["id"] for _ in range(5)]) == [0, 1, 2, 3, 4]


async def test_errors_have_a_code_and_a_sentence(wire):
    await wire.send({"id": 1, "type": "actors.get", "path": "/nobody"})
    assert (await wire.receive())["error"] == {
        "code": "not_found",
        "message": "there is no actor /nobody",
    }


async def test_a_request_that_takes_too_long_says_that_nobody_knows(boot):
    harness = await boot(**{"admin_socket.request_s": 0.05})
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await harness.ask("/sessions", Suspend())
        assert await wire.ask("sessions.list") == "timeout"
        await harness.ask("/sessions", Resume())


# Turns


async def test_a_watched_turn_streams_over_the_socket(wire, backend):
    accepted = (await wire.ask("sessions.send", chat="main", text="hello", watch=True))["accepted"]
    text = ""
    while True:
        event = await wire.event()
        text += event["data"]["text"] if event["event"] == "turn.content" else ""
        if event["event"] == "turn.state" and event["data"]["state"] == "idle":
            break
    assert text == event["data"]["text"] == "reply to: hello"
    assert event["data"]["session_id"] == accepted["session_id"] and event["seq"] > 1


async def test_a_connection_that_goes_leaves_the_turn_alone(harness, backend, wire):
    backend.script(Role(), Text("Hel"), Hold("go"), *answer("lo"))
    async with AdminWire(harness.url, harness.admin_token) as first:
        sent = await first.ask("sessions.send", chat="main", text="hello", watch=True)
        await first.event("turn.content")
    backend.release("go")
    accepted = sent["accepted"]
    await wire.ask("sessions.watch", session_id=accepted["session_id"], inbox_id=accepted["inbox_id"])
    while True:
        event = await wire.event()
        if event["event"] == "turn.outcome":
            assert event["data"]["turn"]["text"] == "Hello"
            break
        if event["event"] == "turn.state" and event["data"]["state"] == "idle":
            assert event["data"]["text"] == "Hello"
            break


# Events


async def test_adm_3_events_resume_without_a_gap(harness, wire):
    publish(harness, "a", 3)
    first = (await wire.ask("events.subscribe", kinds=["a"]))["seq"]
    publish(harness, "a", 3)
    seen = [(await wire.event("a"))["seq"] for _ in range(3)]
    assert seen == [first + 1, first + 2, first + 3]
    async with AdminWire(harness.url, harness.admin_token) as again:
        await again.ask("events.subscribe", kinds=["a"], from_seq=first + 2)
        publish(harness, "a", 1)
        assert [(await again.event("a"))["seq"] for _ in range(3)] == [first + 2, first + 3, first + 4]


async def test_adm_3_a_long_past_is_read_in_pages_and_ends_with_a_mark(boot):
    harness = await boot(**{"admin_socket.page": 7, "events.kept": 20, "events.flush_s": 0.001})
    for _ in range(10):
        publish(harness, "a", 10)
        page = await harness.ask("/events", ReadBack(from_seq=-1))
        await until(partial(stored, harness, page.last_seq))
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await wire.ask("events.subscribe", from_seq=1)
        events = []
        while (event := await wire.event())["event"] != "events.live":
            events.append(event)
        assert [event["seq"] for event in events] == list(range(1, events[-1]["seq"] + 1))
        assert sum(event["event"] == "a" for event in events) == 100
        assert event["seq"] == events[-1]["seq"]
        publish(harness, "b")
        assert (await wire.event())["event"] == "b"


async def test_adm_3_a_gap_is_told(boot, tmp_path):
    harness = await boot(**{"events.flush_s": 0.001})
    publish(harness, "a", 3)
    page = await harness.ask("/events", ReadBack(from_seq=-1))
    await until(lambda: stored(harness, page.last_seq))
    await harness.crash()
    harness = await boot()
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await wire.ask("events.subscribe", from_seq=page.last_seq)
        publish(harness, "b")
        events = [await wire.event() for _ in range(3)]
        assert [event["event"] for event in events[:2]] == ["a", "gap"]
        assert events[2]["seq"] == events[1]["data"]["next_seq"]


async def test_a_second_subscription_takes_the_place_of_the_first(harness, wire):
    await wire.ask("events.subscribe", kinds=["a"])
    await wire.ask("events.subscribe", kinds=["b"])
    publish(harness, "a")
    publish(harness, "b")
    assert (await wire.event())["event"] == "b"


async def test_after_unsubscribing_nothing_comes(harness, wire):
    await wire.ask("events.subscribe")
    await wire.ask("events.unsubscribe")
    publish(harness, "a", 3)
    await wire.ask("actors.list")
    await wire.ask("actors.list")
    assert [event for event in wire.events if event["event"] == "a"] == []


async def test_a_subscription_outlives_the_bus(boot):
    harness = await boot(**{"admin_socket.recheck_s": 0.01})
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await wire.ask("events.subscribe", kinds=["a"])
        publish(harness, "a")
        await wire.event("a")
        await wire.ask("actors.stop", path="/events")
        await until(lambda: harness.at("/events")._cell.status.name == "RUNNING")
        publish(harness, "a", 2)
        seen = [(await wire.event("a"))["seq"] for _ in range(2)]
        assert seen[1] == seen[0] + 1


async def test_adm_4_a_slow_observer_is_dropped_with_a_notice_and_slows_nobody(boot):
    # The notice waits for a client that reads again; how soon it does is this machine's affair.
    harness = await boot(**{"admin_socket.queue": 50, "admin_socket.close_s": 20.0})
    async with (
        AdminWire(harness.url, harness.admin_token) as slow,
        AdminWire(harness.url, harness.admin_token) as other,
    ):
        await slow.ask("events.subscribe", kinds=["flood"])
        # It stops reading: the kernel's buffers fill, then the daemon's, then its queue.
        slow.socket.transport.pause_reading()
        filling = "x" * 1000
        feeds = harness.system.dead_letters.counts

        def flooded():
            for _ in range(200):
                harness.at("/events").tell(
                    Publish(kind="flood", path="/t", data={"filling": filling}, at=1.0)
                )
            return feeds["overflow"]

        await until(flooded)
        assert (await other.ask("actors.get", path="/events"))["actor"]["state"] == "running"
        slow.socket.transport.resume_reading()
        last = await slow.last()
        assert last["event"] == "dropped" and last["data"] == {"reason": "too_slow"}
        assert slow.socket.close_code == 1008


async def test_an_observer_that_takes_nothing_for_too_long_is_let_go(boot):
    harness = await boot(
        **{"admin_socket.queue": 50, "admin_socket.stall_s": 0.2, "admin_socket.close_s": 0.05}
    )
    async with AdminWire(harness.url, harness.admin_token) as slow:
        await slow.ask("events.subscribe", kinds=["flood"])
        slow.socket.transport.pause_reading()

        def let_go():
            for _ in range(200):
                publish_big(harness)
            return not harness.at("/events")._cell.behaviour._live

        await until(let_go)
        slow.socket.transport.abort()


def publish_big(harness):
    harness.at("/events").tell(Publish(kind="flood", path="/t", data={"filling": "x" * 1000}, at=1.0))


async def test_a_connection_that_goes_is_forgotten_by_the_bus(harness):
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await wire.ask("events.subscribe")
        assert len(harness.at("/events")._cell.behaviour._live) == 1
    await until(lambda: not harness.at("/events")._cell.behaviour._live)


async def test_rel_3_a_flood_of_garbage_harms_nobody(harness, wire):
    async def garble():
        async with AdminWire(harness.url, harness.admin_token) as hostile:
            for _ in range(100):
                await hostile.send("[" * 1000)
            for _ in range(100):
                assert (await hostile.receive())["error"]["code"] == "invalid"

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(garble())
        for _ in range(10):
            assert "actors" in await wire.ask("actors.list")
