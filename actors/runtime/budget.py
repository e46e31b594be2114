"""A deadline that is made once, by whoever wants the outcome, and threaded through all that serves it."""

from actors.runtime.clock import Clock


class Budget:
    """A deadline on a clock. Immutable; every stage takes what is left, never a fresh timeout."""

    __slots__ = ("clock", "deadline")

    def __init__(self, clock: Clock, deadline: float) -> None:
        self.clock = clock
        self.deadline = deadline

    @classmethod
    def of(cls, clock: Clock, seconds: float) -> "Budget":
        """Return a budget that ends ``seconds`` from now."""
        return cls(clock, clock.monotonic() + seconds)

    def __repr__(self) -> str:
        return f"<Budget {self.remaining():.3f} s left>"

    def remaining(self) -> float:
        """Return the seconds left, never less than 0."""
        return max(0.0, self.deadline - self.clock.monotonic())

    def expired(self) -> bool:
        """Say whether nothing is left."""
        return self.clock.monotonic() >= self.deadline

    def share(self, fraction: float) -> "Budget":
        """Return a budget that ends when ``fraction`` (0 … 1) of what is left has passed."""
        now = self.clock.monotonic()
        return Budget(self.clock, now + max(0.0, self.deadline - now) * fraction)

    def at_most(self, seconds: float) -> "Budget":
        """Return a budget that ends with this one, or ``seconds`` from now if that is sooner."""
        return Budget(self.clock, min(self.deadline, self.clock.monotonic() + seconds))

    def reserving(self, seconds: float) -> "Budget":
        """Return a budget that ends ``seconds`` before this one, and keeps them for what comes after."""
        return Budget(self.clock, self.deadline - seconds)
