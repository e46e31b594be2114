"""RLY: relay links through the real composition; the daemon as a process where it has to die."""

import asyncio
import contextlib
import sqlite3
import time

import pytest

from actors.messages.relay import DrainRelays, ListLinks, PerformAction
from actors.messages.rows import DeliveryState, PeerRole, TurnState
from actors.messages.session import LiveSessions
from actors.messages.store import ListDeliveries, ListSessions, ListTurns
from tests.daemon import Daemon
from tests.fakes.backend_script import Finish, Hold, Silence, Text
from tests.fakes.connector import Connector, Gateway, event
from tests.harness import until
from tests.peers import add_peer
from tests.terminal import admin_call

EDIT = {"op": "edit", "chat_id": "C1", "message_id": "s1", "content": "y"}


async def connector(harness, name="bot", identity="discord:b1", **fields):
    peer = Connector(harness.url, name, await add_peer(harness, name, identity), **fields)
    return await peer.dial()


async def gateway(harness, name="gw", *identities):
    named = identities or (("discord", "b1"),)
    secret = await add_peer(harness, name, *(":".join(one) for one in named), role=PeerRole.GATEWAY)
    return await Gateway(harness.url, name, secret, *named).dial()


def perform(harness, action=EDIT):
    request = PerformAction(gateway="gw", platform="discord", bot_id="b1", action=action)
    return harness.relays.ask(request, harness.within())


async def delivery_states(harness):
    return [row.state for row in await harness.ask("/store", ListDeliveries())]


async def test_rly_4_a_request_while_closing_is_answered_at_once_and_registers_nothing(turnkeep):
    peer = await connector(turnkeep, answer=lambda frame: None)
    pending = perform(turnkeep)
    await peer.frames("outbound")
    drained = turnkeep.relays.ask(DrainRelays(), turnkeep.within(60))
    await until(lambda: turnkeep.ask("/relays", ListLinks()))
    before = time.monotonic()
    assert await perform(turnkeep) == {"success": False, "error": "relay transport closed"}
    assert time.monotonic() - before < 1.0
    [link] = await turnkeep.ask("/relays", ListLinks())
    assert (link.state, link.pending) == ("draining", 1)
    await peer.result(peer.of("outbound")[0], {"success": True})
    assert await pending == {"success": True}
    await drained
    assert await peer.closed() == (1012, "going down")


async def test_rly_5_a_request_without_a_socket_is_not_connected(turnkeep):
    peer = await connector(turnkeep)
    await peer.close()
    await until(lambda: _no_links(turnkeep))
    assert await perform(turnkeep) == {"success": False, "error": "relay transport not connected"}


async def _no_links(harness):
    return not await harness.ask("/relays", ListLinks())


async def test_rly_9_a_socket_that_dies_fails_every_pending_request_at_once(turnkeep):
    peer = await connector(turnkeep, answer=lambda frame: None)
    asked = [perform(turnkeep) for _ in range(20)]
    await peer.frames("outbound", 20)
    peer.cut()
    lost = {"success": False, "error": "relay transport connection lost", "ambiguous": True}
    async with asyncio.timeout(5):
        assert [await one for one in asked] == [lost] * 20


async def test_rly_10_no_answer_in_time_is_ambiguous(boot):
    harness = await boot(**{"relay.outbound_s": 0.2})
    await connector(harness, answer=lambda frame: None)
    assert await perform(harness) == {
        "success": False,
        "error": "relay outbound timed out",
        "ambiguous": True,
    }


async def test_rly_10_an_ambiguous_result_leaves_the_delivery_unknown(boot, backend):
    harness = await boot(**{"relay.outbound_s": 0.2})
    peer = await connector(harness, answer=lambda frame: None)
    await peer.buffered("b1", event("hello", "m1"))
    await until(lambda: _are(harness, DeliveryState.UNKNOWN))
    # It blocks nothing behind it, and is not sent again.
    peer.answer = peer.say_yes
    await peer.buffered("b2", event("more", "m2"))
    await until(lambda: _are(harness, DeliveryState.DELIVERED, DeliveryState.UNKNOWN))
    assert peer.contents() == ["reply to: hello", "reply to: more"]


async def _are(harness, *states):
    return await delivery_states(harness) == list(states)


