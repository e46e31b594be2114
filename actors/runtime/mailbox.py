"""The lanes of an actor's mailbox. The kill lane is not a queue: it cancels the activation."""

import enum
from collections import deque

from actors.messages.base import Lane
from actors.runtime.envelope import Envelope


class Overflow(enum.Enum):
    """What a put does when the ordinary lane is at its bound."""

    REFUSE = "refuse"
    """The sender gets MailboxFull."""
    WAIT = "wait"
    """As REFUSE for ``tell`` and ``ask``; ``send`` suspends its caller until there is room."""
    DROP_OLDEST = "drop_oldest"
    """The oldest ordinary message becomes a dead letter: for observers."""


class Mailbox:
    """
    Two queues, control before ordinary. Puts may come from any thread; everything else is the loop's.

    ``closed`` is set before the final drain. A put appends first and tests ``closed`` afterwards, so that of a put that
    races a stop at least one side sees the entry: no ask stays unanswered.
    """

    __slots__ = ("bound", "closed", "control", "held", "ordinary", "overflow")

    def __init__(self, bound: int, overflow: Overflow) -> None:
        # Short as a rule, and a list takes a tenth of an empty deque's memory.
        self.control: list[Envelope] = []
        self.ordinary: deque[Envelope] = deque()
        self.bound = bound
        self.overflow = overflow
        self.closed = False
        self.held = False

    def append(self, envelope: Envelope) -> None:
        """Append to the message's lane, whatever its bound."""
        if envelope[0].mailbox_lane is Lane.ORDINARY:
            self.ordinary.append(envelope)
        else:
            self.control.append(envelope)

    def get(self) -> "Envelope | None":
        """Take the next entry that may be served now, or None."""
        if self.control:
            return self.control.pop(0)
        if self.ordinary and not self.held:
            return self.ordinary.popleft()
        return None

    def empty(self) -> bool:
        """Say whether nothing may be served now."""
        return not self.control and (self.held or not self.ordinary)

    def full(self) -> bool:
        """Say whether the ordinary lane is at its bound."""
        return len(self.ordinary) >= self.bound

    def oldest(self) -> float | None:
        """Return when the oldest entry was put (monotonic seconds), or None."""
        puts = [lane[0][1] for lane in (self.control, self.ordinary) if lane]
        return min(puts, default=None)

    def drop(self, kind: type) -> None:
        """Take what is of one kind out of the control lane, unseen."""
        # From the end, one by one: another thread may append meanwhile.
        for place in range(len(self.control) - 1, -1, -1):
            if isinstance(self.control[place][0], kind):
                del self.control[place]

    def drain(self) -> list[Envelope]:
        """Take everything, control first."""
        taken: list[Envelope] = []
        while self.control:
            taken.append(self.control.pop(0))
        while self.ordinary:
            taken.append(self.ordinary.popleft())
        return taken
