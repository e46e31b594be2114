"""The newest events, numbered without a hole: what a replay is served from, and what the store still has to get."""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from actors.messages.events import Event, Gap, Publish


class Ring:
    """
    At most ``bound`` events. Their numbers follow each other, so a number says where its event stands.

    ``stored`` is the number up to which the store has them, or never will.
    """

    def __init__(self, bound: int, last_seq: int) -> None:
        self._events: deque[Event] = deque(maxlen=bound)
        self.last_seq = last_seq
        self.stored = last_seq
        # Events that gave way before the store had them.
        self.lost = 0

    @property
    def first_seq(self) -> int:
        """The number of the oldest event held, or of the next one if none is."""
        return self.last_seq + 1 - len(self._events)

    def add(self, publish: Publish) -> Event:
        """Number an event and keep it; the oldest gives way."""
        self.last_seq += 1
        event = Event(
            seq=self.last_seq, kind=publish.kind, path=publish.path, at=publish.at, data=publish.data
        )
        self._events.append(event)
        if self.stored < self.first_seq - 1:
            self.lost += self.first_seq - 1 - self.stored
            self.stored = self.first_seq - 1
        return event

    def holds(self, seq: int) -> bool:
        """Say whether everything from ``seq`` on is here."""
        return seq >= self.first_seq

    def since(self, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        """Return the held events from ``seq`` on, at most ``limit``."""
        start = max(0, seq - self.first_seq)
        return tuple(islice(self._events, start, None if limit is None else start + limit))

    def unstored(self, limit: int) -> tuple[Event, ...]:
        """Return the oldest events that the store does not have."""
        return self.since(self.stored + 1, limit)

    def mark_stored(self, seq: int) -> None:
        """Note that the store has everything up to ``seq``."""
        self.stored = max(self.stored, seq)

    def take_lost(self) -> int:
        """Return how many were lost since it was last asked."""
        lost, self.lost = self.lost, 0
        return lost


def position(from_seq: int | None, last_seq: int) -> int:
    """Return the number to begin at: None is what comes next, a negative one counts back from the newest."""
    if from_seq is None:
        return last_seq + 1
    if from_seq < 0:
        return max(1, last_seq + 1 + from_seq)
    return max(1, from_seq)


def wanted(kind: str, prefixes: tuple[str, ...]) -> bool:
    """Say whether an event of that kind is among those asked for; no prefix asks for all."""
    return not prefixes or kind.startswith(prefixes)


def told(events: Iterable[Event], next_seq: int, prefixes: tuple[str, ...]) -> tuple[Event | Gap, ...]:
    """Return the wanted ones, with a Gap wherever numbers are missing from ``next_seq`` on."""
    entries: list[Event | Gap] = []
    for event in events:
        if event.seq > next_seq:
            entries.append(Gap(next_seq=event.seq))
        if wanted(event.kind, prefixes):
            entries.append(event)
        next_seq = event.seq + 1
    return tuple(entries)
