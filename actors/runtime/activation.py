"""The body of an activation task: drains bounded batches of one cell's mailbox, and ends when that is empty."""

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING

from actors.exceptions import DeadlineExceeded, Refusal
from actors.messages.lifecycle import DeadLetterReason, DownReason, Resume, Status, Stop, Suspend, Watch
from actors.runtime import ending
from actors.runtime.actor import DEFERRED
from actors.runtime.context import Context
from actors.runtime.internal import TaskFailed, TimerFired

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.envelope import Envelope
    from actors.runtime.incarnation import Incarnation

BATCH_MESSAGES = 64
BATCH_SECONDS = 0.001
"""What an activation handles before it yields to the loop: the measured knee of throughput against latency."""


class Activation:
    """One run over a mailbox, on behalf of one incarnation. It goes on only while that is the cell's own."""

    __slots__ = ("_cell", "_own")

    def __init__(self, cell: "Cell", own: "Incarnation") -> None:
        self._cell = cell
        self._own = own

    async def run(self) -> None:
        """Start the incarnation if it has not been started; then handle what there is."""
        cell, own = self._cell, self._own
        try:
            if cell.status is Status.STARTING:
                await self._start()
            # It waits for nothing: between batches it lets the loop breathe.
            while cell.own is own and not await self._batch():  # noqa: ASYNC110
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Only a kill, or the end of the loop, cancels an activation; the kill has done its bookkeeping already.
            if cell.own is own:
                ending.kill(cell)
        finally:
            cell.rest()

    async def _start(self) -> None:
        cell, own = self._cell, self._own
        cell.busy_since = cell.system.clock.monotonic()
        own.behaviour.ctx = Context(cell, own)
        try:
            await own.behaviour.on_start()
        except Exception as error:
            if cell.own is own:
                ending.crash(cell, error, DownReason.START_FAILED)
            return
        if cell.own is own:
            cell.enter(Status.RUNNING)
            for waiter in cell.take_start_waiters():
                waiter.set(None)

    async def _batch(self) -> bool:
        """Handle one batch; True when the mailbox has run dry or the incarnation has ended."""
        cell, own = self._cell, self._own
        system, mailbox = cell.system, cell.mailbox
        monotonic = system.clock.monotonic
        ordinary, control = mailbox.ordinary, mailbox.control
        receive = own.behaviour.on_receive
        now = system.tick = cell.busy_since = monotonic()
        ends = now + BATCH_SECONDS
        for _ in range(BATCH_MESSAGES):
            if copy_context() and not mailbox.empty():
                # What a handler has set there is not the next message's: that has a new activation, with a clean one.
                own.current = None
                return True
            if control:
                envelope = control.pop(0)
                if await self._handle_system(envelope, now):
                    if cell.own is not own:
                        return True
                    continue
                message, _, reply, budget = envelope
                if type(message) is TimerFired:
                    message = message.message
            elif ordinary and not mailbox.held:
                envelope = ordinary.popleft()
                message, _, reply, budget = envelope
                if cell.room_waiters:
                    cell.announce_room()
            else:
                own.current = cell.busy_since = None
                await self._idle()
                return mailbox.empty()
            if budget is not None and budget.deadline <= now:
                self._bury_expired(envelope)
                continue
            own.current = envelope
            try:
                answer = await receive(message)
            except BaseException as error:
                self._failed(envelope, error)
            else:
                cell.handled += 1
                if reply is not None and answer is not DEFERRED:
                    reply.set(answer)
            if cell.own is not own:
                return True
            now = monotonic()
            if now > ends:
                break
        own.current = None
        return False

    def _failed(self, envelope: "Envelope", error: BaseException) -> None:
        """Decide about what a handler raised: a refusal is an answer, everything else ends the incarnation."""
        cell = self._cell
        if isinstance(error, Refusal):
            cell.handled += 1
            if envelope[2] is not None:
                envelope[2].set_exception(error)
            else:
                name = type(envelope[0]).__name__
                cell.system.dead_letters.add(cell.path, name, DeadLetterReason.REFUSED)
            return
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise error
            # It came from something that the handler awaited, so it is the handler's failure and no kill.
        elif not isinstance(error, Exception):
            raise error
        if cell.own is self._own:
            ending.crash(cell, error, DownReason.CRASHED)

    async def _idle(self) -> None:
        if self._cell.status is Status.RUNNING:
            try:
                await self._own.behaviour.on_idle()
            except Exception as error:
                if self._cell.own is self._own:
                    ending.crash(self._cell, error, DownReason.CRASHED)

    async def _handle_system(self, envelope: "Envelope", now: float) -> bool:
        """Serve what every actor understands; False for a message that is the behaviour's own."""
        cell = self._cell
        message, _, reply, budget = envelope
        if budget is not None and budget.deadline <= now:
            self._bury_expired(envelope)
            return True
        match message:
            case TimerFired():
                return not self._own.still_set(message)
            case TaskFailed(error=error):
                ending.crash(cell, error, DownReason.CRASHED)
                return True
            case Stop(reason=reason):
                await ending.terminate(cell, envelope, reason)
                return True
            case Suspend():
                cell.mailbox.held = True
                cell.enter(Status.SUSPENDED)
            case Resume():
                cell.mailbox.held = False
                cell.enter(Status.RUNNING)
            case Watch(watcher=watcher):
                cell.watchers += (watcher,)
            case _:
                return False
        if reply is not None:
            reply.set(None)
        return True

    def _bury_expired(self, envelope: "Envelope") -> None:
        name = type(envelope[0]).__name__
        self._cell.bury(envelope, DeadLetterReason.EXPIRED, DeadlineExceeded(name))
