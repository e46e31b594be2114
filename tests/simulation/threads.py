"""
The thread behind a database connection, as part of the simulation: when its work is done is decided by the seed.

aiosqlite hands a connection's thread its jobs through a queue. Here that queue belongs to the loop. A job starts a drawn
moment after it was handed in; the loop stands still until it has really been done, and its answer arrives another
moment later. So a thread never runs beside the loop, what it does has one place in the order of things, and a kill can
come before the work, or between the work and its answer.
"""

import contextlib
import contextvars
import queue
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import aiosqlite.core

from tests.simulation.loop import REAL_SECONDS, Process, VirtualLoop, outside

FAST, SLOW = 0.0005, 0.02
"""Seconds that a job takes at most, as a rule and now and then."""


class Killed(BaseException):
    """Raised in a thread whose process has been killed while it was held up."""


class JobQueue:
    """In the place of aiosqlite's queue: one connection's jobs."""

    def __init__(self, threads: "Threads", process: Process | None) -> None:
        self._threads = threads
        self.process = process
        self.real: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Jobs that have not been started, and answers that have not arrived; each has a timer of its own.
        self.waiting: deque[Any] = deque()
        self.answers: deque[list[Callable[[], None]]] = deque()
        # Set when the thread is done with what it was given, or is held up in it.
        self.quiet = threading.Event()
        self.resumed = threading.Event()
        # For how many virtual seconds the thread asks to be held up.
        self.held: float | None = None
        self.dead = False

    # The loop's side

    def put_nowait(self, job: Any) -> None:
        """Hand a job in."""
        if self.dead:
            self.real.put(job)
        else:
            self._threads.submit(self, job)

    # The thread's side

    def get(self) -> Any:
        """Wait for a job."""
        return self.real.get()


class Threads:
    """All connections of one loop. Active within ``installed``."""

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._queues: list[JobQueue] = []
        self._context = outside()
        self._here = threading.local()
        # What the thread that works now has posted to the loop.
        self._posted: list[Callable[[], None]] = []
        self._loop_thread = threading.get_ident()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Let connections that are made from here on be this simulation's."""
        original, post = aiosqlite.core.SimpleQueue, self._loop.call_soon_threadsafe
        aiosqlite.core.SimpleQueue = self._make_queue
        self._loop.call_soon_threadsafe = self._post
        try:
            yield
        finally:
            aiosqlite.core.SimpleQueue = original
            self._loop.call_soon_threadsafe = post

    def _make_queue(self) -> JobQueue:
        jobs = JobQueue(self, self._loop.owner())
        self._queues.append(jobs)
        return jobs

    def _post(self, callback: Any, *args: Any, context: Any = None) -> Any:
        if threading.get_ident() == self._loop_thread:
            return self._loop.call_soon(callback, *args, context=context)
        jobs: JobQueue | None = getattr(self._here, "jobs", None)
        if jobs is None or jobs.dead:
            # Its process was killed: nobody hears of it.
            return None
        context = context or contextvars.copy_context()
        self._posted.append(lambda: self._loop.call_soon(callback, *args, context=context) and None)
        # A job with a future posts once, last of all.
        jobs.quiet.set()
        return None

    # A job's way

    def submit(self, jobs: JobQueue, job: Any) -> None:
        """Let the job start in a moment, after those before it."""
        jobs.waiting.append(job)
        self._later(self._moment(), self._start, jobs)
        if getattr(job[1], "__name__", "") == "close_and_stop":
            # Whoever hands this in may join the thread right away.
            while jobs.waiting and jobs.held is None:
                self._start(jobs)

    def _start(self, jobs: JobQueue) -> None:
        if not jobs.waiting:
            return
        if jobs.held is not None:
            # The thread is held up in an earlier one.
            self._later(self._moment(), self._start, jobs)
            return
        job = jobs.waiting.popleft()
        jobs.quiet.clear()
        jobs.real.put(self._named(jobs, *job))
        self._work(jobs)

    def _work(self, jobs: JobQueue) -> None:
        """Stand still until the thread is done, or held up."""
        if not jobs.quiet.wait(REAL_SECONDS):
            raise TimeoutError("a thread has been at work for too long")
        if jobs.held is not None:
            self._later(jobs.held, self._resume, jobs)
            return
        posted, self._posted = self._posted, []
        jobs.answers.append(posted)
        self._later(self._moment(), self._answer, jobs)

    def _named(self, jobs: JobQueue, future: Any, function: Callable[[], Any]) -> Any:
        """Let the thread know whose job it does."""

        def named() -> Any:
            self._here.jobs = jobs
            try:
                return function()
            finally:
                if future is None:
                    jobs.quiet.set()

        return future, named

    def _resume(self, jobs: JobQueue) -> None:
        if jobs.dead:
            return
        jobs.held = None
        jobs.quiet.clear()
        jobs.resumed.set()
        self._work(jobs)

    def _answer(self, jobs: JobQueue) -> None:
        if jobs.answers:
            for post in jobs.answers.popleft():
                post()

    def _later(self, seconds: float, callback: Callable[[JobQueue], None], jobs: JobQueue) -> None:
        self._loop.call_later(seconds, callback, jobs, context=self._context)

    def _moment(self) -> float:
        return self._rng.random() * (FAST if self._rng.random() < 0.95 else SLOW)

    # What a failpoint may do

    def hold_up(self, seconds: float) -> None:
        """Hold the calling thread up for so many virtual seconds; Killed if its process is killed meanwhile."""
        jobs: JobQueue = self._here.jobs
        jobs.resumed.clear()
        jobs.held = seconds
        if not jobs.dead:
            jobs.quiet.set()
            jobs.resumed.wait()
        if jobs.dead:
            raise Killed

    def kill(self, process: Process) -> None:
        """Let no job of a process be done any more. What its connections are handed from here on is done at once."""
        for jobs in self._queues:
            if jobs.process is process:
                jobs.dead = True
                jobs.waiting.clear()
                jobs.answers.clear()
                jobs.resumed.set()
        self._queues = [jobs for jobs in self._queues if not jobs.dead]

    def working(self) -> bool:
        """Say whether any job or answer is under way."""
        return any(jobs.waiting or jobs.answers or jobs.held is not None for jobs in self._queues)
