"""The data directory: who owns it, which schema it has, and connections to its file."""

import fcntl
import os
import sqlite3
from pathlib import Path

from actors.exceptions import DataDirLocked, StoreUnavailable
from storage.connection import Connection, open_connection
from storage.faults import explain
from storage.migrations import migrate
from storage.place import Place, refuse_without_log
from storage.seal import Seal
from storage.settings import StoreSettings

FILE = "turnkeep.db"

CHECK_BYTES = 16 * 1024 * 1024
"""Up to this size the whole file is checked when it is opened, which takes a tenth of a second at most."""


class Database:
    """
    An owned data directory: the lock is held until ``close``, over any number of connections.

    At most one connection is open: a store that was killed or has crashed leaves one behind, which ``connect`` closes.
    """

    def __init__(self, data_dir: Path, settings: StoreSettings) -> None:
        self.data_dir = data_dir
        self.path = data_dir / FILE
        self._settings = settings
        self._lock: int | None = _take(data_dir)
        self._connection: Connection | None = None
        self._place: Place | None = None
        try:
            refuse_without_log(self.path)
            self.seal = Seal.at(data_dir / "secret.key")
            _create(self.path)
        except BaseException:
            self.close()
            raise

    async def connect(self) -> Connection:
        """
        Return the one open connection, to the migrated database.

        Raises StoreUnavailable or SchemaTooNew, and DataDirLocked if it was closed and is another daemon's now.
        """
        await self.disconnect()
        if self._lock is None:
            self._lock = _take(self.data_dir)
        try:
            self._connection = await open_connection(self.path, self._settings.busy_s)
            await self._connection.run(self._prepare)
            self._place = Place(self.path)
        except BaseException as error:
            await self.disconnect()
            if isinstance(error, sqlite3.Error | OSError):
                raise explain(error, self.path) from error
            raise
        return self._connection

    async def disconnect(self) -> None:
        """Close the connection, after the work that its thread has; SQLite then folds its log into the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def check_place(self, raw: sqlite3.Connection) -> None:
        """See Place.check, for the connection that is open."""
        assert self._place is not None
        self._place.check(raw)

    def close(self) -> None:
        """Give the directory up. A second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _prepare(self, raw: sqlite3.Connection) -> None:
        migrate(raw, self.path)
        # SQLite opens a file that it may not write without a word.
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("ROLLBACK")


async def open_database(data_dir: Path, settings: StoreSettings | None = None) -> Database:
    """
    Take the data directory, made if it is missing (0700), and check its database.

    Raises DataDirLocked, SchemaTooNew or StoreUnavailable; each says what to do.
    """
    database = Database(data_dir, settings or StoreSettings())
    try:
        connection = await database.connect()
        if database.path.stat().st_size <= CHECK_BYTES:
            await connection.run(lambda raw: _check(raw, database.path))
        await database.disconnect()
    except BaseException:
        await database.disconnect()
        database.close()
        raise
    return database


def _take(data_dir: Path) -> int:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"the data directory {data_dir} cannot be used: {error.strerror}; make it writable, or name another one"
        ) from error
    try:
        # The lock goes with the process, however it ends; the file and its text stay.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DataDirLocked(
            f"another turnkeepd (pid {owner}) uses {data_dir}: stop it, or give this one its own --data-dir"
        ) from None
    except OSError as error:
        os.close(descriptor)
        raise explain(error, data_dir / "lock") from error
    return descriptor


def _create(path: Path) -> None:
    """Make the file before SQLite does, so that nobody else may read it; its log inherits the mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise explain(error, path) from error


def _check(raw: sqlite3.Connection, path: Path) -> None:
    try:
        found = raw.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise explain(error, path) from error
    if found != "ok":
        raise StoreUnavailable(
            f"{path} is damaged: keep a copy, and put a backup in its place (PRAGMA integrity_check tells more)"
        )
