"""Budgets made of budgets, on a clock that moves: no stage ever gets more than who gave it."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from actors.runtime import Budget
from tests.clock import StillClock

SECONDS = st.floats(0, 1000, allow_nan=False)


class BudgetMachine(RuleBasedStateMachine):
    budgets = Bundle("budgets")

    @initialize(target=budgets, seconds=SECONDS)
    def begin(self, seconds):
        self.clock = StillClock()
        # (child, parent, when it was made)
        self.made = []
        return Budget.of(self.clock, seconds)

    def derived(self, parent, child):
        self.made.append((child, parent, self.clock.monotonic()))
        return child

    @rule(target=budgets, parent=budgets, fraction=st.floats(0, 1))
    def share(self, parent, fraction):
        left = parent.remaining()
        child = self.derived(parent, parent.share(fraction))
        assert abs(child.remaining() - left * fraction) < 1e-6
        return child

    @rule(target=budgets, parent=budgets, seconds=SECONDS)
    def at_most(self, parent, seconds):
        left = parent.remaining()
        child = self.derived(parent, parent.at_most(seconds))
        assert abs(child.remaining() - min(left, seconds)) < 1e-6
        return child

    @rule(target=budgets, parent=budgets, seconds=SECONDS)
    def reserving(self, parent, seconds):
        left = parent.remaining()
        child = self.derived(parent, parent.reserving(seconds))
        assert child.remaining() <= max(0.0, left - seconds) + 1e-6
        return child

    @rule(seconds=SECONDS)
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.floats(-1e6, 1e6))
    def somebody_sets_the_wall_clock(self, seconds):
        self.clock.wall_seconds += seconds

    @invariant()
    def no_child_has_more_than_its_parent(self):
        for child, parent, at in getattr(self, "made", ()):
            assert child.remaining() <= parent.remaining() + 1e-6
            # What is made of an expired one is expired.
            assert child.deadline <= max(parent.deadline, at) + 1e-6

    @invariant()
    def none_has_less_than_nothing_and_expired_means_nothing_left(self):
        for child, _, _ in getattr(self, "made", ()):
            assert child.remaining() >= 0
            assert child.expired() == (child.remaining() == 0)


TestBudgetMachine = BudgetMachine.TestCase