# While the store's answer is waited for, its commit may or may not have come.
@pytest.mark.parametrize(("failpoint", "kept"), [("relay.accept", {0, 1}), ("relay.before_ack", {1})])
async def test_rly_11_a_kill_around_the_commit_loses_nothing_and_turns_nothing_twice(
    tmp_path, failpoint, kept
):
    daemon = Daemon(tmp_path / "data")
    try:
        await daemon.start()
        secret = (await admin_call(daemon, "peers.add", name="bot", identities=["discord:b1"]))["secret"]
        daemon.port = daemon.port_in_use
        await daemon.stop()
        await daemon.start(env={"TURNKEEP_FAILPOINTS": f"{failpoint}=kill"})
        peer = await Connector(daemon.url, "bot", secret).dial()
        await peer.buffered("b1", event("hello", "m1"))
        assert await daemon.ended() == -9
        assert not peer.of("inbound_ack")
        assert _count(daemon, "SELECT count(*) FROM inbox") in kept
        await peer.close()
        await daemon.start()
        await peer.dial()
        await peer.acknowledged()
        await until(lambda: len(peer.contents()) == 1)
        await until(lambda: _delivered(daemon))
        assert await daemon.stop() == 0
        await peer.close()
        assert len(peer.contents()) == 1
        assert _count(daemon, "SELECT count(*) FROM inbox") == 1
        assert _count(daemon, "SELECT count(*) FROM turns") == 1
    finally:
        await daemon.close()


def _count(daemon, sql):
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "turnkeep.db")) as connection:
        return connection.execute(sql).fetchone()[0]


async def _delivered(daemon):
    deliveries = (await admin_call(daemon, "deliveries.list"))["deliveries"]
    return [row["state"] for row in deliveries] == [DeliveryState.DELIVERED]


async def test_rly_12_the_same_message_is_turned_once_across_restarts(boot):
    harness = await boot()
    peer = await connector(harness)
    await peer.buffered("b1", event("hello", "m1"))
    await peer.acknowledged()
    await harness.stop()
    harness = await boot()
    again = Connector(harness.url, "bot", "unused")
    again.bearer = peer.bearer
    await again.dial()
    await again.buffered("b1", event("hello", "m1"))
    await again.buffered("b2", event("hello", "m1"))
    await again.acknowledged()
    assert len(await harness.ask("/store", ListTurns())) == 1
    # A buffer id may be used again for another message, and an event without ids is a new one every time.
    await again.buffered("b1", event("other", None))
    await again.live(event("no ids", None))
    await again.live(event("no ids", None))
    await until(lambda: len(again.contents()) + len(peer.contents()) == 4)
    await again.close()


async def test_rly_13_reading_never_waits_for_a_turn(turnkeep):
    peer = await connector(turnkeep, answer=lambda frame: None)
    await peer.buffered("first", event("first", "m0"))
    [outbound] = await peer.frames("outbound")
    # The turn's reply is unanswered, and messages keep flowing.
    for number in range(100):
        await peer.buffered(f"b{number}", event(f"t{number}", f"m{number + 1}", chat_id=f"C{number % 9}"))
    await peer.acknowledged()
    peer.answer = peer.say_yes
    for frame in [outbound, *(one for one in peer.of("outbound") if one is not outbound)]:
        await peer.result(frame, {"success": True})
    await until(lambda: _all_delivered(turnkeep, 101))


async def _all_delivered(harness, count):
    rows = await harness.ask("/store", ListDeliveries(limit=1000))
    return len(rows) == count and {row.state for row in rows} == {DeliveryState.DELIVERED}


async def test_rly_13_messages_are_accepted_while_a_turn_waits_for_its_backend(turnkeep, backend):
    backend.script(Hold("go"), Text("late"), Finish())
    peer = await connector(turnkeep)
    await peer.buffered("b1", event("slow", "m1"))
    await backend.request(0)
    await peer.buffered("b2", event("same chat", "m2"))
    await peer.buffered("b3", event("other chat", "m3", chat_id="C2"))
    await peer.acknowledged()
    await until(lambda: peer.contents() == ["reply to: other chat"])
    backend.release("go")
    await until(lambda: peer.contents() == ["reply to: other chat", "late", "reply to: same chat"])


async def test_rly_14_a_message_that_cannot_be_handled_is_given_up_and_the_next_one_is_served(boot):
    harness = await boot(**{"relay.retry_base_s": 0.01})
    tries = []

    def fail():
        tries.append(1)
        if len(tries) <= 5:
            harness.system.failpoints.set("relay.accept", fail)
        raise ValueError("poison")

    peer = await connector(harness)
    harness.system.failpoints.set("relay.accept", fail)
    await peer.buffered("poison", event("x", None))
    await peer.buffered("good", event("y", "m2"))
    await peer.acknowledged()
    # Once, and five times again.
    assert len(tries) == 6
    assert [frame["bufferId"] for frame in peer.of("inbound_ack")] == ["poison", "good"]
    refused = [
        letter for letter in harness.system.dead_letters.last() if letter.message_type == "AcceptMessage"
    ]
    assert len(refused) == 1


