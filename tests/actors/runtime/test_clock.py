"""Seconds that a wall clock which is set does not shorten (REL-7)."""

from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.clock import SteadyWall
from tests.clock import StillClock

HOUR, DAY = 3600.0, 86400.0


def test_while_nobody_sets_the_clock_they_are_those_of_the_wall():
    clock = StillClock()
    steady = SteadyWall(clock)
    clock.advance(100.0)
    assert steady.look() == clock.wall()


def test_a_clock_that_is_set_forward_is_not_believed():
    clock = StillClock()
    steady = SteadyWall(clock)
    clock.wall_seconds += DAY
    assert steady.look() == clock.wall() - DAY


def test_one_that_was_set_back_is_remembered_when_it_is_right_again():
    clock = StillClock()
    steady = SteadyWall(clock)
    clock.wall_seconds -= HOUR
    stamp = clock.wall()
    steady.look()
    clock.wall_seconds += HOUR
    clock.advance(60.0)
    assert steady.look() - stamp == 60.0


@given(st.lists(st.tuples(st.floats(0, 5000), st.floats(-DAY, DAY)), max_size=20))
def test_nothing_ever_looks_older_than_it_is(steps):
    clock = StillClock()
    steady = SteadyWall(clock)
    stamps = []
    for seconds, jump in steps:
        clock.advance(seconds)
        clock.wall_seconds += jump
        steady.look()
        stamps.append((clock.monotonic(), clock.wall()))
        for at, stamp in stamps:
            assert steady.look() - stamp <= clock.monotonic() - at + 1e-3
