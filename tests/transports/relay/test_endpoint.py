"""The endpoint with a real websockets client: who gets in, what is acknowledged, what is answered, how it closes."""

import asyncio
import json
import threading
import time

import pytest
import websockets
from structlog.testing import capture_logs

from actors.exceptions import StoreUnavailable
from actors.messages.link import SendAction
from actors.messages.relay import DeliveryReady, DrainRelays, ListLinks, PeerRevoked
from actors.messages.rows import DeliveryState, NewDelivery, PeerRole, Route
from actors.messages.secret import Secret
from actors.messages.session import InboxReady, StopTurn
from actors.messages.store import (
    FindBindings,
    ListDeliveries,
    ListSessions,
    PutDelivery,
    RevokePeer,
    RotatePeer,
    SessionsWithMail,
)
from actors.relay.settings import RelaySettings
from tests.fakes.connector import Connector, Peer, descriptor, event
from tests.harness import until
from tests.transports.relay.conftest import SECRET

SEND = {"op": "send", "chat_id": "C1", "content": "x", "reply_to": None, "metadata": {}}


# Who gets in


async def refused(bench, bearer):
    headers = {"Authorization": bearer} if bearer else {}
    socket = await websockets.connect(bench.url.replace("http", "ws") + "/relay", additional_headers=headers)
    await socket.wait_closed()
    return socket.close_code, socket.close_reason


@pytest.mark.parametrize(
    "bearer", [None, "Bearer ", "Bearer nonsense", "Basic abc", "Bearer Y246MDphYmM", "Bearer é"]
)
async def test_a_missing_or_bad_credential_is_closed_with_4401(bench, bearer):
    await bench.put_peer("cn", PeerRole.CONNECTOR)
    assert await refused(bench, bearer) == (4401, "unauthorized")


async def test_an_expired_token_says_so(bench):
    await bench.put_peer("cn", PeerRole.CONNECTOR)
    peer = Peer(bench.url, "cn", f"{SECRET}-cn", expires=int(time.time()) - 10)
    assert await refused(bench, f"Bearer {peer.bearer}") == (4401, "expired")


async def test_a_token_under_a_foreign_secret_is_bad_even_if_expired(bench):
    await bench.put_peer("cn", PeerRole.CONNECTOR)
    peer = Peer(bench.url, "cn", "another", expires=int(time.time()) - 10)
    assert await refused(bench, f"Bearer {peer.bearer}") == (4401, "unauthorized")


async def test_a_name_with_colons_and_a_plain_secret_get_in(bench):
    peer = await bench.connector("a:b:c")
    assert peer.of("hello")
    await bench.put_peer("plain", PeerRole.CONNECTOR, ("telegram:b1",))
    plain = Connector(bench.url, "plain", "x", "telegram")
    plain.bearer = f"{SECRET}-plain"
    bench.peers.append(plain)
    assert (await plain.dial()).of("hello") == [{"type": "hello", "platform": "telegram", "botId": "b1"}]


async def test_both_secrets_of_a_rotation_get_in(bench):
    old = await bench.connector("cn")
    await bench.ask(bench.store, RotatePeer(at=1.0, name="cn", secret=Secret("newer")))
    await old.close()
    await old.dial()
    newer = Connector(bench.url, "cn", "newer", "discord")
    bench.peers.append(newer)
    await newer.dial()


async def test_a_revoked_peer_is_closed_and_stays_out(bench):
    peer = await bench.connector("cn")
    await bench.ask(bench.store, RevokePeer(at=1.0, name="cn"))
    bench.relays.tell(PeerRevoked(peer="cn"))
    assert await peer.closed() == (4401, "revoked")
    assert await refused(bench, f"Bearer {peer.bearer}") == (4401, "revoked")


async def test_a_peer_revoked_between_its_upgrade_and_its_first_frame_stays_out(bench):
    peer = await bench.connector("cn", dial=False)
    await peer.connect()
    await bench.ask(bench.store, RevokePeer(at=1.0, name="cn"))
    await peer.send({"type": "descriptor", "descriptor": descriptor()})
    assert await peer.closed() == (4401, "revoked")