async def test_rly_15_a_hundred_concurrent_requests_get_their_own_results(turnkeep):
    peer = await connector(turnkeep, answer=lambda frame: None)
    gate = await gateway(turnkeep)
    asked = [
        asyncio.create_task(gate.act({"op": "send", "chat_id": "C1", "content": str(number)}))
        for number in range(100)
    ]
    outbounds = await peer.frames("outbound", 100)
    for frame in sorted(outbounds, key=lambda one: one["requestId"][::-1]):
        await peer.result(frame, {"success": True, "message_id": frame["action"]["content"]})
    results = [await one for one in asked]
    assert [result["message_id"] for result in results] == [str(number) for number in range(100)]


async def test_rly_17_a_reply_waits_for_its_connector_and_goes_out_after_the_handshake(turnkeep, backend):
    backend.script(Hold("go"), Text("the answer"), Finish())
    peer = await connector(turnkeep)
    await peer.buffered("b1", event("hello", "m1", scope_id="G1", thread_id="T1"))
    await backend.request(0)
    await peer.close()
    backend.release("go")
    await until(lambda: _are(turnkeep, DeliveryState.PENDING))
    await peer.dial()
    await until(lambda: _are(turnkeep, DeliveryState.DELIVERED))
    [outbound] = peer.of("outbound")
    assert outbound["action"] == {
        "op": "send",
        "chat_id": "C1",
        "content": "the answer",
        "reply_to": "m1",
        "metadata": {"scope_id": "G1", "user_id": "U1", "thread_id": "T1"},
    }


async def test_rly_20_an_interrupt_reaches_a_session_that_waits_for_its_backend(turnkeep, backend):
    backend.script(Silence(), times=3)
    peer = await connector(turnkeep)
    took = []
    for number in range(3):
        key = f"agent:main:discord:group:C{number}:U1"
        await peer.buffered(f"b{number}", event("hello", f"m{number}", chat_id=f"C{number}"))
        exchange = await backend.request(number)
        started = time.monotonic()
        await peer.send({"type": "interrupt_inbound", "session_key": key, "chat_id": f"C{number}"})
        await exchange.connection_closed.wait()
        took.append(time.monotonic() - started)
    # A busy machine may delay one of them.
    assert min(took) < 0.1
    await until(lambda: _ended(turnkeep, TurnState.CANCELLED, 3))


async def _ended(harness, state, count):
    turns = await harness.ask("/store", ListTurns())
    return [turn.state for turn in turns] == [state] * count


async def test_rly_20_an_interrupt_leaves_siblings_alone(turnkeep, backend):
    backend.script(Hold("go"), Text("done"), Finish(), times=2)
    peer = await connector(turnkeep)
    for chat in ("C1", "C2"):
        await peer.buffered(chat, event("hello", f"m-{chat}", chat_id=chat))
    await backend.request(1)
    assert len(await harness_sessions(turnkeep)) == 2
    await peer.send(
        {"type": "interrupt_inbound", "session_key": "agent:main:discord:group:C1:U1", "chat_id": "C1"}
    )
    await until(lambda: _states(turnkeep, TurnState.CANCELLED, TurnState.RUNNING))
    backend.release("go")
    await until(lambda: _states(turnkeep, TurnState.CANCELLED, TurnState.COMMITTED))


async def _states(harness, *states):
    return sorted(turn.state for turn in await harness.ask("/store", ListTurns())) == sorted(states)


async def harness_sessions(harness):
    live = await harness.ask("/sessions", LiveSessions())
    rows = await harness.ask("/store", ListSessions())
    return [row for row in rows if row.session_id in live]


JUNK = (
    "not json",
    "[]",
    "null",
    "{}",
    '{"type": 5}',
    '{"type": "inbound"}',
    '{"type": "inbound", "event": {"source": {"platform": 1}}}',
    '{"type": "outbound_result", "requestId": "nobody", "result": {}}',
    '{"type": "outbound", "requestId": "q", "action": {"op": "send"}}',
    '{"type": "from_the_future", "x": [[[[]]]]}',
    "[" * 2000,
    '{"type": "inbound", "event": ' + "[" * 5000,
    "\x00\x00",
    '{"type": "going_idle_ack"}',
    '{"type": "hello", "platform": "discord", "botId": "b1"}',
    "x" * 20_000,
)


async def test_rly_21_ten_thousand_bad_frames_cost_no_valid_one(turnkeep):
    peer = await connector(turnkeep)
    for number in range(500):
        await peer.send_text("\n".join(JUNK[n % len(JUNK)] for n in range(number, number + 20)) + "\n")
        if number % 10 == 0:
            await peer.buffered(f"b{number}", event(f"t{number}", f"m{number}", chat_id=f"C{number}"))
    await peer.acknowledged()
    await until(lambda: len(peer.contents()) == 50)
    assert [frame["bufferId"] for frame in peer.of("inbound_ack")] == [f"b{n}" for n in range(0, 500, 10)]
