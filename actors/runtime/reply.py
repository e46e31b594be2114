"""The future of an ask: awaited on the loop, waited for from threads, resolved once."""

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import pykka

from actors.exceptions import BlockingCall, CallCycle, DeadlineExceeded
from actors.messages.lifecycle import DeadLetterReason

if TYPE_CHECKING:
    from actors.messages.base import Message
    from actors.runtime.budget import Budget
    from actors.runtime.cell import Cell
    from actors.runtime.clock import Timer

T = TypeVar("T")


def message_of(entry: "Message | Reply[Any]") -> "Message":
    """Return the message of a mailbox's entry."""
    return entry.message if isinstance(entry, Reply) else entry


class Reply(pykka.Future[T]):
    """
    The answer to one ask, and what lies in the mailbox for it.

    The first of answer, failure, stop and deadline wins; what comes later is counted as a late answer and dropped, so
    that a drain, a kill and a handler may race. Unlike its base it is awaited without blocking the loop, and a
    synchronous ``get`` on the loop's thread raises instead of deadlocking.
    """

    # Defaults of the class, as one is made for every ask and few attributes of most ever change. The base's
    # constructor is left out for the same reason: it prepares get hooks, which an awaited reply cannot have.
    _get_hook = None
    _done = False
    deferred = False
    """Whether it is answered later, by something else than the handler in hand."""
    _value: T | None = None
    _error: BaseException | None = None
    # The deadline's timer, or the set that shares one; None until somebody waits.
    _timer: "Timer | None" = None
    _grain: "set[Any] | None" = None
    _waiters: "tuple[asyncio.Future[None], ...]" = ()
    _callbacks: "tuple[Callable[[Reply[T]], None], ...]" = ()
    _event: threading.Event | None = None

    def __init__(self, cell: "Cell", message: "Message", budget: "Budget") -> None:
        self._cell = cell
        self.message = message
        self.budget = budget

    def __repr__(self) -> str:
        state = "pending" if not self._done else "failed" if self._error is not None else "answered"
        return f"<Reply of {self._cell.path} to {self._name}: {state}>"

    @property
    def _name(self) -> str:
        return type(self.message).__name__

    # Public methods

    def passed_to(self, cell: "Cell") -> None:
        """Note that another actor owes the answer from here on."""
        self._cell = cell

    def done(self) -> bool:
        """Say whether it is resolved, in whichever way."""
        return self._done

    def set(self, value: T | None = None) -> None:
        """Answer. Any thread may call it; only the first outcome counts."""
        if self._cell.system.on_loop_thread():
            self._resolve(value, None)
        else:
            self._resolve_anywhere(value, None)

    def set_exception(self, exc_info: Any = None) -> None:
        """Fail with an exception, or with an ``exc_info`` triple as pykka passes it."""
        error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
        self._resolve_anywhere(
            None, error if error is not None else RuntimeError("failed without an exception")
        )

    def on_done(self, callback: "Callable[[Reply[T]], None]", *, expiring: bool = True) -> None:
        """
        Call back on the loop when it is resolved; at once if it is already.

        Without ``expiring`` its deadline does not resolve it, and any thread may call this before it is posted.
        """
        if self._done:
            callback(self)
            return
        if expiring:
            self._arm()
        self._callbacks += (callback,)

    def expire(self) -> None:
        """Fail with DeadlineExceeded, unless it is resolved."""
        if not self._done:
            self._resolve(None, DeadlineExceeded(self._name))

    @property
    def value(self) -> T | None:
        """The answer; None as long as there is none, and after a failure."""
        return self._value

    def result(self) -> T:
        """Return the answer or raise the failure. Only once ``done()``."""
        assert self._done
        if self._error is not None:
            # One exception may be raised to many: without this its traceback would grow with each.
            raise self._error.with_traceback(None)
        return self._value  # type: ignore[return-value]  # T may itself be optional

    def get(self, *, timeout: float | None = None) -> T:
        """
        Wait in a thread, for at most ``timeout`` seconds and the ask's budget.

        Raises BlockingCall on the loop's own thread, DeadlineExceeded when the time is over.
        """
        if not self._done:
            if self._cell.system.on_loop_thread():
                raise BlockingCall(f"get() of {self!r} on the event loop's thread; await it")
            event = self._event = self._event or threading.Event()
            left = self.budget.remaining()
            # Checked again, as it may have been resolved before the event was seen.
            if not self._done and not event.wait(left if timeout is None else min(left, timeout)):
                raise DeadlineExceeded(self._name)
        return self.result()

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            self._arm()
            waiter = self._cell.system.loop.create_future()
            self._waiters += (waiter,)
            asker = self._cell.system.handling()
            if asker is None:
                yield from waiter.__await__()
            else:
                self._refuse_cycle(asker)
                asker.waits_for = self
                try:
                    yield from waiter.__await__()
                finally:
                    asker.waits_for = None
        return self.result()

    __iter__ = __await__

    # What pykka builds on hooks of get(), which nobody could await

    def set_get_hook(self, *_: Any) -> Any:
        """Refuse; so do filter, join, map and reduce."""
        raise NotImplementedError(f"{self!r} has no hooks; await it and work with its value")

    filter = join = map = reduce = set_get_hook  # type: ignore[assignment]  # they refuse whatever they get

    # Private methods

    def _refuse_cycle(self, asker: "Cell") -> None:
        """Raise CallCycle if the answer waits, over any number of handlers, for the one that is about to wait for it."""
        path = [asker.path]
        awaited: Reply[Any] | None = self
        while awaited is not None and not awaited.deferred:
            path.append(awaited._cell.path)
            if awaited._cell is asker:
                raise CallCycle(tuple(path))
            awaited = awaited._cell.waits_for

    def _arm(self) -> None:
        if self._grain is not None or self._timer is not None:
            return
        system = self._cell.system
        self._grain = system.deadlines.grain(self.budget.deadline)
        if self._grain is not None:
            self._grain.add(self)
        else:
            self._timer = system.clock.call_later(self.budget.remaining(), self.expire)

    def _resolve_anywhere(self, value: T | None, error: BaseException | None) -> None:
        system = self._cell.system
        if system.on_loop_thread():
            self._resolve(value, error)
            return
        try:
            system.loop.call_soon_threadsafe(self._resolve, value, error)
        except RuntimeError:
            # The loop is closed: nothing awaits any more, only a thread may still wait in get().
            self._resolve(value, error)

    def _resolve(self, value: T | None, error: BaseException | None) -> None:
        if self._done:
            letters = self._cell.system.dead_letters
            letters.add(self._cell.path, self._name, DeadLetterReason.LATE)
            return
        self._value = value
        self._error = error
        self._done = True
        if self._grain is not None:
            self._grain.discard(self)
        elif self._timer is not None:
            self._timer.cancel()
        if self._event is not None:
            self._event.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)
