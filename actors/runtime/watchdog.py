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
    Knocks at the loop every ``every_s`` seconds. One that takes longer than ``limit_s`` to answer is logged, once, with
    the place at which the loop's thread is, and published as ``loop.lagged`` when it has come round.
    """

    def __init__(self, system: "System", *, every_s: float = 0.25, limit_s: float = 0.5) -> None:
        self._system = system
        self._every_s = every_s
        self._limit_s = limit_s
        self._loop_thread = threading.get_ident()
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
            knocked = time.monotonic()
            self._answered.clear()
            try:
                self._system.loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                # The loop is closed.
                return
            if not self._answered.wait(self._limit_s):
                self._report()
                self._answered.wait()
                self._tell(time.monotonic() - knocked)

    def _report(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        where = [f"{entry.filename}:{entry.lineno} {entry.name}" for entry in traceback.extract_stack(frame)]
        log.warning("loop.lagging", where=where[-SHOWN_FRAMES:])

    def _tell(self, seconds: float) -> None:
        if not self._stopping.is_set():
            data: EventData = {"seconds": round(seconds, 3)}
            self._system.loop.call_soon_threadsafe(self._system.publish, "loop.lagged", "/", data)
