"""From one schema version to the next: forward only, each step one transaction, after a backup of the file."""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from actors.exceptions import SchemaTooNew
from storage.schema import TABLES, VERSION

Step = Callable[[sqlite3.Connection], None]

STEPS: Mapping[int, Step] = {}
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
        connection.executescript(f"BEGIN IMMEDIATE;{TABLES}PRAGMA user_version = {target};COMMIT;")
        return
    if version < target:
        back_up(connection, path, version)
    for number in range(version, target):
        connection.execute("BEGIN IMMEDIATE")
        steps[number](connection)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")


def back_up(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copy the database to ``<name>.v<version>.bak``; return the copy's path."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    backup = path.with_name(f"{path.name}.v{version}.bak")
    shutil.copyfile(path, backup)
    backup.chmod(0o600)
    return backup
