"""
How a write is asked of the store: an answer that is late, or lost with the store that owed it, means unknown.

Every write carries ids that its caller chose, and a repetition is answered with what is stored under them. So the write is
asked once more, in a share of the budget that is kept for that, before anybody is told anything.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from actors.exceptions import MailboxFull, OutcomeUnknown, RuntimeFault, StoreFault
from actors.messages.store import Write
from actors.runtime import Budget, Ref, Reply

R = TypeVar("R")

RESERVED = 0.3
"""The share of a write's budget in which its repetition is asked."""


def keep(store: Ref, write: Write[R], budget: Budget) -> Coroutine[Any, Any, R]:
    """
    Ask the store to write, now; what is returned is awaited for its answer.

    Raises what the store refuses it with, StoreFault or MailboxFull if nothing was kept, and OutcomeUnknown if nobody
    can say within ``budget``.
    """
    return _settled(store.ask(write, budget.share(1 - RESERVED)), store, write, budget)


async def _settled(asked: Reply[R], store: Ref, write: Write[R], budget: Budget) -> R:
    try:
        return await asked
    except MailboxFull:
        # Refused at the door.
        raise
    except RuntimeFault:
        try:
            # The store serves in order: what it had begun is done before it looks at this.
            return await store.ask(write, budget)
        except (RuntimeFault, StoreFault) as fault:
            raise OutcomeUnknown(type(write).__name__) from fault
