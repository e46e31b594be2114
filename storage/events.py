"""Events: the bus's durable tail."""

import sqlite3
from typing import Any

from actors.messages.events import Event
from actors.messages.store import AppendEvents, LastEventSeq, ReadEvents, ReadEventsBefore
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
    return tuple(_event(row) for row in rows)


def read_events_before(connection: sqlite3.Connection, request: ReadEventsBefore) -> tuple[Event, ...]:
    """See ReadEventsBefore."""
    rows = connection.execute(
        "SELECT * FROM events WHERE seq < :seq AND seq >= coalesce("
        "(SELECT seq FROM events WHERE seq < :seq ORDER BY seq DESC LIMIT 1 OFFSET :count - 1), 0) "
        "ORDER BY seq LIMIT :limit",
        {"seq": request.seq, "count": request.count, "limit": request.limit},
    )
    return tuple(_event(row) for row in rows)


def _event(row: sqlite3.Row) -> Event:
    return Event(
        seq=row["seq"], kind=row["kind"], path=row["path"], at=row["at"], data=DATA.read(row["data"])
    )