@pytest.mark.parametrize(
    ("role", "frame", "reason"),
    [
        (
            PeerRole.CONNECTOR,
            {"type": "hello", "platform": "discord", "botId": "b1"},
            "the peer is a connector",
        ),
        (PeerRole.GATEWAY, {"type": "descriptor", "descriptor": descriptor()}, "the peer is a gateway"),
        (
            PeerRole.GATEWAY,
            {"type": "hello", "platform": "discord", "botId": "foreign"},
            "identity not owned",
        ),
        (PeerRole.CONNECTOR, {"type": "descriptor", "descriptor": descriptor("slack")}, "platform not owned"),
        (PeerRole.CONNECTOR, {"type": "descriptor", "descriptor": {"platform": "discord"}}, "missing field"),
    ],
    ids=repr,
)
async def test_a_role_or_identity_that_is_not_the_records_is_closed_with_4400(bench, role, frame, reason):
    await bench.put_peer("p", role)
    peer = Peer(bench.url, "p", f"{SECRET}-p")
    bench.peers.append(peer)
    await peer.connect()
    await peer.send(frame)
    code, text = await peer.closed()
    assert code == 4400 and reason in text


class TestFirstFrame:
    @pytest.fixture
    def settings(self):
        return RelaySettings(first_frame_s=0.1)

    async def test_a_socket_that_says_nothing_is_closed(self, bench):
        peer = await bench.connector(dial=False)
        await peer.connect()
        await peer.send({"type": "inbound", "event": event()})
        assert await peer.closed() == (4400, "no hello or descriptor in time")
        assert bench.endpoint.counts["before_introduction"] == 1

    async def test_one_that_has_introduced_itself_stays(self, bench):
        peer = await bench.connector()
        silent = Peer(bench.url, "cn", f"{SECRET}-cn")
        await silent.connect()
        # By the time that one which came later and said nothing is closed, the limit has passed for both.
        assert (await silent.closed())[0] == 4400
        await peer.buffered("b1", event())
        await peer.acknowledged()


async def test_what_follows_the_first_frame_in_the_same_message_is_served(bench):
    peer = await bench.connector(dial=False)
    await peer.connect()
    await peer.send(
        {"type": "inbound", "event": event("too early"), "bufferId": "b0"},
        {"type": "descriptor", "descriptor": descriptor()},
        {"type": "inbound", "event": event(), "bufferId": "b1"},
    )
    assert await peer.frames("inbound_ack") == [{"type": "inbound_ack", "bufferId": "b1"}]
    assert [frame["type"] for frame in peer.heard] == ["hello", "inbound_ack"]


async def test_each_descriptor_is_answered_with_one_hello(bench):
    peer = await bench.connector("cn", "discord", "telegram")
    assert [frame["platform"] for frame in peer.of("hello")] == ["discord", "telegram"]


# Frames


async def test_a_frame_in_pieces_binary_or_among_junk_is_served(bench):
    peer = await bench.connector()
    line = json.dumps({"type": "inbound", "event": event(), "bufferId": "b1"}) + "\n"
    await peer.send_text("not json\n\n[]\n" + json.dumps({"type": "from_the_future"}) + "\n" + line[:20])
    await peer.send_text(line[20:].encode())
    await peer.frames("inbound_ack")
    assert bench.endpoint.counts["rejected"] == 2 and bench.endpoint.counts["unknown"] == 1


async def test_rly_21_a_flood_of_lines_lets_others_have_their_turn_and_does_not_fill_the_log(bench):
    peer = await bench.connector()
    passes = 0

    def count() -> None:
        nonlocal passes
        passes += bench.endpoint.counts["rejected"] < 6400
        bench.system.loop.call_soon(count)

    with capture_logs() as logs:
        await peer.send_text("x\n" * 6400)
        await until(lambda: bench.endpoint.counts["rejected"] > 0)
        count()
        await until(lambda: bench.endpoint.counts["rejected"] == 6400)
    assert passes > 50
    skipped = [entry["so_far"] for entry in logs if entry["event"] == "relay.frame_skipped"]
    assert skipped == [1 << n for n in range(13)]


