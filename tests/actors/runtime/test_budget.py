"""A deadline on a clock of the test's own."""

from hypothesis import given
from hypothesis import strategies as st

from actors.runtime import Budget
from tests.clock import StillClock


def test_what_is_left_shrinks_with_time_and_never_below_zero():
    clock = StillClock()
    budget = Budget.of(clock, 10)
    clock.advance(4)
    assert budget.remaining() == 6 and not budget.expired()
    clock.advance(100)
    assert budget.remaining() == 0 and budget.expired()


def test_a_jumping_wall_clock_changes_no_deadline():
    clock = StillClock()
    budget = Budget.of(clock, 10)
    clock.wall_seconds += 86_400
    assert budget.remaining() == 10


@given(st.floats(0, 1e6), st.floats(0, 1), st.floats(0, 1e6))
def test_what_is_derived_never_ends_later(seconds, fraction, passed):
    clock = StillClock()
    budget = Budget.of(clock, seconds)
    clock.advance(passed)
    for derived in (budget.share(fraction), budget.at_most(3.0), budget.reserving(1.0)):
        assert derived.deadline <= max(budget.deadline, clock.monotonic())


def test_a_share_is_of_what_is_left():
    clock = StillClock()
    budget = Budget.of(clock, 10)
    clock.advance(5)
    assert budget.share(0.5).remaining() == 2.5
    assert budget.at_most(2).remaining() == 2
    assert budget.at_most(60).remaining() == 5
    assert budget.reserving(1).remaining() == 4
