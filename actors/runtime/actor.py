"""What an actor's author writes: three hooks, and the context that the runtime hands in."""

from typing import TYPE_CHECKING, Any

from actors.messages.lifecycle import DownReason

if TYPE_CHECKING:
    from actors.runtime.context import Context


class Deferred:
    """Returned by a handler that answers its asker later, through ``ctx.defer()``."""


DEFERRED = Deferred()


class Actor:
    """
    One behaviour behind a ref. A restart makes a new one; the ref and what lies in the mailbox stay.

    Handlers run one at a time. A handler never waits for anything long: it starts a child, a task or a pipe and returns.
    An exception other than Refusal ends this incarnation; its supervisor decides what comes next.
    """

    ctx: "Context"

    kind = "actor"
    """What ``ps`` shows as its kind."""

    stops_in_order = False
    """Whether its children stop one after the other, the last started first, or all at once."""

    async def on_start(self) -> None:
        """Run before the first message of an incarnation."""

    async def on_receive(self, message: Any) -> Any:
        """Handle one message; what it returns answers an ask. Raise Refusal to say no."""
        raise NotImplementedError

    async def on_idle(self) -> None:
        """Run when the mailbox has run dry: where a batcher flushes."""

    async def on_stop(self, reason: DownReason) -> None:
        """Run at an ordered end, after the children have ended; not after a crash or a kill."""
