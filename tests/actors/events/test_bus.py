"""Numbering, replay, slow subscribers, and the store that comes and goes."""

import pytest

from actors.events.bus import CLOSED, OPENED, SKIPPED_NUMBERS
from actors.exceptions import ActorStopped
from actors.messages.events import Event, Gap, Publish
from actors.messages.lifecycle import Resume, Suspend
from actors.messages.store import ReadEvents
from actors.runtime import Actor


class Deaf(Actor):
    """Takes nothing out of its mailbox while it is suspended."""

    async def on_receive(self, message):
        return None


async def stored(box, from_seq=1):
    return await box.store.ask(ReadEvents(from_seq=from_seq), box.within())


async def test_subscribers_hear_what_comes_with_its_number(box):
    port = box.system.port("/observer")
    assert await box.subscribe(port) == 1
    box.publish("a.one", n=1)
    box.publish("a.two", n=2)
    first = await port.receive(box.within())
    assert first == Event(seq=2, kind="a.one", path="/test", at=1.0, data={"n": 1})
    assert await box.hear(port, 1) == [3]


async def test_kinds_are_prefixes(box):
    port = box.system.port("/observer")
    await box.subscribe(port, None, "b.")
    for kind in ("a.x", "b.x", "bb", "b.y"):
        box.publish(kind)
    assert await box.hear(port, 2) == [3, 5]


async def test_a_second_subscription_takes_the_place_of_the_first(box):
    port = box.system.port("/observer")
    await box.subscribe(port, None, "a.")
    await box.subscribe(port, None, "b.")
    box.publish("a.x")
    box.publish("b.x")
    assert await box.hear(port, 1) == [3]


async def test_an_unsubscribed_one_hears_nothing_more(box):
    port, other = box.system.port("/observer"), box.system.port("/other")
    await box.subscribe(port)
    await box.subscribe(other)
    box.unsubscribe(port)
    box.publish("a")
    await box.hear(other, 1)
    assert not port._messages


async def test_a_replay_from_the_ring_then_what_comes(box):
    for _ in range(5):
        box.publish("a")
    port = box.system.port("/observer")
    assert await box.subscribe(port, 3) == 6
    box.publish("a")
    assert await box.hear(port, 5) == [3, 4, 5, 6, 7]


async def test_a_replay_of_what_only_the_store_has(box):
    for n in range(350):
        box.publish("a")
        if n % 50 == 49:
            await box.page(n)
            await box.settled(n + 1)
    port = box.system.port("/observer")
    await box.subscribe(port, 1)
    box.publish("a")
    assert await box.hear(port, 352) == list(range(1, 353))


async def test_events_published_during_a_replay_come_after_it(box):
    for n in range(200):
        box.publish("a")
        if n % 50 == 49:
            await box.page(n)
            await box.settled(n + 1)
    port = box.system.port("/observer")
    answer = box.subscribe(port, 1)
    box.publish("during")
    await answer
    for _ in range(20):
        box.publish("after")
    assert await box.hear(port, 222) == list(range(1, 223))


async def test_a_number_that_was_never_given_is_a_gap(box):
    box.publish("a")
    port = box.system.port("/observer")
    await box.subscribe(port, 90)
    box.publish("a")
    assert await box.hear(port, 2) == ["gap:3", 3]


async def test_numbering_goes_on_after_an_ordered_stop(box):
    for _ in range(25):
        box.publish("a")
    await box.page(1)
    await box.close()
    await box.open()
    events = await stored(box)
    assert [event.seq for event in events] == list(range(1, 29))
    assert [event.kind for event in events[-2:]] == [CLOSED, OPENED]
    assert events[-1].data == {"ordered": True}
    port = box.system.port("/observer")
    assert await box.subscribe(port, 20) == 28
    box.publish("a")
    assert await box.hear(port, 10) == list(range(20, 30))


@pytest.mark.parametrize("kept", [0, 3])
async def test_after_a_kill_no_number_is_given_twice_and_a_replay_says_gap(box, kept):
    for _ in range(kept):
        box.publish("a")
    await box.page(1)
    await box.settled(kept + 1)
    port = box.system.port("/before")
    await box.subscribe(port)
    box.publish("seen, but perhaps not stored")
    (seen,) = await box.hear(port, 1)
    await box.crash()
    await box.open()
    opened = (await stored(box))[-1]
    assert opened.kind == OPENED and opened.data == {"ordered": False} and opened.seq > seen
    port = box.system.port("/after")
    await box.subscribe(port, 1)
    box.publish("a")
    last = opened.seq - SKIPPED_NUMBERS - 1
    assert await box.hear(port, last + 3) == [
        *range(1, last + 1),
        f"gap:{opened.seq}",
        opened.seq,
        opened.seq + 1,
    ]


