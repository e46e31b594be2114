"""Events: kept once, read from a number."""

from actors.messages.events import Event
from actors.messages.store import AppendEvents, LastEventSeq, ReadEvents


async def test_events_are_kept_once_and_read_from_a_number(store):
    events = tuple(Event(seq=n, kind="k", path="/", at=1.0, data={"n": n, "x": None}) for n in range(1, 6))
    assert await store.ask(LastEventSeq()) == 0
    await store.ask(AppendEvents(events=events, at=1.0))
    await store.ask(AppendEvents(events=events, at=1.0))
    assert await store.ask(LastEventSeq()) == 5
    assert await store.ask(ReadEvents(from_seq=4)) == events[3:]
    assert await store.ask(ReadEvents(from_seq=1, limit=2)) == events[:2]