async def test_rly_21_a_flood_of_interrupts_piles_up_nowhere(bench, monkeypatch):
    peer = await bench.connector()
    gate = threading.Event()
    functions = bench.store._cell.behaviour._functions
    find = functions[FindBindings]
    asked = []

    def held(connection, request):
        asked.append(request.session_key)
        gate.wait(10)
        return find(connection, request)

    monkeypatch.setitem(functions, FindBindings, held)
    interrupts = [{"type": "interrupt_inbound", "session_key": f"k{n % 500}"} for n in range(5000)]
    await peer.send(*interrupts, {"type": "no_such_frame"})
    try:
        # All of it is read while nothing comes of any.
        await until(lambda: bench.endpoint.counts["unknown"] == 1)
    finally:
        gate.set()
    await until(lambda: any(one.kind == "relay.interrupt_ignored" for one in bench.events))
    await bench.ask(bench.store, SessionsWithMail())
    assert sorted(asked) == sorted(f"k{n}" for n in range(64))


async def test_a_line_beyond_a_mebibyte_is_closed_with_1009(bench):
    peer = await bench.connector()
    await peer.send_text("x" * (1 << 20))
    await peer.send_text("x")
    assert (await peer.closed())[0] == 1009


async def test_frames_of_the_other_role_and_unsupported_ones_are_counted_and_ignored(bench):
    peer = await bench.connector()
    forward = {
        "platform": "discord",
        "botId": "b1",
        "method": "POST",
        "path": "/",
        "headers": [],
        "bodyB64": "",
    }
    await peer.send(
        {"type": "hello", "platform": "discord", "botId": "b1"},
        {"type": "outbound", "requestId": "q", "action": SEND},
        {"type": "passthrough_forward", "forward": forward, "bufferId": "pb"},
        {"type": "inbound", "event": event(), "bufferId": "b1"},
    )
    assert await peer.frames("inbound_ack") == [{"type": "inbound_ack", "bufferId": "b1"}]
    assert bench.endpoint.counts["out_of_role"] == 2 and bench.endpoint.counts["unsupported"] == 1


# Messages


async def test_a_message_is_kept_acknowledged_and_its_session_woken(bench):
    peer = await bench.connector()
    await peer.buffered("b1", event("hello", scope_id="G1"))
    await peer.acknowledged()
    [session] = await bench.ask(bench.store, ListSessions())
    assert (session.peer, session.scope, session.session_key) == (
        "cn",
        "G1",
        "agent:main:discord:group:C1:U1",
    )
    await until(lambda: bench.woken)
    assert bench.woken == [InboxReady(session_id=session.session_id)]


async def test_a_live_message_is_kept_without_acknowledgement(bench):
    peer = await bench.connector()
    await peer.live(event())
    await until(lambda: bench.woken)
    assert peer.of("inbound_ack") == []


async def test_acknowledgements_come_in_the_order_of_the_messages(bench):
    peer = await bench.connector()
    for number in range(200):
        await peer.buffered(f"b{number}", event(f"t{number}", f"m{number}", chat_id=f"C{number % 7}"))
    await peer.acknowledged()
    assert [frame["bufferId"] for frame in peer.of("inbound_ack")] == [f"b{number}" for number in range(200)]


async def test_a_duplicate_is_acknowledged_and_kept_once(bench):
    peer = await bench.connector()
    await peer.buffered("b1", event())
    await peer.buffered("b2", event())
    await peer.buffered("b3", event("another", "m2"))
    await peer.acknowledged()
    assert bench.endpoint.counts["duplicate"] == 1 and bench.endpoint.counts["accepted"] == 2


@pytest.mark.parametrize("source", [{"platform": "telegram"}, {"scope_id": "foreign"}], ids=repr)
async def test_a_message_from_where_the_peer_does_not_own_is_refused_visibly(bench, source):
    peer = await bench.connector(scopes=("G1",))
    await peer.buffered("b1", event(scope_id="G1", **source) if "scope_id" not in source else event(**source))
    await peer.acknowledged()
    assert bench.endpoint.counts["not_owned"] == 1
    assert await bench.ask(bench.store, SessionsWithMail()) == ()
    await until(lambda: any(one.kind == "relay.inbound_refused" for one in bench.events))


