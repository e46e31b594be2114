"""Which process is meant: a pid alone names another one as soon as it is given out again."""

import enum

import msgspec
import psutil

TOLERANCE_SECONDS = 2.0
"""Start times are derived from the wall clock at boot, which may have been set since."""


class Fate(enum.Enum):
    """What can be told of a process that was seen before. Only GONE and REUSED prove that it has ended."""

    ALIVE = "alive"
    GONE = "gone"
    REUSED = "reused"
    """Its pid is another process's now."""
    UNREADABLE = "unreadable"
    """Some process has the pid; since when cannot be told."""


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A pid with the time at which its process started, in unix seconds."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        """Return the identity of a running process. Raises ProcessLookupError if there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            raise ProcessLookupError(pid) from None

    def fate(self) -> Fate:
        """Look whether the process still runs. A zombie has ended, though nobody has taken notice yet."""
        try:
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.started) > TOLERANCE_SECONDS:
                return Fate.REUSED
            return Fate.GONE if process.status() == psutil.STATUS_ZOMBIE else Fate.ALIVE
        except (psutil.NoSuchProcess, ValueError, OverflowError):
            return Fate.GONE
        except psutil.AccessDenied:
            return Fate.UNREADABLE
