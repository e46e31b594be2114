"""Events: the bus's durable tail."""

import sqlite3
from typing import Any

from actors.messages.events import Event
from actors.messages.store import AppendEvents, LastEventSeq, ReadEvents
from storage.columns import Column, encode

DATA = Column.of(dict[str, Any])


def append_events(connection: sqlite3.Connection, request: AppendEvents) -> None:
    """See AppendEvents."""
    for event in request.events:
        connection.execute(
            "INSERT INTO events (seq, kind, path, at, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT (seq) DO NOTHING",
            (event.seq, event.kind, event.path, event.at, encode(event.data)),
        )


def last_event_seq(connection: sqlite3.Connection, request: LastEventSeq) -> int:
    """See LastEventSeq."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])


def read_events(connection: sqlite3.Connection, request: ReadEvents) -> tuple[Event, ...]:
    """See ReadEvents."""
    rows = connection.execute(
        "SELECT * FROM events WHERE seq >= ? ORDER BY seq LIMIT ?", (request.from_seq, request.limit)
    )
    return tuple(
        Event(seq=row["seq"], kind=row["kind"], path=row["path"], at=row["at"], data=DATA.read(row["data"]))
        for row in rows
    )