async def test_a_store_that_is_away_pauses_the_peer_and_loses_nothing(bench):
    away = {"left": 12}

    def fail():
        away["left"] -= 1
        if away["left"]:
            bench.system.failpoints.set("relay.accept", fail)
        raise StoreUnavailable("disk full")

    bench.system.failpoints.set("relay.accept", fail)
    peer = await bench.connector()
    for number in range(5):
        await peer.buffered(f"b{number}", event(f"t{number}", f"m{number}"))
    await peer.live(event("live", "m9"))
    await peer.acknowledged()
    counts = bench.endpoint.counts
    # The store had taken what the failpoint hid: the next try finds it there.
    await until(lambda: counts["accepted"] + counts["duplicate"] == 6)
    [session] = await bench.ask(bench.store, ListSessions())
    assert session.queued == 6
    assert [frame["bufferId"] for frame in peer.of("inbound_ack")] == [f"b{number}" for number in range(5)]


class TestLiveMessageWhileTheStoreIsAway:
    @pytest.fixture
    def settings(self):
        return RelaySettings(retry_base_s=0.01, retry_cap_s=0.02, live_retry_s=0.1)

    async def test_its_loss_is_an_event(self, bench):
        def fail():
            bench.system.failpoints.set("relay.accept", fail)
            raise StoreUnavailable("disk full")

        bench.system.failpoints.set("relay.accept", fail)
        peer = await bench.connector()
        await peer.live(event())
        await until(lambda: any(one.kind == "relay.inbound_lost" for one in bench.events))
        assert bench.endpoint.counts["lost"] == 1
        bench.system.failpoints.clear("relay.accept")


async def test_a_message_whose_handling_fails_again_and_again_is_given_up_visibly(bench):
    tries = []

    def fail():
        tries.append(1)
        if len(tries) < 6:
            bench.system.failpoints.set("relay.accept", fail)
        raise ValueError("poison")

    bench.system.failpoints.set("relay.accept", fail)
    peer = await bench.connector()
    await peer.buffered("poison", event("x", "m1"))
    await peer.buffered("good", event("y", "m2"))
    await peer.acknowledged()
    assert len(tries) == 6 and bench.endpoint.counts["dead"] == 1 and bench.endpoint.counts["accepted"] == 1
    await until(lambda: any(one.kind == "relay.inbound_dead" for one in bench.events))


async def test_an_interrupt_stops_exactly_the_session_that_it_names(bench):
    peer = await bench.connector()
    await peer.buffered("b1", event())
    await peer.buffered("b2", event("x", "m2", chat_id="C2"))
    await peer.acknowledged()
    await peer.send(
        {"type": "interrupt_inbound", "session_key": "agent:main:discord:group:C2:U1", "chat_id": "C2"}
    )
    await until(lambda: any(isinstance(one, StopTurn) for one in bench.woken))
    sessions = {row.session_key: row.session_id for row in await bench.ask(bench.store, ListSessions())}
    [stop] = [one for one in bench.woken if isinstance(one, StopTurn)]
    assert stop.session_id == sessions["agent:main:discord:group:C2:U1"]


# Deliveries


def delivery(number, content="x", chat="C1", **route):
    where = Route(platform="discord", chat_id=chat, message_id=f"m{number}", **route)
    return NewDelivery(delivery_id=f"d{number}", peer="cn", route=where, content=content)


async def deliver(bench, *deliveries):
    for one in deliveries:
        await bench.ask(bench.store, PutDelivery(at=1.0, delivery=one))
    bench.relays.tell(DeliveryReady(peer="cn"))


async def states(bench):
    rows = await bench.ask(bench.store, ListDeliveries())
    return {row.delivery_id: row.state for row in rows}


async def settled(bench, **expected):
    async def look():
        return await states(bench) == expected

    await until(look)


async def test_a_delivery_goes_out_with_its_routing_origin_and_is_settled(bench):
    peer = await bench.connector()
    await deliver(bench, delivery(1, "answer", scope_id="G1", user_id="U1", thread_id="T1"))
    [outbound] = await peer.frames("outbound")
    assert (outbound["platform"], outbound["botId"]) == ("discord", "b1")
    assert outbound["action"] == {
        "op": "send", "chat_id": "C1", "content": "answer", "reply_to": "m1",
        "metadata": {"scope_id": "G1", "user_id": "U1", "thread_id": "T1"},
    }  # fmt: skip
    await settled(bench, d1=DeliveryState.DELIVERED)
    [row] = await bench.ask(bench.store, ListDeliveries())
    assert row.message_id == "s1"


