"""History: what was said in a session, by whom."""

import sqlite3
from collections.abc import Iterable

import msgspec

from actors.messages.rows import Entry, HistoryKind, HistoryRow
from actors.messages.store import EditPost, ReadHistory
from storage.columns import Column

CONVERSATION = """
SELECT json_group_array(json_object('seq', seq, 'role', role, 'content', content, 'inbox_id', inbox_id))
FROM (
    SELECT seq, role, content, inbox_id FROM history
    WHERE session_id = ? AND kind = 'message' ORDER BY seq DESC LIMIT ?
)
"""
# As one value: of rows each costs a hand-over of the interpreter's lock, and a long history has many.

LAST = 2**63 - 1


class Line(msgspec.Struct):
    """One row of CONVERSATION."""

    seq: int
    role: str
    content: str
    inbox_id: str | None


LINES = Column.of(list[Line])


def history_row(row: sqlite3.Row) -> HistoryRow:
    """Return a row as actors see it."""
    return HistoryRow(
        seq=row["seq"],
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        role=row["role"],
        content=row["content"],
        kind=HistoryKind(row["kind"]),
        author=row["author"],
        at=row["at"],
    )


def read_history(connection: sqlite3.Connection, request: ReadHistory) -> tuple[HistoryRow, ...]:
    """See ReadHistory."""
    rows = connection.execute(
        "SELECT * FROM history WHERE session_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
        (request.session_id, request.before if request.before is not None else LAST, request.limit),
    ).fetchall()
    return tuple(history_row(row) for row in reversed(rows))


def edit_post(connection: sqlite3.Connection, request: EditPost) -> bool:
    """See EditPost."""
    done = connection.execute(
        "UPDATE history SET content = ? WHERE seq = ? AND author = ?",
        (request.content, request.seq, request.author),
    )
    return done.rowcount == 1


def conversation(
    connection: sqlite3.Connection, session_id: str, inbox_id: str, limit: int
) -> tuple[Entry, ...]:
    """
    Return what a model gets of a session: its newest messages, without notices and broken-off texts.

    Those of ``inbox_id`` come last, also when the message is turned again after others.
    """
    packed = connection.execute(CONVERSATION, (session_id, limit)).fetchone()[0]
    lines: list[Line] = LINES.read(packed)
    lines.sort(key=lambda line: (line.inbox_id == inbox_id, line.seq))
    return tuple(Entry(role=line.role, content=line.content) for line in lines)


def append(
    connection: sqlite3.Connection,
    *,
    session_id: str,
    role: str,
    content: str,
    kind: HistoryKind,
    at: float,
    turn_id: str | None = None,
    inbox_id: str | None = None,
    author: str | None = None,
) -> int:
    """Add a row; return its seq."""
    cursor = connection.execute(
        "INSERT INTO history (session_id, turn_id, inbox_id, role, content, kind, author, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (session_id, turn_id, inbox_id, role, content, kind, author, at),
    )
    return int(cursor.lastrowid or 0)


def get(connection: sqlite3.Connection, seq: int) -> HistoryRow:
    """Return a row that is there."""
    return history_row(connection.execute("SELECT * FROM history WHERE seq = ?", (seq,)).fetchone())


def is_empty(connection: sqlite3.Connection, session_id: str) -> bool:
    """Say whether nothing was said in a session yet."""
    row = connection.execute("SELECT 1 FROM history WHERE session_id = ? LIMIT 1", (session_id,)).fetchone()
    return row is None


def seed(connection: sqlite3.Connection, session_id: str, entries: Iterable[Entry], at: float) -> None:
    """Begin a session's history with what its client brought."""
    for entry in entries:
        append(
            connection,
            session_id=session_id,
            role=entry.role,
            content=entry.content,
            kind=HistoryKind.MESSAGE,
            at=at,
        )
