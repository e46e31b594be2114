"""What becomes of a message that nobody will handle: its asker is answered, and it is noted."""

import contextlib
from typing import TYPE_CHECKING

from actors.exceptions import ActorStopped
from actors.messages.lifecycle import DeadLetterReason, Down, Status, Stop, StopStatus, Watch
from actors.runtime.internal import Own, Piped, TimerFired
from actors.runtime.reply import Reply, message_of

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.envelope import Envelope


def bury(cell: "Cell", entry: "Envelope", reason: DeadLetterReason, error: Exception) -> None:
    """Answer one with ``error``; a stop and a watch have answers that an ended actor can give."""
    message = message_of(entry)
    if cell.tracing is not None:
        cell.tracing.forget(entry)
    if isinstance(message, Down):
        # An end that was announced to an actor that ended itself meanwhile.
        return
    if isinstance(entry, Reply):
        if isinstance(message, Stop):
            entry.set(StopStatus.ALREADY_GONE)
            return
        entry.set_exception(error)
    elif isinstance(message, Watch):
        with contextlib.suppress(ActorStopped):
            message.watcher.tell(cell.down())
        return
    cell.system.dead_letters.add(cell.path, type(message).__name__, reason)


def bury_all(cell: "Cell") -> None:
    """Answer all that lies in the mailbox, now that nothing more gets in."""
    entries = cell.mailbox.drain()
    if not entries:
        return
    quarantined = cell.status is Status.QUARANTINED
    reason = DeadLetterReason.QUARANTINED if quarantined else DeadLetterReason.STOPPED
    for entry in entries:
        bury(cell, entry, reason, cell.gone())


def bury_stale(cell: "Cell", message: Own) -> None:
    """Note what an incarnation sent itself and that came after its end."""
    told = message.message if isinstance(message, TimerFired | Piped) else message
    cell.system.dead_letters.add(cell.path, type(told).__name__, DeadLetterReason.STALE)
