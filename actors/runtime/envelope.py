"""What lies in a mailbox: a message with what travels beside it."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from actors.messages.base import Message
    from actors.runtime.budget import Budget
    from actors.runtime.reply import Reply

Envelope: TypeAlias = "tuple[Message, float, Reply[Any] | None, Budget | None]"
"""
(message, when it was put in monotonic seconds, the reply that its sender waits for, its deadline).

A plain tuple, as one is made for every message: a class of its own would double the cost of a tell.
"""
