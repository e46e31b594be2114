"""
An asyncio loop on virtual time, whose order of steps comes from a seed.

Time. ``time()`` as good as stands still while anything can run: a round of the loop takes a microsecond, as code that
waits for the rest of a deadline may find one that rounding has left. Once nothing is ready it jumps to the next timer. Work of threads
takes the virtual time that tests.simulation.threads gives it; a job of an executor is done on the spot, and its answer
arrives a moment later, unless its process has been killed by then.
When nothing is ready and no timer is set, nothing would ever happen again: that raises Stuck.

Order. asyncio documents that ``call_soon`` calls back in the order of registration, and libraries lean on it: a
transport calls ``connection_made`` before it wakes whoever asked for the connection, ``data_received`` before
``connection_lost``, a future its callbacks in order. Callbacks that are no steps of a task therefore keep their order
among themselves, and no step of a task overtakes one that was registered before it: that may be the cause it relies
on. What nobody is promised is *when* a task comes to run after it was made or woken: whichever other tasks run first,
and whatever I/O comes in between, could as well have been a moment earlier. So a task's step may wait for any other
task's step, and for plain callbacks that were registered later. A task has one step at most in the queue, so that its
own order is not in question. Without an rng the order is asyncio's own.
"""

import asyncio
import contextvars
import itertools
import random
import selectors
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

START = 1000.0
"""Monotonic seconds at the beginning."""

ROUND_SECONDS = 1e-6

JOB_SECONDS = 0.0005
"""How long after an executor's job was handed in its answer arrives."""

REAL_SECONDS = 30.0
"""How long a thread's work may really take before the run is given up."""

MOST_STEPS = 3_000_000
"""Callbacks of one loop: a run that needs more goes round in circles."""


class Stuck(Exception):
    """Nothing is ready, no timer is set and no thread works: what is waited for will never come."""


class Runaway(Exception):
    """Callbacks go on without end."""


class Process:
    """
    What belongs together and can be killed together: whatever was registered while it was the loop's, but not outside.

    Actors handle messages in clean contexts, so that it is the outside that is marked. ``tasks`` are those that have
    not ended, in the order in which they were made.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen: dict[asyncio.Task[Any], None] = {}
        self._prune_at = 256

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    def owns(self, task: asyncio.Task[Any]) -> None:
        """Remember a task."""
        self._seen[task] = None
        if len(self._seen) > self._prune_at:
            self._seen = {task: None for task in self._seen if not task.done()}
            self._prune_at = 2 * len(self._seen) + 256

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._seen if not task.done()]


OUTSIDE: contextvars.ContextVar[bool] = contextvars.ContextVar("outside", default=False)
"""Set where something belongs to the test or a far end."""


def outside() -> contextvars.Context:
    """Return a context in which nothing belongs to a process."""
    context = contextvars.Context()
    context.run(OUTSIDE.set, True)
    return context


class Ready:
    """The loop's queue of callbacks that are ready; ``popleft`` takes any of those whose turn it may be."""

    def __init__(self, rng: random.Random | None) -> None:
        self._rng = rng
        self._numbers = itertools.count()
        self._calls: deque[tuple[int, asyncio.Handle]] = deque()
        self._steps: list[tuple[int, asyncio.Handle]] = []
        self.taken = 0
        self.process: Process | None = None

    def __len__(self) -> int:
        return len(self._calls) + len(self._steps)

    def append(self, handle: asyncio.Handle) -> None:
        """Add a callback."""
        task = getattr(handle._callback, "__self__", None)
        if not isinstance(task, asyncio.Task):
            self._calls.append((next(self._numbers), handle))
            return
        self._steps.append((next(self._numbers), handle))
        if self.process is not None and not handle._context.get(OUTSIDE):
            self.process.owns(task)

    def popleft(self) -> asyncio.Handle:
        """Take the next one."""
        self.taken += 1
        if self.taken > MOST_STEPS:
            raise Runaway(f"more than {MOST_STEPS} callbacks; the next one is {self._calls or self._steps}")
        steps, calls = self._steps, self._calls
        if not steps:
            return calls.popleft()[1]
        # Steps that are older than every plain callback; any of them may be next, or that callback.
        eligible = len(steps)
        if calls:
            first = calls[0][0]
            eligible = next((n for n, (number, _) in enumerate(steps) if number > first), eligible)
        if self._rng is None:
            return steps.pop(0)[1] if eligible else calls.popleft()[1]
        choice = int(self._rng.random() * (eligible + bool(calls)))
        return steps.pop(choice)[1] if choice < eligible else calls.popleft()[1]

    def clear(self) -> None:
        """Forget everything."""
        self._calls.clear()
        self._steps.clear()


class VirtualSelector(selectors.DefaultSelector):
    """Instead of waiting it lets the loop's time pass."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is readable now; if nothing is, and nothing is ready, time has passed until the next timer."""
        self.loop.pass_time(ROUND_SECONDS)
        # The loop's own pipe, with which threads wake it, is always there.
        watching = len(self.get_map()) > 1
        events = super().select(0) if watching else []
        if events or timeout == 0:
            return events
        if timeout is None:
            raise Stuck("nothing is ready and no timer is set")
        self.loop.pass_time(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._now = START
        selector = VirtualSelector()
        selector.loop = self
        super().__init__(selector)
        self._ready: Any = Ready(rng)

    @property
    def steps(self) -> int:
        """How many callbacks have run."""
        return int(self._ready.taken)

    @property
    def process(self) -> Process | None:
        """To whom belongs what is registered from here on, unless it is outside."""
        return self._ready.process

    @process.setter
    def process(self, process: Process | None) -> None:
        self._ready.process = process

    def owner(self) -> Process | None:
        """Return the process that runs now, or None outside."""
        return None if OUTSIDE.get() else self.process

    def time(self) -> float:
        """Return virtual seconds."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Run at once, in no thread, and answer a moment later."""
        future = self.create_future()
        try:
            answer = partial(future.set_result, func(*args))
        except Exception as error:
            answer = partial(future.set_exception, error)
        self.call_later(JOB_SECONDS, lambda: future.done() or answer())
        return future

    def timers(self) -> Iterator[asyncio.TimerHandle]:
        """Return the timers of the process that are set, in no order."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled
        for timer in scheduled:
            if not timer.cancelled() and not timer._context.get(OUTSIDE):
                yield timer


class VirtualClock:
    """The clock of a system on such a loop. The wall clock goes with it, and may jump."""

    def __init__(self, loop: VirtualLoop, wall: float = 1_800_000_000.0) -> None:
        self._loop = loop
        self._ahead = wall - loop.time()
        self.monotonic = loop.time
        self.call_later = loop.call_later

    def wall(self) -> float:
        """Return unix seconds."""
        return self._loop.time() + self._ahead

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._ahead += seconds
