"""What StoreInfo answers."""

import sqlite3
from pathlib import Path
from typing import Any


def describe(
    connection: sqlite3.Connection, path: Path, *, rows: bool, commits: int, writes: int
) -> dict[str, Any]:
    """See StoreInfo."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return {
        "path": str(path),
        "schema": connection.execute("PRAGMA user_version").fetchone()[0],
        "bytes": sum(file.stat().st_size for file in files if file.exists()),
        "rows": {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in (tables(connection) if rows else ())
        },
        "commits": commits,
        "writes": writes,
    }


def tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of our tables."""
    rows = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    return [row[0] for row in rows]
