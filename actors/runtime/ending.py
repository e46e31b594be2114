"""The ways in which an incarnation ends: it crashes, it is stopped in order, or it is killed."""

import asyncio
import contextlib
import traceback
from typing import TYPE_CHECKING

import structlog

from actors.exceptions import ActorLost, ActorStopped, HandlerFailed, StartFailed, TurnkeepError
from actors.messages.lifecycle import DownReason, Status, StopStatus
from actors.runtime.budget import Budget
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.envelope import Envelope
    from actors.runtime.ref import Address

EVENT_KINDS = {
    DownReason.SHUTDOWN: "actor.stopped",
    DownReason.RESTART: "actor.stopped",
    DownReason.CRASHED: "actor.crashed",
    DownReason.START_FAILED: "actor.start_failed",
    DownReason.KILLED: "actor.killed",
}
"""The ends that are events. An actor that ends itself, such as a turn, has its own to tell."""

SHOWN_FRAMES = 6

ORDERED_SHARE = 0.5
"""The part of what is left that one child may use before the next is stopped: one that hangs leaves the others time."""

log = structlog.get_logger("turnkeep.runtime")


def crash(cell: "Cell", error: BaseException, reason: DownReason) -> None:
    """End the incarnation because it raised; its supervisor decides what comes next."""
    cell.last_error = type(error).__name__
    where = [
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    if reason is DownReason.START_FAILED and isinstance(error, TurnkeepError):
        # It knows what is wrong and says so: no place in the code would add to that.
        log.warning("actor.start_failed", path=cell.path, why=_tell_of(error))
    else:
        # The class and the place, not the text: texts of errors may quote what a message held.
        log.error("actor.crashed", path=cell.path, error=cell.last_error, where=where[-SHOWN_FRAMES:])
    for waiter in cell.take_start_waiters():
        waiter.set_exception(StartFailed(cell.path, _tell_of(error)))
    cell.end = reason
    _leave(cell, HandlerFailed(cell.path, cell.last_error))
    # Only now: a child that sees its parent gone leaves the tree too, instead of waiting for a decision.
    for child in cell.offspring():
        kill(child, DownReason.SHUTDOWN, why="its parent crashed")
    _announce(cell, reason)


async def terminate(cell: "Cell", envelope: "Envelope", reason: DownReason) -> None:
    """End in order: refuse what is queued, stop the children, run ``on_stop``, answer."""
    own = cell.own
    assert own is not None
    cell.enter(Status.STOPPING)
    cell.end = reason
    if not cell.returns():
        cell.shut()
    asked = envelope if isinstance(envelope, Reply) else None
    budget = asked.budget if asked is not None else Budget.of(cell.system.clock, cell.system.stop_seconds)
    try:
        behaviour = own.behaviour
        await _stop_children(cell, behaviour.stops_in_order, budget)
        await behaviour.on_stop(reason)
    except Exception as error:
        cell.last_error = type(error).__name__
        log.error("actor.stop_failed", path=cell.path, error=cell.last_error)
    if cell.own is not own:
        # A kill has overtaken the order.
        return
    _leave(cell, ActorLost(cell.path))
    if asked is not None:
        asked.set(StopStatus.STOPPED)
    _announce(cell, reason)


async def _stop_children(cell: "Cell", in_order: bool, budget: Budget) -> None:
    """Stop the children all at once, or the last started first: each may use half of what is left, the last one all."""
    children = [child.ref for child in cell.offspring()]
    if in_order:
        for ref in reversed(children[1:]):
            await cell.system.stop(ref, budget.share(ORDERED_SHARE))
        for ref in children[:1]:
            await cell.system.stop(ref, budget)
    elif children:
        await cell.system.stop_all(children, budget)


def kill(
    cell: "Cell",
    reason: DownReason = DownReason.KILLED,
    *,
    by: str = "supervision",
    why: str = "killed",
) -> None:
    """End at once: unroute first, cancel second, never await the lost task; what it says later is fenced."""
    if cell.status is Status.STOPPED or (cell.status is Status.DOWN and cell.returns()):
        # It has ended, and said so; a second end would be decided about once more.
        return
    if cell.status is Status.QUARANTINED:
        # It has ended, or is lost already; only its parent's end takes its place out of the tree.
        if not cell.has_parent():
            cell.close()
        return
    cell.end = reason
    task = cell.take_task()
    _leave(cell, ActorLost(cell.path, "was killed"), by=by, why=why)
    for child in cell.offspring():
        kill(child, reason, by=by, why="its parent was killed")
    if task is not None:
        cell.system.rested(task)
        if task is not asyncio.current_task(cell.system.loop):
            task.cancel()
        cell.system.custody.take(cell, (task,), by=by, why=why)
    _announce(cell, reason)


def _leave(cell: "Cell", error: Exception, *, by: str = "supervision", why: str = "its actor ended") -> None:
    """Part with the incarnation; then wait for the supervisor's decision if there is one to come, else leave the tree."""
    own, cell.own = cell.own, None
    if own is not None and (tasks := own.release(error)):
        cell.system.custody.take(cell, tasks, by=by, why=why)
    if cell.returns():
        cell.go_down()
    else:
        cell.close()


def _announce(cell: "Cell", reason: DownReason) -> None:
    down = cell.down()
    receivers: list[Address] = [*cell.watchers]
    if cell.parent is not None and not cell.parent.mailbox.closed:
        receivers.append(cell.parent.ref)
    for receiver in receivers:
        with contextlib.suppress(ActorStopped):
            receiver.tell(down)
    if reason in EVENT_KINDS:
        cell.system.publish(EVENT_KINDS[reason], cell.path, {"error": cell.last_error})


def _tell_of(error: BaseException) -> str:
    """Our own exceptions have texts made for people; of others only the class is told."""
    if isinstance(error, StartFailed):
        return error.why
    return str(error) if isinstance(error, TurnkeepError) else type(error).__name__
