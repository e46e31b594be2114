"""What lies in a mailbox: a message with the headers that travel beside it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.messages.base import Message
    from actors.runtime.budget import Budget
    from actors.runtime.reply import Reply


class Envelope:
    """A message, the reply that its sender waits for, its deadline, and when it was put (monotonic seconds)."""

    __slots__ = ("budget", "message", "put_at", "reply")

    def __init__(
        self,
        message: "Message",
        put_at: float,
        reply: "Reply[Any] | None" = None,
        budget: "Budget | None" = None,
    ) -> None:
        self.message = message
        self.put_at = put_at
        self.reply = reply
        self.budget = budget