async def test_deliveries_wait_for_the_link_and_keep_the_order_of_their_chat(bench):
    peer = await bench.connector(dial=False)
    await deliver(bench, *(delivery(number, f"t{number}") for number in range(5)))
    await peer.dial()
    await settled(bench, **{f"d{number}": DeliveryState.DELIVERED for number in range(5)})
    assert peer.contents() == [f"t{number}" for number in range(5)]


async def test_a_long_delivery_goes_in_parts_of_which_the_first_replies(bench):
    peer = await bench.connector("cn", "discord", max_message_length=10)
    await deliver(bench, delivery(1, "one two three four five"))
    await settled(bench, d1=DeliveryState.DELIVERED)
    parts = [frame["action"] for frame in peer.of("outbound")]
    assert len(parts) > 2 and all(len(part["content"]) <= 10 for part in parts)
    assert [part["reply_to"] for part in parts] == ["m1"] + [None] * (len(parts) - 1)


async def test_a_definite_failure_is_sent_again_before_what_is_behind_it(bench):
    peer = await bench.connector()
    fails = iter([True, True, False])
    peer.answer = lambda frame: (
        {"success": False, "error": "no"} if next(fails, False) else peer.say_yes(frame)
    )
    await deliver(bench, delivery(1, "first"), delivery(2, "second"))
    await settled(bench, d1=DeliveryState.DELIVERED, d2=DeliveryState.DELIVERED)
    assert peer.contents() == ["first", "first", "first", "second"]


async def test_a_declined_egress_is_dead_and_blocks_nothing(bench):
    peer = await bench.connector()
    peer.answer = lambda frame: (
        {"success": False, "code": "egress_declined"}
        if frame["action"]["content"] == "first"
        else peer.say_yes(frame)
    )
    await deliver(bench, delivery(1, "first"), delivery(2, "second"))
    await settled(bench, d1=DeliveryState.DEAD, d2=DeliveryState.DELIVERED)


async def test_a_socket_that_dies_after_the_frame_leaves_the_delivery_unknown(bench):
    peer = await bench.connector(answer=lambda frame: None)
    await deliver(bench, delivery(1, "first"), delivery(2, "second"))
    await peer.frames("outbound")
    peer.cut()
    peer.answer = peer.say_yes
    await peer.dial()
    await settled(bench, d1=DeliveryState.UNKNOWN, d2=DeliveryState.DELIVERED)
    assert peer.contents() == ["first", "second"]


class TestOutboundTimeout:
    @pytest.fixture
    def settings(self):
        return RelaySettings(outbound_s=0.1)

    async def test_no_answer_in_time_leaves_the_delivery_unknown(self, bench):
        await bench.connector(answer=lambda frame: None)
        await deliver(bench, delivery(1))
        await settled(bench, d1=DeliveryState.UNKNOWN)
        await until(lambda: any(one.kind == "delivery.unknown" for one in bench.events))


async def test_a_hundred_requests_are_each_answered_with_their_own_result_in_any_order(bench):
    outbounds = []
    peer = await bench.connector(answer=outbounds.append)
    [link] = _links(bench)
    asked = [
        link.ask(SendAction(action={**SEND, "content": str(number)}, platform="discord"), bench.budget())
        for number in range(100)
    ]
    await peer.until(lambda: len(outbounds) == 100)
    for frame in sorted(outbounds, key=lambda one: hash(one["requestId"])):
        await peer.result(frame, {"success": True, "message_id": frame["action"]["content"]})
    results = [await one for one in asked]
    assert [result["message_id"] for result in results] == [str(number) for number in range(100)]


def _links(bench):
    paths = [info.path for info in bench.system.actors() if info.kind == "link"]
    return [bench.system.find(path) for path in paths]


# Gateways and the console


async def test_a_hello_is_answered_with_one_descriptor_each_and_the_first_is_first(bench):
    peer = await bench.gateway("gw", ("telegram", "b2"), ("discord", "b1"))
    assert [frame["descriptor"]["platform"] for frame in peer.of("descriptor")] == ["telegram", "discord"]
    console = peer.of("descriptor")[1]["descriptor"]
    assert console["max_message_length"] == 4096 and console["supports_edit"] is True
    assert console["supported_ops"] == ["send", "edit", "typing", "follow_up", "get_chat_info"]


