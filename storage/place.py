"""The files of an open database: SQLite itself does not notice that one of them has been taken away."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from actors.exceptions import StoreUnavailable

LOG, INDEX = "-wal", "-shm"
"""What SQLite keeps beside the file while it is open: the newest commits, and where they are in there."""


Stamp = tuple[int, int, int]
"""A directory and its last change: while that is the same, no file in it has come or gone."""

SETTLE_SECONDS = 2.0
"""No file system stamps more coarsely: a stamp that is older is not that of the next change."""


class LogSaved(Exception):
    """The log was gone, and what it held is in the database file now: a new connection goes on with a new log."""


class Place:
    """The files as they were when the connection was opened. From any thread."""

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        # Texts, as they are looked at before each batch.
        self._directory = str(path.parent)
        self._at = str(path)
        self._beside = (str(_beside(path, LOG)), str(_beside(path, INDEX)))
        self._file = _found_at(self._at)
        self._found_beside = tuple(map(_found_at, self._beside))
        # The directory's stamp, and when it was first seen.
        self._stamp: Stamp | None = None
        self._stamped_at = 0.0
        # The one under which all three were there, and no later change can hide.
        self._settled: Stamp | None = None

    def check(self, raw: sqlite3.Connection) -> None:
        """
        Return if all are there. Called between transactions of ``raw``.

        Raises StoreUnavailable if what is written would not last, and LogSaved once that has been seen to.
        """
        stamp = _stamp_of(self._directory)
        if stamp is not None and stamp == self._settled:
            return
        if _found_at(self._at) != self._file:
            raise StoreUnavailable(
                f"{self._path} was moved, deleted or replaced while it was in use: put it back as it was,"
                " or restart the daemon"
            )
        if tuple(map(_found_at, self._beside)) == self._found_beside:
            self._settle(stamp)
            return
        # The open files still have everything that was committed.
        busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreUnavailable(
                f"{self._beside[0]} was deleted while it was in use, and another program that reads {self._path}"
                " keeps its content from being saved: end that program, not the daemon"
            )
        raise LogSaved

    def _settle(self, stamp: Stamp | None) -> None:
        now = self._monotonic()
        if stamp != self._stamp:
            self._stamp, self._stamped_at = stamp, now
        elif now - self._stamped_at > SETTLE_SECONDS:
            self._settled = stamp


def refuse_without_log(path: Path) -> None:
    """Raise StoreUnavailable if the log, or the file that it belongs to, was deleted after a crash."""
    log, index = _beside(path, LOG), _beside(path, INDEX)
    # In good order both go with the last connection, the index first.
    if index.exists() and not log.exists():
        raise StoreUnavailable(
            f"{log} is missing, in which the newest commits are: put it back;"
            f" to start without them, move {index} away"
        )
    if log.exists() and log.stat().st_size and not path.exists():
        raise StoreUnavailable(
            f"{path} is missing, to which {log} belongs: put it back; to begin with an empty one, move {log} away"
        )


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _stamp_of(directory: str) -> Stamp | None:
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _found_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
