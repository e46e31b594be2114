"""From one schema version to the next: forward only, each step one transaction, after a backup of the file."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from actors.exceptions import SchemaTooNew, StoreUnavailable
from storage.schema import (
    APPLICATION_ID,
    BEGINNINGS,
    COLUMNS,
    COMPACTIONS,
    DELIVERY_COLUMNS,
    QUARANTINES,
    TABLES,
    TURN_COLUMNS,
    VERSION,
)

Step = Callable[[sqlite3.Connection], None]


def add_quarantines(connection: sqlite3.Connection) -> None:
    """Lead from version 1 to 2."""
    # One by one, as a script would commit what has begun.
    for statement in QUARANTINES:
        connection.execute(statement)


def add_tool_calls_and_parts(connection: sqlite3.Connection) -> None:
    """Lead from version 2 to 3."""
    for table, column in COLUMNS:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def add_beginnings(connection: sqlite3.Connection) -> None:
    """Lead from version 3 to 4."""
    for table, column in DELIVERY_COLUMNS:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    connection.execute(BEGINNINGS)


def add_turn_columns_and_find_compactions(connection: sqlite3.Connection) -> None:
    """Lead from version 4 to 5."""
    for table, column in TURN_COLUMNS:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    connection.execute(COMPACTIONS)


STEPS: Mapping[int, Step] = {
    1: add_quarantines,
    2: add_tool_calls_and_parts,
    3: add_beginnings,
    4: add_turn_columns_and_find_compactions,
}
"""The step that leads away from each older version."""


def migrate(
    connection: sqlite3.Connection, path: Path, *, target: int = VERSION, steps: Mapping[int, Step] = STEPS
) -> None:
    """
    Bring the database to ``target``. A new one gets the tables; an older one is backed up beside itself first.

    Raises SchemaTooNew, and leaves the file alone, if a newer Turnkeep wrote it.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > target:
        raise SchemaTooNew(
            f"{path} has schema version {version}, this Turnkeep knows {target}: install a newer one, "
            "or restore the backup that the newer one made beside it"
        )
    if version == 0:
        _create(connection, path, target)
        return
    if version < target:
        back_up(connection, path, version)
    # A step that fails leaves its transaction to the connection, which is closed then.
    for number in range(version, target):
        connection.execute("BEGIN IMMEDIATE")
        steps[number](connection)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")


def back_up(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """
    Copy the database to ``<name>.v<version>.bak``; return the copy's path. A former copy gives way, once this one is whole.

    Raises sqlite3.Error or OSError with nothing left behind.
    """
    backup = path.with_name(f"{path.name}.v{version}.bak")
    partial = backup.with_name(f"{backup.name}.new")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with contextlib.closing(sqlite3.connect(partial)) as copy:
            connection.backup(copy)
        partial.replace(backup)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    # The steps that follow are durable, and the way back must be so before them.
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return backup


def _create(connection: sqlite3.Connection, path: Path, version: int) -> None:
    if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None:
        raise StoreUnavailable(f"{path} is not Turnkeep's: move it away, or name another data directory")
    connection.executescript(
        f"BEGIN IMMEDIATE;{TABLES}"
        f"PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {version};COMMIT;"
    )
