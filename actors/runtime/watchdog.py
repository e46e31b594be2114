"""A thread that sees when the event loop does not come round: what holds it cannot be seen from inside it."""

import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

import structlog

from actors.messages.events import EventData

if TYPE_CHECKING:
    from actors.runtime.system import System

log = structlog.get_logger("turnkeep.runtime")

SHOWN_FRAMES = 8


class Watchdog:
    """
    Knocks at the loop every ``every_s`` seconds, and measures how long it takes to answer and how much CPU its thread
    uses meanwhile (each knock is counted in the system's ``lag``): on a busy machine the first may be long through nobody's fault, the second is our own work (REL-5).

    A knock that takes over ``limit_s`` seconds or ``cpu_limit_s`` of CPU is logged, once, with the place at which the
    loop's thread is, and published as ``loop.lagged`` with both when the loop has come round. What holds it for longer
    than ``every_s`` is always seen, what is shorter only by chance.
    """

    def __init__(
        self, system: "System", *, every_s: float = 0.25, limit_s: float = 0.5, cpu_limit_s: float = 0.25
    ) -> None:
        self._system = system
        self._every_s = every_s
        self._limit_s = limit_s
        self._cpu_limit_s = cpu_limit_s
        self._loop_thread = threading.get_ident()
        self._cpu_clock = _cpu_clock(self._loop_thread)
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="turnkeep-watchdog", daemon=True)

    def start(self) -> None:
        """Begin, on the loop's thread."""
        self._thread.start()

    def stop(self) -> None:
        """End; a last knock may still be unanswered."""
        self._stopping.set()
        self._answered.set()

    def _watch(self) -> None:
        while not self._stopping.wait(self._every_s):
            begun, cpu_begun = time.monotonic(), self._cpu()
            self._answered.clear()
            try:
                self._system.loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                # The loop is closed.
                return
            in_time = self._answered_in_time(begun, cpu_begun)
            if not in_time:
                self._report()
                self._answered.wait()
            seconds = time.monotonic() - begun
            if self._stopping.is_set():
                return
            self._system.lag.add(seconds)
            if not in_time:
                self._tell(seconds, self._cpu() - cpu_begun)

    def _answered_in_time(self, begun: float, cpu_begun: float) -> bool:
        """Wait until the loop answers or a limit is passed; look at the clocks no more often than a limit could be."""
        while True:
            left = begun + self._limit_s - time.monotonic()
            cpu_left = cpu_begun + self._cpu_limit_s - self._cpu()
            if min(left, cpu_left) <= 0:
                return self._answered.is_set()
            # A thread uses at most a second of CPU a second: no limit is passed before that.
            if self._answered.wait(min(left, cpu_left)):
                return True

    def _cpu(self) -> float:
        """Return the seconds of CPU that the loop's thread has used; always 0 where the platform does not say."""
        try:
            return time.clock_gettime(self._cpu_clock) if self._cpu_clock is not None else 0.0
        except OSError:
            # The thread has ended, and its clock with it.
            return 0.0

    def _report(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        where = [f"{entry.filename}:{entry.lineno} {entry.name}" for entry in traceback.extract_stack(frame)]
        log.warning("loop.lagging", where=where[-SHOWN_FRAMES:])

    def _tell(self, seconds: float, cpu_seconds: float) -> None:
        data: EventData = {"seconds": round(seconds, 3), "cpu_seconds": round(cpu_seconds, 3)}
        self._system.loop.call_soon_threadsafe(self._system.publish, "loop.lagged", "/", data)


def _cpu_clock(thread: int) -> int | None:
    return time.pthread_getcpuclockid(thread) if hasattr(time, "pthread_getcpuclockid") else None
