"""The data directory: who owns it, which schema it has, and connections to its file."""

import fcntl
import os
import sqlite3
from pathlib import Path

from actors.exceptions import DataDirLocked, StoreUnavailable
from storage.connection import Connection, make_connection
from storage.migrations import migrate
from storage.seal import Seal

FILE = "turnkeep.db"


class Database:
    """An owned data directory. The lock is held until ``close``, over any number of connections."""

    def __init__(self, data_dir: Path, lock: int, seal: Seal) -> None:
        self.data_dir = data_dir
        self.path = data_dir / FILE
        self.seal = seal
        self._lock: int | None = lock

    async def connect(self) -> Connection:
        """Return an open connection to the migrated database. Raises StoreUnavailable, SchemaTooNew."""
        connection = make_connection(self.path)
        try:
            await connection
            await connection.run(lambda raw: migrate(raw, self.path))
        except sqlite3.Error as error:
            await connection.close()
            raise explain(error, self.path) from error
        except BaseException:
            await connection.close()
            raise
        return connection

    def close(self) -> None:
        """Give the directory up. A second call does nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


async def open_database(data_dir: Path) -> Database:
    """
    Take the data directory, made if it is missing, and check its database.

    Raises DataDirLocked, SchemaTooNew or StoreUnavailable; each says what to do.
    """
    try:
        lock = _take(data_dir)
    except OSError as error:
        raise StoreUnavailable(f"the data directory {data_dir} cannot be used: {error.strerror}") from error
    try:
        database = Database(data_dir, lock, Seal.at(data_dir / "secret.key"))
        connection = await database.connect()
        await connection.close()
    except BaseException:
        os.close(lock)
        raise
    return database


def _take(data_dir: Path) -> int:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DataDirLocked(
            f"another turnkeepd (pid {owner}) uses {data_dir}: stop it, or give this one its own --data-dir"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def explain(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """Say what a database error means and what to do about it."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    what = {
        sqlite3.SQLITE_FULL: f"the disk is full: free some space for {path}",
        sqlite3.SQLITE_READONLY: f"{path} is read-only: make it and its directory writable",
        sqlite3.SQLITE_IOERR: f"{path} cannot be read or written: look at the disk",
        sqlite3.SQLITE_CANTOPEN: f"{path} cannot be opened: check that its directory exists and is writable",
        sqlite3.SQLITE_BUSY: f"another program holds a lock on {path}: end it",
        sqlite3.SQLITE_LOCKED: f"another program holds a lock on {path}: end it",
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged: restore a backup in its place",
        sqlite3.SQLITE_NOTADB: f"{path} is no database: move it away, or restore a backup in its place",
    }.get(primary if primary is not None else -1)
    return StoreUnavailable(what or f"{path} failed with {type(error).__name__}")
