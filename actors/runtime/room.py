"""What a full ordinary lane means for those who send: see Overflow."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from actors.exceptions import DeadlineExceeded, MailboxFull
from actors.messages.base import Message
from actors.messages.lifecycle import DeadLetterReason
from actors.runtime.budget import Budget
from actors.runtime.burial import bury
from actors.runtime.mailbox import Overflow

if TYPE_CHECKING:
    from actors.runtime.cell import Cell


def make_room(cell: "Cell", message: Message) -> bool:
    """Apply the policy of a full lane; False if ``message`` is the one that has no room."""
    mailbox = cell.mailbox
    if mailbox.overflow is not Overflow.DROP_OLDEST:
        name = type(message).__name__
        cell.system.dead_letters.add(cell.path, name, DeadLetterReason.OVERFLOW)
        return False
    with contextlib.suppress(IndexError):
        bury(cell, mailbox.ordinary.popleft(), DeadLetterReason.OVERFLOW, MailboxFull(cell.path))
    return True


async def wait_for_room(cell: "Cell", budget: Budget) -> None:
    """
    Return when the lane has room, in the order of asking. Raises ActorStopped or DeadlineExceeded.

    The caller puts its message in before it awaits anything else: the room is told to the next one right after.
    """
    mailbox = cell.mailbox
    if not mailbox.full() and not cell.room_waiters:
        return
    turn = asyncio.Event()
    cell.room_waiters += (turn,)
    timer = cell.system.clock.call_later(budget.remaining(), turn.set)
    try:
        while mailbox.full() or cell.room_waiters[0] is not turn:
            if mailbox.closed:
                raise cell.gone()
            if budget.expired():
                raise DeadlineExceeded(f"room in the mailbox of {cell.path}")
            mailbox.waited_for = True
            await turn.wait()
            turn.clear()
    finally:
        timer.cancel()
        cell.room_waiters = tuple(waiter for waiter in cell.room_waiters if waiter is not turn)
        # Whoever gives up may have been told of the room already.
        announce_room(cell)


def announce_room(cell: "Cell") -> None:
    """Let the one who has waited longest look again."""
    cell.mailbox.waited_for = bool(cell.room_waiters)
    if cell.room_waiters:
        cell.room_waiters[0].set()
