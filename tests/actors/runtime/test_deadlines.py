"""Shared timers of far deadlines."""

from actors.runtime.deadlines import GRAIN_SECONDS, Deadlines
from tests.clock import StillClock


class Waiter:
    def __init__(self, clock):
        self.clock = clock
        self.expired_at = []

    def expire(self):
        self.expired_at.append(self.clock.monotonic())


def test_near_ones_are_met_exactly_and_far_ones_within_a_grain():
    clock = StillClock()
    deadlines = Deadlines(clock)
    for seconds in (0.0, 0.3, 1.7, 10.0):
        waiter, start = Waiter(clock), clock.monotonic()
        deadlines.add(waiter, start + seconds)
        clock.advance(seconds - 1e-6 if seconds else 0)
        assert waiter.expired_at == [] or seconds == 0
        clock.advance(GRAIN_SECONDS + 1e-5)
        (at,) = waiter.expired_at
        assert seconds <= at - start + 1e-6 <= seconds + (GRAIN_SECONDS + 1e-5 if seconds >= 1 else 1e-5)


def test_a_cancelled_one_never_expires_and_its_neighbours_do():
    clock = StillClock()
    deadlines = Deadlines(clock)
    gone, stays = Waiter(clock), Waiter(clock)
    entries = [deadlines.add(waiter, clock.monotonic() + 5) for waiter in (gone, stays)]
    entries[0].cancel()
    clock.advance(6)
    assert gone.expired_at == [] and len(stays.expired_at) == 1


def test_those_that_cancel_as_they_expire_take_no_neighbour_along():
    clock = StillClock()
    deadlines = Deadlines(clock)
    expired = []

    class Cancelling:
        def expire(self):
            expired.append(self)
            self.entry.cancel()

    waiting = [Cancelling() for _ in range(3)]
    for one in waiting:
        one.entry = deadlines.add(one, clock.monotonic() + 5)
    clock.advance(6)
    assert len(expired) == 3