async def test_after_a_kill_events_are_counted_back_from_before_it(box):
    for _ in range(5):
        box.publish("a")
    await box.settled((await box.page(1)).last_seq)
    before = [event.seq for event in await stored(box)]
    await box.crash()
    await box.open()
    opened = (await stored(box))[-1].seq
    page = await box.page(-1)
    assert [entry.seq for entry in page.entries] == [opened]
    page = await box.page(-4, limit=2)
    assert [entry.seq for entry in page.entries] == before[-3:-1]
    page = await box.page(page.next_seq)
    kept, gap, newest = page.entries
    assert (kept.seq, gap, newest.seq) == (before[-1], Gap(next_seq=opened), opened)
    page = await box.page(-(10**12))
    assert [entry.seq for entry in page.entries if isinstance(entry, Event)][: len(before)] == before


async def test_a_slow_actor_is_dropped_and_the_others_are_told_so(box):
    slow = box.system.spawn("/slow", Deaf, bound=3)
    await slow.ask(Suspend(), box.within())
    port = box.system.port("/observer")
    await box.subscribe(slow)
    await box.subscribe(port)
    for _ in range(5):
        box.publish("a")
    assert await box.hear(port, 5) == [2, 3, 4, 5, 6]
    assert box.bus._cell.behaviour._live[0].subscriber is port
    await slow.ask(Resume(), box.within())
    await box.system.stop(slow, box.within())


async def test_a_subscriber_that_has_gone_is_forgotten(box):
    port = box.system.port("/observer")
    await box.subscribe(port)
    port.close()
    box.publish("a")
    assert await box.page(1)
    assert box.bus._cell.behaviour._live == []


async def test_pages_are_read_at_the_readers_own_pace(box):
    for n in range(150):
        box.publish("b" if n % 2 else "a")
        if n % 50 == 49:
            await box.page(n)
            await box.settled(n + 1)
    seen, next_seq = [], 1
    while True:
        page = await box.page(next_seq, "a", limit=20)
        seen += [entry.seq for entry in page.entries]
        next_seq = page.next_seq
        if next_seq > page.last_seq:
            break
    assert seen == list(range(2, 152, 2)) and next_seq == 152


async def test_a_negative_number_counts_back(box):
    for _ in range(5):
        box.publish("a")
    page = await box.page(-2)
    assert [entry.seq for entry in page.entries] == [5, 6]


async def test_while_the_store_is_away_memory_is_bounded_and_the_loss_is_told(box):
    await box.page(1)
    await box.system.stop(box.store, box.within())
    box.database.close()
    for _ in range(300):
        box.publish("a")
    port = box.system.port("/observer")
    await box.subscribe(port, 1)
    # The first two events are the bus's own beginning and the store's end.
    assert await box.hear(port, 2) == ["gap:203", 203]
    assert len(box.bus._cell.behaviour._ring.since(0)) == 100


async def test_what_waited_for_the_store_is_stored_when_it_is_back(box):
    points, failures = box.system.failpoints, []

    def fail():
        failures.append(1)
        if len(failures) < 3:
            points.set("store.before_commit", fail)
        raise OSError("no space")

    points.set("store.before_commit", fail)
    for _ in range(30):
        box.publish("a")
    await box.page(1)
    await box.settled(31)
    assert len(failures) == 3
    assert [event.seq for event in await stored(box)] == list(range(1, 32))


async def test_what_is_published_while_there_is_no_bus_waits_for_the_next_one(box):
    await box.system.stop(box.bus, box.within())
    box.system.publish("between", "/test", {})
    await box.start_bus()
    page = await box.page(3)
    assert [(entry.seq, entry.kind) for entry in page.entries] == [
        (3, OPENED),
        (4, "actor.stopped"),
        (5, "between"),
    ]


async def test_a_stopped_bus_refuses(box):
    await box.system.stop(box.bus, box.within())
    with pytest.raises(ActorStopped):
        box.bus.tell(Publish(kind="a", path="/", data={}, at=1.0))
    await box.start_bus()
