"""Traces of actors over the admin socket."""

import asyncio

from actors.messages.events import Publish
from actors.messages.rows import KeyScope
from tests.admin_wire import AdminWire
from tests.harness import until
from tests.transports.front.test_admin_socket import harness, new_key, wire

__all__ = ["harness", "wire"]


def publish(harness, n=1, **data):
    for _ in range(n):
        harness.at("/events").tell(Publish(kind="a", path="/t", data=data, at=1.0))


def traced(harness, path="/events"):
    """Say whether somebody looks at the actor."""
    return harness.at(path)._cell.tracing is not None


async def traces(wire):
    """Return the data of what is told, and why it ended."""
    told = []
    while (event := await wire.event())["event"] != "trace.ended":
        if event["event"] == "trace":
            told.append(event["data"])
    return told, event["data"]


async def test_a_trace_tells_type_sender_size_and_times_and_ends_by_its_count(harness, wire):
    asked = await wire.ask("actors.trace", path="/events", count=3)
    assert asked == {"path": "/events", "count": 3, "seconds": 60.0}
    publish(harness, 5, canary="canary " * 50)
    told, ended = await traces(wire)
    assert ended == {"path": "/events", "reason": "count", "told": 3}
    assert not traced(harness)
    assert [one["message_type"] for one in told] == ["Publish"] * 3
    assert set(told[0]) == {
        "path", "incarnation", "message_type", "sender", "size", "waited", "seconds", "outcome",
    }  # fmt: skip
    assert told[0]["size"] > 300 and told[0]["outcome"] == "ok" and "canary" not in str(told)


async def test_a_trace_ends_by_its_time(harness, wire):
    await wire.ask("actors.trace", path="/lanes/fake", seconds=0.05)
    told, ended = await traces(wire)
    assert told == [] and ended["reason"] == "time"
    assert not traced(harness, "/lanes/fake")


async def test_contents_are_for_an_admin_who_asks_and_leave_a_trace(harness, wire):
    operator = await new_key(harness, "op", KeyScope.OPERATE)
    async with AdminWire(harness.url, operator) as other:
        assert await other.ask("actors.trace", path="/events", contents=True) == "forbidden"
        assert (await other.ask("actors.trace", path="/events", count=1))["count"] == 1
    observer = await new_key(harness, "ob", KeyScope.OBSERVE)
    async with AdminWire(harness.url, observer) as other:
        assert await other.ask("actors.trace", path="/events") == "forbidden"
    await wire.ask("events.subscribe", kinds=["admin.actors.trace"])
    await wire.ask("actors.trace", path="/store", count=1, contents=True)
    assert (await wire.event("admin.actors.trace"))["data"]["result"] == "ok"
    (told,), _ = await traces(wire)
    assert told["message"]


async def test_contents_show_no_secret(harness, wire):
    await wire.ask("actors.trace", path="/store", contents=True, seconds=20)
    secret = (await wire.ask("peers.add", name="p", identities=["discord:b"]))["secret"]
    await wire.ask("actors.trace", path="/store", seconds=0.01)
    told, _ = await traces(wire)
    everything = str(told) + str(wire.events)
    assert "PutPeer" in everything and "(secret)" in everything
    assert secret not in everything


async def test_a_second_trace_takes_the_place_of_the_first(harness, wire):
    await wire.ask("actors.trace", path="/events")
    await wire.ask("actors.trace", path="/lanes/fake")
    await until(lambda: not traced(harness))
    assert traced(harness, "/lanes/fake")


async def test_a_trace_ends_with_its_connection(harness):
    async with AdminWire(harness.url, harness.admin_token) as wire:
        await wire.ask("actors.trace", path="/events")
        assert traced(harness)
        wire.socket.transport.abort()
    await until(lambda: not traced(harness))


async def test_nobody_there_is_not_traced(wire):
    assert await wire.ask("actors.trace", path="/nobody") == "not_found"
    for wrong in ({"count": 0}, {"count": 100_001}, {"seconds": 0}, {"seconds": 3601}):
        assert await wire.ask("actors.trace", path="/events", **wrong) == "invalid"


async def test_a_slow_reader_of_a_trace_is_dropped_with_a_notice_and_costs_nothing_more(boot):
    harness = await boot(**{"admin_socket.queue": 50, "admin_socket.close_s": 20.0})
    async with AdminWire(harness.url, harness.admin_token) as slow:
        await slow.ask("actors.trace", path="/events", count=100_000, contents=True)
        slow.socket.transport.pause_reading()

        async def left_alone():
            publish(harness, 200, filling="x" * 900)
            await harness.system.idle()
            return not traced(harness)

        await until(left_alone)
        slow.socket.transport.resume_reading()
        last = await slow.last()
        assert last["event"] == "dropped" and last["data"] == {"reason": "too_slow"}
        assert slow.socket.close_code == 1008


async def test_a_trace_of_what_answers_it_does_not_feed_itself(harness, wire):
    await wire.ask("actors.trace", path="/admin", count=100)
    await wire.ask("actors.list")
    told, ended = None, None
    await wire.ask("actors.trace", path="/admin", seconds=0.05)
    told, ended = await asyncio.wait_for(traces(wire), 10)
    assert ended["reason"] == "time" and len(told) <= 4
