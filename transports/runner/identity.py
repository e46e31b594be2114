"""Which process is meant: a pid alone names another one as soon as it is given out again."""

import enum
import os
from pathlib import Path

import msgspec
import psutil

PROC = Path("/proc")

TOLERANCE_SECONDS = 0.01
"""The clock that start times are told in ticks that often."""


class Fate(enum.Enum):
    """What can be told of a process that was seen before. Only GONE and REUSED prove that it has ended."""

    ALIVE = "alive"
    GONE = "gone"
    REUSED = "reused"
    """Its pid is another process's now."""
    UNREADABLE = "unreadable"
    """Some process has the pid; since when cannot be told."""


class ProcessIdentity(msgspec.Struct, frozen=True):
    """
    A pid with the time at which its process started.

    Where the kernel tells it, that is in seconds since the machine began, with the name of that run of the machine: no
    clock that is set moves it (REL-7). Elsewhere it is in unix seconds, as the kernel noted them then.
    """

    pid: int
    started: float
    boot: str = ""

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        """Return the identity of a running process. Raises ProcessLookupError if there is none."""
        try:
            return cls(pid, _started(psutil.Process(pid)), _boot())
        except psutil.NoSuchProcess:
            raise ProcessLookupError(pid) from None

    def fate(self) -> Fate:
        """Look whether the process still runs. A zombie has ended, though nobody has taken notice yet."""
        if self.boot != _boot():
            # Nothing outlives the run of the machine that it began in.
            return Fate.GONE
        try:
            process = psutil.Process(self.pid)
            if abs(_started(process) - self.started) > TOLERANCE_SECONDS:
                return Fate.REUSED
            return Fate.GONE if process.status() == psutil.STATUS_ZOMBIE else Fate.ALIVE
        except (psutil.NoSuchProcess, ValueError, OverflowError):
            return Fate.GONE
        except psutil.AccessDenied:
            return Fate.UNREADABLE


def _started(process: psutil.Process) -> float:
    try:
        # Field 22, counted after the name, which may hold anything.
        fields = (PROC / str(process.pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return process.create_time()


def _boot() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
