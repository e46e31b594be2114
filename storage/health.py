"""Whether the store can write, as far as its last write tells."""

import sqlite3

from actors.messages.store import Write


class Probe(Write[None], frozen=True, kw_only=True):
    """Write as little as can be written: after a fault somebody has to try, also if nobody has anything to say."""


class Health:
    """The last fault, until a write succeeds. Changed on the loop, read from any thread."""

    def __init__(self) -> None:
        self.fault: str | None = None

    def failed(self, fault: str) -> bool:
        """Note that a batch failed; say whether that is news."""
        news = self.fault is None
        self.fault = fault
        return news

    def wrote(self) -> bool:
        """Note that a write succeeded; say whether that is news."""
        news = self.fault is not None
        self.fault = None
        return news


def probe(connection: sqlite3.Connection, request: Probe) -> None:
    """See Probe."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    # The same number again, yet a page of the log.
    connection.execute(f"PRAGMA user_version = {version}")
