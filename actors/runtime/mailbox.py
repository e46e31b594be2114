"""The lanes of an actor's mailbox. The kill lane is not a queue: it cancels the activation."""

import enum
from collections import deque
from typing import Any

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


class Put(enum.Enum):
    """The outcome of a put."""

    TAKEN = "taken"
    FULL = "full"
    DISPLACED = "displaced"
    """Taken, and the oldest entry gave way: it is returned beside."""


class Mailbox:
    """
    Two queues, control before ordinary. Puts may come from any thread; everything else is the loop's.

    ``closed`` is set before the final drain. A put appends first and tests ``closed`` afterwards, so that of a put that
    races a stop at least one side sees the entry: no ask stays unanswered.
    """

    __slots__ = ("bound", "closed", "control", "held", "ordinary", "overflow")

    def __init__(self, bound: int, overflow: Overflow) -> None:
        self.control: deque[Envelope] = deque()
        self.ordinary: deque[Envelope] = deque()
        self.bound = bound
        self.overflow = overflow
        self.closed = False
        self.held = False

    def put(self, envelope: Envelope) -> tuple[Put, Envelope | None]:
        """Append to the message's lane, under the bound and policy of the ordinary one."""
        if envelope.message.mailbox_lane is not Lane.ORDINARY:
            self.control.append(envelope)
            return Put.TAKEN, None
        if len(self.ordinary) < self.bound:
            self.ordinary.append(envelope)
            return Put.TAKEN, None
        if self.overflow is not Overflow.DROP_OLDEST:
            return Put.FULL, None
        displaced = self.ordinary.popleft()
        self.ordinary.append(envelope)
        return Put.DISPLACED, displaced

    def get(self) -> Envelope | None:
        """Take the next entry that may be served now, or None."""
        if self.control:
            return self.control.popleft()
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
        puts = [lane[0].put_at for lane in (self.control, self.ordinary) if lane]
        return min(puts, default=None)

    def drain(self) -> list[Envelope]:
        """Take everything, control first."""
        taken: list[Envelope] = []
        lanes: tuple[deque[Any], ...] = (self.control, self.ordinary)
        for lane in lanes:
            while lane:
                taken.append(lane.popleft())
        return taken
