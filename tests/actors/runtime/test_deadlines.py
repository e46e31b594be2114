"""Shared timers of far deadlines."""

from actors.runtime.deadlines import FAR_SECONDS, GRAIN_SECONDS, Deadlines
from tests.clock import StillClock


class Waiter:
    def __init__(self, clock):
        self.clock = clock
        self.grain = None
        self.expired_at = []

    def wait(self, deadlines, seconds):
        self.grain = deadlines.grain(self.clock.monotonic() + seconds)
        if self.grain is not None:
            self.grain.add(self)
        return self

    def expire(self):
        self.expired_at.append(self.clock.monotonic())
        self.grain.discard(self)


def test_near_ones_are_left_to_timers_of_their_own():
    clock = StillClock()
    deadlines = Deadlines(clock)
    for seconds in (-1.0, 0.0, FAR_SECONDS - 0.01):
        assert deadlines.grain(clock.monotonic() + seconds) is None


def test_far_ones_are_met_within_a_grain_and_never_early():
    clock = StillClock()
    deadlines = Deadlines(clock)
    for seconds in (1.0, 1.7, 10.0):
        waiter, start = Waiter(clock).wait(deadlines, seconds), clock.monotonic()
        clock.advance(seconds - 1e-6)
        assert waiter.expired_at == []
        clock.advance(GRAIN_SECONDS + 1e-5)
        (at,) = waiter.expired_at
        assert seconds - 1e-6 <= at - start <= seconds + GRAIN_SECONDS + 1e-5


def test_one_that_left_never_expires_and_its_neighbours_do():
    clock = StillClock()
    deadlines = Deadlines(clock)
    gone, stays = (Waiter(clock).wait(deadlines, 5) for _ in range(2))
    assert gone.grain is stays.grain
    gone.grain.discard(gone)
    clock.advance(6)
    assert gone.expired_at == [] and len(stays.expired_at) == 1


def test_those_that_leave_as_they_expire_take_no_neighbour_along():
    clock = StillClock()
    deadlines = Deadlines(clock)
    waiters = [Waiter(clock).wait(deadlines, 5) for _ in range(3)]
    clock.advance(6)
    assert all(len(waiter.expired_at) == 1 for waiter in waiters)
