"""
A copy of the database as it is at one moment, made while others write.

The copy is read from a snapshot on a connection and a thread of its own, in steps with pauses, and is on the disk piece by
piece: neither a writer's commit nor its sync waits for more than one of them.
"""

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from actors.exceptions import Conflict, Invalid, StoreUnavailable, Unavailable
from actors.messages.store import BackedUp
from storage.faults import explain, primary_code

STEP_PAGES = 64
"""Pages copied at once: 256 KiB, a few milliseconds on a slow disk."""
PAUSE_SECONDS = 0.002
"""Between steps."""
SYNC_STEPS = 16
"""After so many steps what was copied is synced, so that no large flush stands before a writer's small one."""


class Abandoned(Exception):
    """Nobody waits for the copy any more."""


class Backup:
    """One copy under way, on a thread of its own."""

    def __init__(self, source: Path, target: str) -> None:
        self._source = source
        self._target = Path(target)
        self._given_up = threading.Event()
        self._ended = asyncio.Event()

    async def made(self) -> BackedUp:
        """
        Make the copy and return what it is.

        Raises Invalid or Conflict for a path that will not do, and Unavailable or StoreUnavailable, with nothing left
        behind, if it cannot be finished. Cancelling it gives it up.
        """
        try:
            return await asyncio.to_thread(self._run)
        except Abandoned:
            raise Unavailable(
                f"the backup to {self._target} was given up before its end: its time was over, or the store ended",
                code="backup_failed",
            ) from None
        finally:
            self._given_up.set()
            self._ended.set()

    def give_up(self) -> None:
        """Let it end soon, with nothing left behind."""
        self._given_up.set()

    async def abandon(self) -> None:
        """Give it up, and return when it has ended."""
        self.give_up()
        await self._ended.wait()

    def _run(self) -> BackedUp:
        self._refuse()
        partial = self._target.with_name(f".{self._target.name}.partial")
        with self._made(partial) as descriptor:
            self._copy(partial, descriptor)
            size = os.fstat(descriptor).st_size
            self._name(partial)
        return BackedUp(path=str(self._target), bytes=size)

    def _refuse(self) -> None:
        if not self._target.is_absolute() or not self._target.name or not _is_sayable(str(self._target)):
            raise Invalid(
                f"{str(self._target)!r} is no absolute path of a file, for example /var/backups/turnkeep.db"
            )
        if os.path.lexists(self._target):
            raise Conflict(f"{self._target} exists already: choose another name, or move it away")

    @contextlib.contextmanager
    def _made(self, partial: Path) -> Iterator[int]:
        """Make the file under its provisional name, and take that away again in the end, whatever happens."""
        with self._explained():
            # One that a killed daemon left behind.
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with self._explained():
                yield descriptor
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"{self._target} cannot be written: {error.strerror or type(error).__name__}",
                code="backup_failed",
            ) from error

    def _copy(self, partial: Path, descriptor: int) -> None:
        with _opened(f"{self._source.absolute().as_uri()}?mode=ro", self._source) as source:
            # While this is open, the source looks as it does now, and no write makes the copy begin anew.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            with _opened(partial.absolute().as_uri(), partial) as copy:
                # It counts only when it is whole.
                copy.execute("PRAGMA journal_mode = OFF")
                copy.execute("PRAGMA synchronous = OFF")
                try:
                    source.backup(
                        copy, pages=STEP_PAGES, progress=self._pace(descriptor), sleep=PAUSE_SECONDS
                    )
                except sqlite3.Error as error:
                    damaged = primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
                    fault = explain(error, self._source if damaged else self._target)
                    raise Unavailable(str(fault), code="backup_failed") from error
        os.fsync(descriptor)

    def _pace(self, descriptor: int) -> Callable[[int, int, int], None]:
        steps = 0

        def pace(status: int, remaining: int, total: int) -> None:
            nonlocal steps
            if self._given_up.is_set():
                raise Abandoned
            steps += 1
            if steps % SYNC_STEPS == 0:
                os.fdatasync(descriptor)
            time.sleep(PAUSE_SECONDS)

        return pace

    def _name(self, partial: Path) -> None:
        try:
            # Unlike a rename it takes nobody else's place.
            os.link(partial, self._target)
        except FileExistsError:
            raise Conflict(
                f"{self._target} was made by somebody else meanwhile: choose another name"
            ) from None
        directory = os.open(self._target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _is_sayable(path: str) -> bool:
    """Say whether the system can be told this path: a NUL ends it, and a lone surrogate has no bytes."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@contextlib.contextmanager
def _opened(uri: str, path: Path) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreUnavailable(str(explain(error, path))) from error
    with contextlib.closing(connection):
        yield connection
