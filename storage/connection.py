"""One SQLite connection on aiosqlite's thread, used a whole batch at a time."""

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import aiosqlite

T = TypeVar("T")

STATEMENTS = 256
"""More than the store has texts of SQL, so that each is compiled once."""

PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # In WAL mode only this makes a commit survive a loss of power.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    # A burst may leave a large log behind; it is cut back to this at the next checkpoint.
    "PRAGMA journal_size_limit = 67108864",
)


class Connection(aiosqlite.Connection):
    """
    aiosqlite's connection with one verb more: run a function on its thread.

    A batch of a hundred statements costs one hop to the thread and back instead of a hundred; no other statement gets
    between those of a batch. Cancelling the wait does not stop the work.
    """

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        """Start ``work`` on the connection's thread at once; the future has what it returns or raises."""
        # aiosqlite has no public way to run more than one statement a hop, nor to start without a first wait.
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._tx.put_nowait((future, partial(work, self._conn)))
        return future

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on the connection's thread; raise what it raises."""
        return await self.submit(work)


async def open_connection(path: Path, busy_s: float) -> Connection:
    """Return an open connection, on a thread of its own. Transactions are explicit. Raises sqlite3.Error."""

    def connect() -> sqlite3.Connection:
        # A file that is missing is missed, not made anew: the database would be empty without a word.
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=busy_s,
            isolation_level=None,
            cached_statements=STATEMENTS,
        )

    connection = Connection(connect, iter_chunk_size=64)
    # A store that was killed cannot close it; its thread must not keep the process from ending.
    connection._thread.daemon = True
    try:
        await connection
    except BaseException:
        # Its thread still tells the loop that it ends, and must not find the loop closed.
        connection._thread.join()
        raise
    try:
        await connection.run(_set_up)
    except BaseException:
        await connection.close()
        raise
    return connection


def _set_up(raw: sqlite3.Connection) -> None:
    raw.row_factory = sqlite3.Row
    for pragma in PRAGMAS:
        raw.execute(pragma)
