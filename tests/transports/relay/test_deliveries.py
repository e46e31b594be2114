"""Deliveries of a peer while the store or the peer fails, on the real ones."""

from actors.exceptions import StoreUnavailable
from actors.messages.relay import DeliveryReady, PerformAction
from actors.messages.rows import DeliveryState, NewDelivery, PeerRole, Route
from actors.messages.store import ClaimDeliveries, ListDeliveries, PutDelivery
from tests.fakes.connector import Peer, descriptor
from tests.harness import until
from tests.transports.relay.conftest import SECRET, Bench


def delivery(number=1, content="x"):
    route = Route(platform="discord", chat_id="C1", message_id=f"m{number}")
    return NewDelivery(delivery_id=f"d{number}", peer="cn", route=route, content=content)


async def deliver(bench, *deliveries):
    for one in deliveries:
        await bench.ask(bench.store, PutDelivery(at=1.0, delivery=one))
    bench.relays.tell(DeliveryReady(peer="cn"))


async def settled(bench, *states):
    async def look():
        return await found(bench) == list(states)

    await until(look)


async def found(bench):
    try:
        return [row.state for row in await bench.ask(bench.store, ListDeliveries())]
    except StoreUnavailable:
        return None


def break_commits(bench, times):
    """Let the next commits fail as a full disk makes them."""
    left = times

    def fail():
        nonlocal left
        left -= 1
        if left:
            bench.system.failpoints.set("store.before_commit", fail)
        raise OSError(28, "No space left on device")

    bench.system.failpoints.set("store.before_commit", fail)


async def test_an_outcome_that_the_store_does_not_take_is_given_to_it_until_it_does(bench):
    peer = await bench.connector(answer=lambda frame: None)
    await deliver(bench, delivery(1), delivery(2))
    [outbound] = await peer.frames("outbound")
    peer.answer = peer.say_yes
    break_commits(bench, 3)
    await peer.result(outbound, {"success": True, "message_id": "s"})
    await settled(bench, DeliveryState.DELIVERED, DeliveryState.DELIVERED)
    assert len(peer.of("outbound")) == 2


async def test_a_claim_that_fails_is_made_again(bench):
    peer = await bench.connector()
    await bench.ask(bench.store, PutDelivery(at=1.0, delivery=delivery()))
    break_commits(bench, 2)
    bench.relays.tell(DeliveryReady(peer="cn"))
    await settled(bench, DeliveryState.DELIVERED)
    assert len(peer.of("outbound")) == 1


async def test_a_claim_whose_answer_nobody_got_is_given_back(bench):
    # As after a claim whose answer came too late: the store has it as being attempted, nobody holds it.
    peer = await bench.connector(dial=False)
    await deliver(bench, delivery())
    await bench.ask(bench.store, ClaimDeliveries(at=1.0, peer="cn"))
    await peer.dial()
    await settled(bench, DeliveryState.UNKNOWN)


async def test_a_delivery_goes_on_from_the_part_that_failed(bench):
    peer = await bench.connector("cn", "discord", max_message_length=10)
    answers = iter([True, False, True, True])
    peer.answer = lambda frame: {"success": next(answers)}
    await deliver(bench, delivery(1, "aaaaaaaa bbbbbbbb cccccccc"))
    await settled(bench, DeliveryState.DELIVERED)
    assert peer.contents() == ["aaaaaaaa", "bbbbbbbb", "bbbbbbbb", "cccccccc"]
    [row] = await bench.ask(bench.store, ListDeliveries())
    assert (row.attempts, row.parts_done) == (2, 3)


async def test_parts_done_are_stored_before_the_delivery_is_pending_again(bench):
    def answer(frame):
        success = next(answers)
        if not success:
            break_commits(bench, 2)
        return {"success": success}

    answers = iter([True, False, True])
    peer = await bench.connector("cn", "discord", answer=answer, max_message_length=10)
    await deliver(bench, delivery(1, "aaaaaaaa bbbbbbbb"))
    await settled(bench, DeliveryState.DELIVERED)
    assert peer.contents() == ["aaaaaaaa", "bbbbbbbb", "bbbbbbbb"]


async def test_a_blank_delivery_comes_to_an_end(bench):
    peer = await bench.connector()
    await deliver(bench, delivery(1, " "))
    await settled(bench, DeliveryState.DELIVERED)
    assert peer.contents() == [" "]


async def test_what_the_last_run_was_sending_is_unknown(tmp_path, settings):
    bench = Bench(settings)
    await bench.start(tmp_path)
    await bench.put_peer("cn", PeerRole.CONNECTOR)
    await deliver(bench, delivery())
    await bench.ask(bench.store, ClaimDeliveries(at=1.0, peer="cn"))
    await bench.stop()
    bench = Bench(settings)
    await bench.start(tmp_path)
    try:
        await settled(bench, DeliveryState.UNKNOWN)
        assert "delivery.unknown" in [event.kind for event in bench.events]
    finally:
        await bench.stop()


async def test_a_platform_that_the_connector_did_not_describe_waits_for_one_that_does(bench):
    identities = ("discord:b1", "telegram:b1")
    await bench.put_peer("cn", PeerRole.CONNECTOR, identities)
    peer = Peer(bench.url, "cn", f"{SECRET}-cn")
    bench.peers.append(peer)
    await peer.connect()
    await peer.send({"type": "descriptor", "descriptor": descriptor("telegram")})
    await peer.frames("hello")
    await deliver(bench, delivery())
    await settled(bench, DeliveryState.PENDING)
    await peer.send({"type": "descriptor", "descriptor": descriptor("discord")})
    [outbound] = await peer.frames("outbound")
    assert outbound["platform"] == "discord"


async def test_a_connector_that_does_not_own_the_scope_gets_nothing(bench):
    await bench.connector("cn", "telegram", scopes=("G1",))
    action = {"op": "send", "chat_id": "C1", "content": "x", "metadata": {"scope_id": "G2"}}
    request = PerformAction(gateway="gw", platform="telegram", bot_id="b1", action=action)
    assert (await bench.ask(bench.relays, request))["code"] == "egress_declined"


async def test_a_console_that_crashes_is_started_again(bench):
    bench.system.find("/relays/console")._cell.kill()
    request = PerformAction(
        gateway="gw", platform="discord", bot_id="b1", action={"op": "send", "chat_id": "C1", "content": "x"}
    )
    assert (await bench.ask(bench.relays, request))["success"] is True


async def test_the_consoles_name_is_its_own(bench):
    await bench.put_peer("console", PeerRole.CONNECTOR)
    peer = Peer(bench.url, "console", f"{SECRET}-console")
    bench.peers.append(peer)
    await peer.connect()
    await peer.send({"type": "descriptor", "descriptor": descriptor()})
    assert (await peer.closed())[0] == 4400


async def test_a_delivery_whose_link_is_lost_under_it_is_not_sent_again(bench):
    peer = await bench.connector(answer=lambda frame: None)
    await deliver(bench, delivery())
    await peer.frames("outbound")
    [link] = [info.path for info in bench.system.actors() if info.kind == "link"]
    bench.system.kill(link)
    await settled(bench, DeliveryState.UNKNOWN)
    await peer.closed()
    await peer.dial()
    await deliver(bench, delivery(2, "another"))
    await peer.frames("outbound", 2)
    assert peer.contents()[1:] == ["another"]
