"""Numbers, bounds and holes."""

from hypothesis import given
from hypothesis import strategies as st

from actors.events.ring import Ring, position, told, wanted
from actors.messages.events import Event, Gap, Publish


def publish(kind: str = "x") -> Publish:
    return Publish(kind=kind, path="/a", data={}, at=1.0)


def filled(bound: int, n: int, last_seq: int = 0) -> Ring:
    ring = Ring(bound, last_seq)
    for _ in range(n):
        ring.add(publish())
    return ring


def test_numbers_go_on_from_where_the_record_ends():
    ring = Ring(10, 41)
    assert ring.first_seq == 42 and ring.add(publish()).seq == 42 and ring.last_seq == 42


def test_the_oldest_gives_way():
    ring = filled(3, 5)
    assert [event.seq for event in ring.since(1)] == [3, 4, 5]
    assert ring.holds(3) and not ring.holds(2)


def test_what_the_store_has_is_not_offered_again():
    ring = filled(10, 5)
    ring.mark_stored(3)
    assert [event.seq for event in ring.unstored(10)] == [4, 5]
    ring.mark_stored(2)
    assert [event.seq for event in ring.unstored(10)] == [4, 5]


def test_what_gave_way_before_it_was_stored_is_counted_once():
    ring = filled(3, 5)
    assert ring.take_lost() == 2 and ring.take_lost() == 0
    assert [event.seq for event in ring.unstored(10)] == [3, 4, 5]


@given(
    bound=st.integers(1, 8),
    steps=st.lists(st.one_of(st.just("add"), st.integers(0, 40)), max_size=40),
)
def test_every_event_is_stored_or_counted_as_lost(bound, steps):
    ring = Ring(bound, 0)
    stored: list[int] = []
    for step in steps:
        if step == "add":
            ring.add(publish())
        elif batch := ring.unstored(int(step)):
            stored += [event.seq for event in batch]
            ring.mark_stored(batch[-1].seq)
        assert len(ring.since(0)) <= bound
    stored += [event.seq for event in ring.unstored(bound)]
    assert len(stored) == len(set(stored))
    assert len(stored) + ring.lost == ring.last_seq


def test_positions():
    assert position(None, 7) == 8
    assert position(3, 7) == 3
    assert position(0, 7) == 1
    assert position(-2, 7) == 6
    assert position(-100, 7) == 1


def test_kinds_are_prefixes():
    assert wanted("actor.crashed", ())
    assert wanted("actor.crashed", ("turn.", "actor."))
    assert not wanted("actor.crashed", ("turn.",))


def test_missing_numbers_are_told_even_among_kinds_that_are_not_wanted():
    events = [
        Event(seq=seq, kind=kind, path="/", at=1.0, data={}) for seq, kind in ((3, "a"), (4, "b"), (9, "b"))
    ]
    assert told(events, 1, ("a",)) == (Gap(next_seq=3), events[0], Gap(next_seq=9))
    assert told(events[:2], 3, ()) == tuple(events[:2])
