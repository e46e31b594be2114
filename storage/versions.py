"""
Versioned rows: whoever changes one names the version that it has read, so that no change of another is lost.

A row begins with version 1, and each change makes it one more.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any

from actors.exceptions import Conflict

CODE = "version_conflict"


def change(
    connection: sqlite3.Connection,
    table: str,
    key: Mapping[str, Any],
    version: int,
    changes: Mapping[str, Any],
) -> int:
    """
    Change the row of ``key`` if ``version`` is still its own; return the new one.

    Raises Conflict (``version_conflict``), with nothing written, if it is another's by now, or the row is gone. Names of
    tables and columns are ours, never a request's.
    """
    columns = ", ".join(f"{column} = ?" for column in changes)
    row = " AND ".join(f"{column} = ?" for column in key)
    done = connection.execute(
        f"UPDATE {table} SET {columns}, version = version + 1 WHERE {row} AND version = ?",
        (*changes.values(), *key.values(), version),
    )
    if done.rowcount == 1:
        return version + 1
    found = connection.execute(f"SELECT version FROM {table} WHERE {row}", tuple(key.values())).fetchone()
    stored = f"version {found[0]} is stored" if found is not None else "it is gone"
    raise Conflict(
        f"a row of {table} was changed meanwhile: version {version} was expected, {stored}; read it and try again",
        code=CODE,
    )
