"""What lies in a mailbox."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from actors.messages.base import Message
    from actors.runtime.reply import Reply

Envelope: TypeAlias = "Message | Reply[Any]"
"""
A message that was told lies there as it is; one that was asked lies in the Reply that its sender waits for.

So a tell makes no object: with an envelope of its own, making and collecting it would take as long as the rest.
"""