async def test_the_console_keeps_what_a_gateway_sends_and_edits(bench):
    peer = await bench.gateway()
    sent = await peer.act(SEND)
    assert sent["success"] is True
    assert await peer.act(
        {"op": "edit", "chat_id": "C1", "message_id": sent["message_id"], "content": "y"}
    ) == {"success": True}
    unknown = {"op": "edit", "chat_id": "C1", "message_id": "99999999999999999999", "content": "y"}
    assert (await peer.act(unknown))["success"] is False
    [session] = await bench.ask(bench.store, ListSessions())
    assert (session.peer, session.session_key) == ("console", "agent:main:discord:dm:C1")


@pytest.mark.parametrize(
    ("action", "result"),
    [
        ({"op": "typing", "chat_id": "C1"}, {"success": True}),
        (
            {"op": "get_chat_info", "chat_id": "C1"},
            {"success": True, "chat_info": {"name": "C1", "type": "dm"}},
        ),
        ({"op": "no_such_op"}, {"success": False, "error": "unsupported op"}),
        (
            {"op": "follow_up", "session_key": "agent:main:slack:dm:C1", "content": "x"},
            {"success": False, "error": "session_key: not of this platform"},
        ),
    ],
    ids=repr,
)
async def test_the_console_answers_each_op(bench, action, result):
    peer = await bench.gateway()
    assert await peer.act(action) == result


async def test_a_follow_up_goes_where_the_sessions_chat_is(bench):
    peer = await bench.gateway()
    await peer.act(SEND)
    follow_up = {"op": "follow_up", "session_key": "agent:main:discord:dm:C1", "kind": "k", "content": "more"}
    assert (await peer.act(follow_up))["success"] is True
    assert len(await bench.ask(bench.store, ListSessions())) == 1


async def test_an_action_that_is_no_send_at_all_names_the_field(bench):
    peer = await bench.gateway()
    result = await peer.act({"op": "send", "chat_id": "C1", "content": 5})
    assert result["success"] is False and "content" in result["error"]


async def test_an_identity_or_scope_that_is_not_the_gateways_is_declined(bench):
    peer = await bench.gateway(scopes=("G1",))
    declined = {"success": False, "code": "egress_declined", "error": "egress declined"}
    assert await peer.act(SEND, platform="telegram", botId="b2") == declined
    assert await peer.act({**SEND, "metadata": {"scope_id": "G2"}}) == declined
    assert (await peer.act({**SEND, "metadata": {"scope_id": "G1"}}))["success"] is True


async def test_a_gateways_action_reaches_the_connector_of_its_identity(bench):
    connector = await bench.connector("cn", "telegram")
    gateway = await bench.gateway("gw", ("telegram", "b1"))
    assert await gateway.act({**SEND, "metadata": {"extra": [1]}}) == {"success": True, "message_id": "s1"}
    [outbound] = connector.of("outbound")
    assert outbound["action"] == {**SEND, "metadata": {"extra": [1]}}
    assert await gateway.act({"op": "react", "chat_id": "C1"}) == {
        "success": False,
        "error": "unsupported op",
    }


async def test_a_send_whose_connector_is_away_is_kept_and_other_ops_are_not(bench):
    connector = await bench.connector("cn", "telegram", dial=False)
    gateway = await bench.gateway("gw", ("telegram", "b1"))
    assert await gateway.act(SEND) == {"success": True}
    assert await gateway.act({"op": "edit", "chat_id": "C1", "message_id": "1", "content": "y"}) == {
        "success": False, "error": "relay transport not connected",
    }  # fmt: skip
    await connector.dial()
    [outbound] = await connector.frames("outbound")
    assert outbound["action"]["content"] == "x"


