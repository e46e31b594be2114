"""What a database error means for people, and what they can do about it (REL-2)."""

import os
import sqlite3
from pathlib import Path

from actors.exceptions import StoreUnavailable

MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space for {path}",
    sqlite3.SQLITE_READONLY: "{path} is read-only: make it and its directory writable",
    sqlite3.SQLITE_PERM: "{path} is read-only: make it and its directory writable",
    sqlite3.SQLITE_IOERR: "{path} cannot be read or written: check the disk, its free space and its quota",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened: check that its directory exists and is writable",
    sqlite3.SQLITE_BUSY: "another program holds a lock on {path}: end it",
    sqlite3.SQLITE_LOCKED: "another program holds a lock on {path}: end it",
    sqlite3.SQLITE_CORRUPT: "{path} is damaged: stop the daemon, keep a copy, and put a backup in its place",
    sqlite3.SQLITE_NOTADB: "{path} is no database: move it away, or put a backup in its place",
}

VAGUE = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})

PASSING = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""Faults that leave the connection as good as before."""


def explain(error: sqlite3.Error | OSError, path: Path) -> StoreUnavailable:
    """Return the fault that the asker gets. Its text never quotes what a statement held."""
    if isinstance(error, OSError):
        return StoreUnavailable(f"{path} cannot be used: {error.strerror or type(error).__name__}")
    meaning = MEANINGS.get(_told_code(error, path))
    if meaning is None:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        return StoreUnavailable(f"{path} failed with {name}: look at the disk and at the daemon's log")
    return StoreUnavailable(meaning.format(path=path))


def _told_code(error: sqlite3.Error, path: Path) -> int:
    """Return the code to be explained: where SQLite says only that a file failed, the files may show why."""
    code = primary_code(error)
    if code in VAGUE:
        here = [file for file in (path, path.with_name(f"{path.name}-wal"), path.parent) if file.exists()]
        if not all(os.access(file, os.W_OK) for file in here):
            return sqlite3.SQLITE_READONLY
        if here and os.statvfs(path.parent).f_bavail == 0:
            return sqlite3.SQLITE_FULL
    return code


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; SQLITE_ERROR if the error is not SQLite's own."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def spoils_connection(error: sqlite3.Error | OSError) -> bool:
    """Say whether a new connection is needed before the next try."""
    return not isinstance(error, sqlite3.Error) or primary_code(error) not in PASSING
