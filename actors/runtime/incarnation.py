"""One incarnation of an actor: its behaviour, and what ends with it: answers that it owes, timers, tasks beside it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from actors.exceptions import MailboxFull
from actors.messages.base import Message
from actors.messages.lifecycle import DownReason
from actors.runtime.actor import Actor
from actors.runtime.burial import bury_stale
from actors.runtime.internal import Own, OwnStop, Piped, TaskFailed, TimerFired
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.clock import Timer
    from actors.runtime.envelope import Envelope
    from actors.runtime.ref import Ref

T = TypeVar("T")

PRUNE_SLACK = 8


class Incarnation:
    """
    Valid as long as it is its cell's ``own``: whatever arrives later, from it or for it, is fenced.

    What most actors never need is made on demand.
    """

    __slots__ = ("_cell", "_deferred", "_prune_at", "_tasks", "_timers", "behaviour", "current")

    def __init__(self, cell: "Cell", behaviour: Actor) -> None:
        self._cell = cell
        self.behaviour = behaviour
        # The message in hand.
        self.current: Envelope | None = None
        self._timers: dict[str, tuple[Timer, object]] | None = None
        self._tasks: set[asyncio.Task[None]] | None = None
        # Answers that are given later; those already given are pruned when the list has grown to _prune_at.
        self._deferred: list[Reply[Any]] | None = None
        self._prune_at = PRUNE_SLACK

    def starts(self) -> bool:
        """Say whether its behaviour has something to run before its first message."""
        return type(self.behaviour).on_start is not Actor.on_start

    def defer(self) -> Reply[Any] | None:
        """See Context.defer."""
        reply = self.current
        if not isinstance(reply, Reply):
            return None
        reply.deferred = True
        deferred = self._deferred
        if deferred is None:
            deferred = self._deferred = []
        elif len(deferred) >= self._prune_at:
            # Now and then instead of with each answer: an actor that defers all its answers would notice.
            deferred[:] = [owed for owed in deferred if not owed.done()]
            self._prune_at = 2 * len(deferred) + PRUNE_SLACK
        deferred.append(reply)
        return reply

    def forward(self, ref: "Ref") -> None:
        """See Context.forward."""
        entry = self.current
        assert entry is not None
        if isinstance(entry, Reply):
            # From here on only the receiver answers: a crash of this actor must not.
            self.current = entry.message
            entry.passed_to(ref._cell)
        if ref._cell.post(entry) is False and isinstance(entry, Reply):
            entry.set_exception(MailboxFull(ref.path))

    def pipe(
        self, reply: Reply[T], on_value: Callable[[T], Message], on_error: Callable[[Exception], Message]
    ) -> None:
        """See Context.pipe."""

        def arrive(done: Reply[T]) -> None:
            try:
                message = on_value(done.result())
            except Exception as error:
                message = on_error(error)
            self._post(Piped(message=message))

        reply.on_done(arrive)

    def run_beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """See Context.run."""
        task = asyncio.Task(work, loop=self._cell.system.loop, name=f"{self._cell.path}:{name}")
        tasks = self._tasks = self._tasks or set()
        tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._post(TaskFailed(error=error))

        task.add_done_callback(ended)

    def stop(self, reason: DownReason) -> None:
        """See Context.stop."""
        self._post(OwnStop(reason=reason))

    def set_timer(self, key: str, delay: float, message: Message) -> None:
        """See Context.set_timer."""
        self.cancel_timer(key)
        token = object()
        timer = self._cell.system.clock.call_later(delay, self._fire, key, token, message)
        self._timers = self._timers or {}
        self._timers[key] = (timer, token)

    def cancel_timer(self, key: str) -> None:
        """See Context.cancel_timer."""
        timer = self._timers.pop(key, None) if self._timers else None
        if timer is not None:
            timer[0].cancel()

    def still_set(self, fired: TimerFired) -> bool:
        """Say whether the timer was neither cancelled nor replaced since it fired, and forget it."""
        timer = self._timers.get(fired.key) if self._timers else None
        if timer is None or timer[1] is not fired.token:
            return False
        self.cancel_timer(fired.key)
        return True

    def release(self, error: Exception) -> "list[asyncio.Task[None]]":
        """Answer everybody who waits for this incarnation, and end its timers and tasks; return those cancelled."""
        if isinstance(self.current, Reply):
            self.current.set_exception(error)
        for reply in list(self._deferred or ()):
            if not reply.done():
                reply.set_exception(error)
        for key in list(self._timers or ()):
            self.cancel_timer(key)
        tasks = [task for task in self._tasks or () if not task.done()]
        for task in tasks:
            task.cancel()
        # It knows this through its context: a cycle that would wait for the collector.
        del self.behaviour
        return tasks

    def _fire(self, key: str, token: object, message: Message) -> None:
        timer = self._timers.get(key) if self._timers else None
        if timer is not None and timer[1] is token:
            self._post(TimerFired(key=key, token=token, message=message))

    def _post(self, message: Own) -> None:
        """Put what the actor sends itself before all ordinary messages; a stale one is dropped."""
        cell = self._cell
        if cell.own is not self or cell.mailbox.closed:
            bury_stale(cell, message)
            return
        cell.mailbox.control.append(message)
        if not cell.mailbox.awake:
            cell.appended(message)