async def test_a_send_to_a_platform_that_the_connector_has_not_described_yet_is_kept(bench):
    await bench.put_peer("cn", PeerRole.CONNECTOR, ("discord:b1", "telegram:b1"))
    connector = Connector(bench.url, "cn", f"{SECRET}-cn", "discord")
    bench.peers.append(await connector.dial())
    gateway = await bench.gateway("gw", ("telegram", "b1"))
    assert await gateway.act(SEND) == {"success": True}
    await connector.send({"type": "descriptor", "descriptor": descriptor("telegram")})
    assert (await connector.frames("outbound"))[0]["platform"] == "telegram"


async def test_a_platform_that_nobody_fronts_is_said_so(bench):
    gateway = await bench.gateway("gw", ("slack", "b1"))
    assert await gateway.act(SEND) == {"success": False, "error": "no connector for platform"}


async def test_going_idle_is_acknowledged(bench):
    peer = await bench.gateway()
    await peer.send({"type": "going_idle"})
    await peer.frames("going_idle_ack")
    assert (await peer.act(SEND))["success"] is True


# How it ends


async def test_a_newer_link_of_the_peer_closes_the_older_one(bench):
    older = await bench.connector("cn")
    newer = Connector(bench.url, "cn", f"{SECRET}-cn", "discord")
    bench.peers.append(newer)
    await newer.dial()
    assert (await older.closed())[0] == 4409
    await deliver(bench, delivery(1))
    await newer.frames("outbound")
    [info] = await bench.ask(bench.relays, ListLinks())
    assert (info.peer, info.role, info.link_gen, info.state, info.platforms) == (
        "cn", "connector", 2, "live", ("discord",),
    )  # fmt: skip


async def test_the_drain_closes_every_link_and_lets_no_other_in(bench):
    connector, gateway = await bench.connector("cn", "telegram"), await bench.gateway()
    await bench.ask(bench.relays, DrainRelays())
    assert await connector.closed() == (1012, "going down")
    assert await gateway.closed() == (1012, "going down")
    await gateway.connect()
    await gateway.send({"type": "hello", "platform": "discord", "botId": "bot-1"})
    assert await gateway.closed() == (1012, "going down")
    assert await bench.ask(bench.relays, ListLinks()) == ()


async def test_the_drain_lets_the_pending_be_answered(bench):
    peer = await bench.connector(answer=lambda frame: None)
    await deliver(bench, delivery(1))
    [outbound] = await peer.frames("outbound")
    drained = bench.relays.ask(DrainRelays(), bench.budget())
    await until(lambda: any(link for link in _links(bench)))
    await peer.result(outbound, {"success": True})
    await drained
    assert (await peer.closed())[0] == 1012
    await settled(bench, d1=DeliveryState.DELIVERED)


async def test_a_link_that_crashes_closes_its_socket_and_the_peer_comes_back(bench):
    peer = await bench.connector()
    [link] = _links(bench)
    link._cell.kill()
    assert (await peer.closed())[0] == 1011
    await peer.dial()
    await peer.buffered("b1", event())
    await peer.acknowledged()


async def test_a_peer_whose_actor_crashes_loses_its_sockets_and_comes_back(bench):
    peer = await bench.connector(answer=lambda frame: None)
    await deliver(bench, delivery(1), delivery(2))
    await peer.frames("outbound")
    bench.system.find("/relays/cn")._cell.kill()
    assert (await peer.closed())[0] in (1011, 1012)
    peer.answer = peer.say_yes
    await peer.dial()
    await settled(bench, d1=DeliveryState.UNKNOWN, d2=DeliveryState.DELIVERED)


class TestPeerThatReadsNothing:
    @pytest.fixture
    def settings(self):
        return RelaySettings(stall_s=0.3)

    async def test_it_is_closed_and_others_do_not_notice(self, bench):
        stalled = await bench.gateway("gw")
        other = await bench.gateway("gw2")
        assert stalled.socket is not None
        stalled.socket.transport.pause_reading()
        stalled.socket.transport.resume_reading = lambda: None
        big = {"op": "get_chat_info", "chat_id": "C" * 200_000}

        async def flood():
            for number in range(10_000):
                await stalled.send({"type": "outbound", "requestId": f"r{number}", "action": big})

        flooding = asyncio.create_task(flood())
        await until(lambda: bench.endpoint.counts["stalled"] == 1)
        assert (await other.act(SEND))["success"] is True
        flooding.cancel()
        stalled.cut()
