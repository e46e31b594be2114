"""What belongs to one incarnation of an actor and ends with it: answers that it owes, timers, tasks beside it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from actors.messages.base import Message
from actors.messages.lifecycle import DeadLetterReason, Status
from actors.runtime.internal import TaskFailed, TimerFired
from actors.runtime.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.clock import Timer

T = TypeVar("T")


class Incarnation:
    """Made when the first of these is needed. Whatever arrives after the incarnation has ended is fenced by its number."""

    __slots__ = ("_cell", "_deferred", "_number", "_tasks", "_timers")

    def __init__(self, cell: "Cell") -> None:
        self._cell = cell
        self._number = cell.incarnation
        self._timers: dict[str, tuple[Timer, object]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._deferred: set[Reply[Any]] = set()

    def owe(self, reply: Reply[Any]) -> None:
        """Remember an answer that is given later; see Context.defer."""
        self._deferred.add(reply)
        reply.on_done(self._deferred.discard)

    def pipe(
        self, reply: Reply[T], on_value: Callable[[T], Message], on_error: Callable[[Exception], Message]
    ) -> None:
        """See Context.pipe."""

        def arrive(done: Reply[T]) -> None:
            try:
                message = on_value(done.result())
            except Exception as error:
                message = on_error(error)
            self._post(message)

        reply.on_done(arrive)

    def run_beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """See Context.run."""
        task = asyncio.Task(work, loop=self._cell.system.loop, name=f"{self._cell.path}:{name}")
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._post(TaskFailed(error=error))

        task.add_done_callback(ended)

    def set_timer(self, key: str, delay: float, message: Message) -> None:
        """See Context.set_timer."""
        self.cancel_timer(key)
        token = object()
        timer = self._cell.system.clock.call_later(delay, self._fire, key, token, message)
        self._timers[key] = (timer, token)

    def cancel_timer(self, key: str) -> None:
        """See Context.cancel_timer."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[0].cancel()

    def still_set(self, fired: TimerFired) -> bool:
        """Say whether the timer was neither cancelled nor replaced since it fired, and forget it."""
        timer = self._timers.get(fired.key)
        if timer is None or timer[1] is not fired.token:
            return False
        del self._timers[fired.key]
        return True

    def release(self, error: Exception) -> None:
        """Answer everybody who waits for this incarnation, and end its timers and tasks."""
        for reply in list(self._deferred):
            reply.set_exception(error)
        self._deferred.clear()
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in list(self._tasks):
            task.cancel()

    def _fire(self, key: str, token: object, message: Message) -> None:
        timer = self._timers.get(key)
        if timer is not None and timer[1] is token:
            self._post(TimerFired(key=key, token=token, message=message))

    def _post(self, message: Message) -> None:
        """Put what the actor sends itself before all ordinary messages; a stale one is dropped."""
        cell = self._cell
        if self._number != cell.incarnation or cell.mailbox.closed or cell.status is Status.DOWN:
            cell.system.dead_letters.add(cell.path, type(message).__name__, DeadLetterReason.STALE)
            return
        cell.mailbox.control.append((message, cell.system.clock.monotonic(), None, None))
        cell.appended()
