"""The actors in numbers: what ``ps`` adds up to, without a row for each."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from actors.messages.lifecycle import Status

if TYPE_CHECKING:
    from actors.runtime.cell import Cell


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """How many live or held actors there are, and what waits for them, at one moment."""

    states: dict[Status, int]
    control_depth: int
    ordinary_depth: int
    oldest_s: float
    """For how long the message that has waited longest was seen waiting."""


def census(cells: Iterable["Cell"], now: float) -> Census:
    """Count them; ``now`` in monotonic seconds."""
    states: Counter[Status] = Counter()
    control = ordinary = 0
    oldest = now
    for cell in cells:
        states[cell.status] += 1
        control += len(cell.mailbox.control)
        if cell.mailbox.ordinary:
            ordinary += len(cell.mailbox.ordinary)
            cell.mailbox.look(now)
            oldest = min(oldest, cell.mailbox.oldest() or now)
    return Census(states=dict(states), control_depth=control, ordinary_depth=ordinary, oldest_s=now - oldest)
