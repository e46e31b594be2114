"""Events: kept once, read from a number."""

from actors.messages.events import Event
from actors.messages.store import AppendEvents, LastEventSeq, ReadEvents, ReadEventsBefore


async def test_events_are_kept_once_and_read_from_a_number(store):
    events = tuple(Event(seq=n, kind="k", path="/", at=1.0, data={"n": n, "x": None}) for n in range(1, 6))
    assert await store.ask(LastEventSeq()) == 0
    await store.ask(AppendEvents(events=events, at=1.0))
    await store.ask(AppendEvents(events=events, at=1.0))
    assert await store.ask(LastEventSeq()) == 5
    assert await store.ask(ReadEvents(from_seq=4)) == events[3:]
    assert await store.ask(ReadEvents(from_seq=1, limit=2)) == events[:2]


async def test_events_are_counted_back_over_numbers_that_were_never_given(store):
    events = tuple(Event(seq=n, kind="k", path="/", at=1.0, data={}) for n in (1, 2, 3, 1_000_003, 1_000_004))
    await store.ask(AppendEvents(events=events, at=1.0))
    for count, expected in ((1, events[3:4]), (3, events[1:4]), (4, events[:4]), (100, events[:4])):
        assert await store.ask(ReadEventsBefore(seq=1_000_004, count=count)) == expected
    assert await store.ask(ReadEventsBefore(seq=1_000_004, count=3, limit=2)) == events[1:3]
    assert await store.ask(ReadEventsBefore(seq=1, count=5)) == ()
