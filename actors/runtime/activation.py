"""The body of an activation task: drains bounded batches of one cell's mailbox, and ends when that is empty."""

import asyncio
from contextvars import Context as Variables
from typing import TYPE_CHECKING, Any

from actors.exceptions import DeadlineExceeded, Refusal
from actors.messages.lifecycle import (
    DeadLetterReason,
    DownReason,
    Inspect,
    Resume,
    Status,
    Stop,
    Suspend,
    Unwatch,
    Watch,
)
from actors.runtime import ending
from actors.runtime.actor import DEFERRED
from actors.runtime.burial import bury
from actors.runtime.internal import OwnStop, Piped, TaskFailed, TimerFired, TraceChanged
from actors.runtime.reply import Reply, message_of
from actors.runtime.room import announce_room

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.envelope import Envelope
    from actors.runtime.incarnation import Incarnation
    from actors.runtime.trace import Handler

BATCH_MESSAGES = 128
BATCH_SECONDS = 0.0005
"""What an activation handles before it yields to the loop: the measured knee of throughput against latency."""

CLOCK_MASK = 7
"""After how many messages it looks at the clock: a look costs a tenth of a short handler."""


class Activation:
    """One run over a mailbox, on behalf of one incarnation. It goes on only while that is the cell's own."""

    __slots__ = ("_cell", "_own", "_variables")

    def __init__(self, cell: "Cell", own: "Incarnation", variables: Variables) -> None:
        self._cell = cell
        self._own = own
        self._variables = variables

    async def run(self) -> None:
        """Start the incarnation if it has not been started; then handle what there is."""
        cell, own = self._cell, self._own
        try:
            if cell.status is Status.STARTING:
                await self._start()
            while cell.own is own and not await self._batch():  # noqa: ASYNC110  # it only lets the loop breathe
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
        try:
            await own.behaviour.on_start()
        except Exception as error:
            if cell.own is own:
                ending.crash(cell, error, DownReason.START_FAILED)
            return
        if cell.own is own:
            cell.ready()

    async def _batch(self) -> bool:
        """Handle one batch; True when the mailbox has run dry or the incarnation has ended."""
        # Every line of the loop is paid for each message: see tests/bench/bench_runtime.py.
        cell, own, variables = self._cell, self._own, self._variables
        mailbox = cell.mailbox
        ordinary, control = mailbox.ordinary, mailbox.control
        receive, take = self._receiver(), ordinary.popleft
        monotonic = cell.system.clock.monotonic
        now = cell.busy_since = monotonic()
        ends = now + BATCH_SECONDS
        left = BATCH_MESSAGES
        while left:
            left -= 1
            if variables and not mailbox.empty():
                # What a handler has set there is not the next message's: that has a new activation, with clean ones.
                own.current = None
                return True
            if control:
                entry: Envelope = control.pop(0)
                if await self._handle_system(entry):
                    if cell.own is not own:
                        return True
                    if cell.tracing is not None:
                        cell.tracing.forget(entry)
                    receive = self._receiver()
                    continue
            elif ordinary and not mailbox.held:
                entry = take()
                mailbox.taken += 1
                if mailbox.waited_for:
                    announce_room(cell)
            else:
                own.current = cell.busy_since = None
                await self._idle()
                return mailbox.empty()
            own.current = entry
            try:
                if type(entry) is Reply:
                    if entry.budget.deadline <= monotonic():
                        self._bury_expired(entry)
                        continue
                    answer = await receive(entry.message)
                    if answer is not DEFERRED:
                        entry.set(answer)
                elif type(entry) is TimerFired or type(entry) is Piped:
                    await receive(entry.message)
                else:
                    await receive(entry)
            except BaseException as error:
                self._failed(entry, error)
                if cell.own is not own:
                    return True
            else:
                if cell.own is not own:
                    return True
                cell.handled += 1
            if not left & CLOCK_MASK and monotonic() > ends:
                break
        own.current = None
        mailbox.look(monotonic())
        return False

    def _receiver(self) -> "Handler":
        tracing, receive = self._cell.tracing, self._own.behaviour.on_receive
        return receive if tracing is None else tracing.around(receive)

    def _failed(self, entry: "Envelope", error: BaseException) -> None:
        """Decide about what a handler raised: a refusal is an answer, everything else ends the incarnation."""
        cell = self._cell
        if isinstance(error, Refusal):
            cell.handled += 1
            if isinstance(entry, Reply):
                entry.set_exception(error)
            else:
                name = type(entry).__name__
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

    async def _handle_system(self, entry: "Envelope") -> bool:
        """Serve what every actor understands; False for a message that is the behaviour's own."""
        cell = self._cell
        reply = entry if isinstance(entry, Reply) else None
        if reply is not None and reply.budget.expired():
            self._bury_expired(reply)
            return True
        message = message_of(entry)
        match message:
            case TimerFired():
                return not self._own.still_set(message)
            case TraceChanged():
                return True
            case TaskFailed(error=error):
                ending.crash(cell, error, DownReason.CRASHED)
                return True
            case Stop(reason=reason) | OwnStop(reason=reason):
                await ending.terminate(cell, entry, reason)
                return True
            case Suspend():
                cell.mailbox.held = True
                cell.enter(Status.SUSPENDED)
            case Resume():
                cell.mailbox.held = False
                cell.enter(Status.RUNNING)
            case Watch(watcher=watcher):
                cell.watchers += (watcher,)
            case Unwatch(watcher=watcher):
                cell.watchers = tuple(other for other in cell.watchers if other is not watcher)
            case Inspect() if reply is not None:
                reply.set(cell.info(cell.system.clock.monotonic()))
                return True
            case _:
                return False
        if reply is not None:
            reply.set(None)
        return True

    def _bury_expired(self, reply: "Reply[Any]") -> None:
        name = type(reply.message).__name__
        bury(self._cell, reply, DeadLetterReason.EXPIRED, DeadlineExceeded(name))
