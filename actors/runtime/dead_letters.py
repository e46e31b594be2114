"""Messages that nobody handled: counted by reason, the last ones kept for people to see."""

from collections import Counter, deque

from actors.messages.lifecycle import DeadLetter, DeadLetterReason
from actors.runtime.clock import Clock


class DeadLetters:
    """A bounded record; it keeps message types and paths, never contents."""

    def __init__(self, clock: Clock, kept: int = 1000) -> None:
        self._clock = clock
        self._last: deque[DeadLetter] = deque(maxlen=kept)
        self.counts: Counter[DeadLetterReason] = Counter()

    def add(self, path: str, message_type: str, reason: DeadLetterReason) -> None:
        """Record one."""
        self.counts[reason] += 1
        self._last.append(
            DeadLetter(path=path, message_type=message_type, reason=reason, at=self._clock.wall())
        )

    def last(self) -> list[DeadLetter]:
        """Return the ones kept, oldest first."""
        return list(self._last)
