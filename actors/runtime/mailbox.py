"""The lanes of an actor's mailbox. The kill lane is not a queue: it cancels the activation."""

import enum
from collections import deque

from actors.messages.base import Lane
from actors.runtime.envelope import Envelope
from actors.runtime.reply import message_of


class Overflow(enum.Enum):
    """What a put does when the ordinary lane is at its bound."""

    REFUSE = "refuse"
    """``tell`` and ``ask`` get MailboxFull; whoever would rather wait for room uses ``send``."""
    DROP_OLDEST = "drop_oldest"
    """The oldest ordinary message becomes a dead letter: for observers."""


class Mailbox:
    """
    Two queues, control before ordinary. Puts may come from any thread; everything else is the loop's.

    ``closed`` is set before the final drain. A put appends first and tests ``awake`` afterwards, and ``closed`` if that
    is not set, so that of a put that races a stop at least one side sees the entry: no ask stays unanswered.
    """

    __slots__ = (
        "_seen",
        "awake",
        "bound",
        "closed",
        "control",
        "held",
        "ordinary",
        "overflow",
        "taken",
        "waited_for",
    )

    def __init__(self, bound: int, overflow: Overflow) -> None:
        # Short as a rule, and a list takes a tenth of an empty deque's memory.
        self.control: list[Envelope] = []
        self.ordinary: deque[Envelope] = deque()
        self.bound = bound
        self.overflow = overflow
        self.closed = False
        self.held = False
        # Whether an activation will come to what is put: a put that sees it need not look any further.
        self.awake = False
        # Ordinary entries taken so far.
        self.taken = 0
        # Whether somebody waits for room.
        self.waited_for = False
        # (how many ordinary entries had been put, when that was seen), oldest first; see look.
        self._seen: list[tuple[int, float]] = []

    def append(self, entry: Envelope) -> None:
        """Append to the message's lane, whatever its bound."""
        if message_of(entry).mailbox_lane is Lane.ORDINARY:
            self.ordinary.append(entry)
        else:
            self.control.append(entry)

    def empty(self) -> bool:
        """Say whether nothing may be served now."""
        return not self.control and (self.held or not self.ordinary)

    def full(self) -> bool:
        """Say whether the ordinary lane is at its bound."""
        return len(self.ordinary) >= self.bound

    def look(self, now: float) -> None:
        """
        Note what waits in the ordinary lane at ``now``, in monotonic seconds.

        That is done whenever a batch leaves something behind, a put finds nobody awake, or the sweeper comes round: a
        stamp on each message would cost as much as sending it.
        """
        seen = self._seen
        while seen and seen[0][0] <= self.taken:
            del seen[0]
        put = self.taken + len(self.ordinary)
        if put > self.taken and (not seen or seen[-1][0] < put):
            seen.append((put, now))

    def oldest(self) -> float | None:
        """Return when the entry that is served next was first seen waiting, or None."""
        return next((at for put, at in self._seen if put > self.taken), None) if self.ordinary else None

    def drop(self, kinds: tuple[type, ...]) -> list[Envelope]:
        """Take what is of some kinds out of the control lane, and return it."""
        # From the end, one by one: another thread may append meanwhile.
        places = range(len(self.control) - 1, -1, -1)
        return [self.control.pop(place) for place in places if isinstance(self.control[place], kinds)]

    def drain(self) -> list[Envelope]:
        """Take everything, control first."""
        taken: list[Envelope] = []
        while self.control:
            taken.append(self.control.pop(0))
        while self.ordinary:
            taken.append(self.ordinary.popleft())
            self.taken += 1
        return taken
