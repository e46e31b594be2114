"""History: what was said in a session, by whom."""

import sqlite3
from collections.abc import Iterable

from actors.messages.rows import Entry, HistoryKind, HistoryRow
from actors.messages.store import EditPost, ReadHistory
from storage.conversations import Conversations
from storage.entries import beside, read_beside

LAST = 2**63 - 1
RECENT = 500
"""How many of the newest messages may hold a call that is still answered."""

NEWEST_BESIDE = """
SELECT beside FROM
    (SELECT role, beside FROM history WHERE session_id = ? AND kind = 'message' ORDER BY seq DESC LIMIT ?)
WHERE role = 'assistant' AND beside IS NOT NULL
"""


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
        tool_calls=read_beside(row["beside"]).tool_calls,
    )


def read_history(connection: sqlite3.Connection, request: ReadHistory) -> tuple[HistoryRow, ...]:
    """See ReadHistory."""
    rows = connection.execute(
        "SELECT * FROM history WHERE session_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
        (request.session_id, request.before if request.before is not None else LAST, request.limit),
    ).fetchall()
    return tuple(history_row(row) for row in reversed(rows))


def edit_post(connection: sqlite3.Connection, request: EditPost, conversations: Conversations) -> bool:
    """See EditPost."""
    conversations.forget()
    done = connection.execute(
        "UPDATE history SET content = ? WHERE seq = ? AND author = ?",
        (request.content, request.seq, request.author),
    )
    return done.rowcount == 1


def append(
    connection: sqlite3.Connection,
    *,
    session_id: str,
    entry: Entry,
    kind: HistoryKind,
    at: float,
    turn_id: str | None = None,
    inbox_id: str | None = None,
    author: str | None = None,
    upto: int | None = None,
) -> int:
    """Add a row; return its seq."""
    cursor = connection.execute(
        "INSERT INTO history (session_id, turn_id, inbox_id, role, content, kind, author, at, beside, upto)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (session_id, turn_id, inbox_id, entry.role, entry.content, kind, author, at, beside(entry), upto),
    )
    return int(cursor.lastrowid or 0)


def get(connection: sqlite3.Connection, seq: int) -> HistoryRow:
    """Return a row that is there."""
    return history_row(connection.execute("SELECT * FROM history WHERE seq = ?", (seq,)).fetchone())


def is_empty(connection: sqlite3.Connection, session_id: str) -> bool:
    """Say whether nothing was said in a session yet."""
    row = connection.execute("SELECT 1 FROM history WHERE session_id = ? LIMIT 1", (session_id,)).fetchone()
    return row is None


def called(connection: sqlite3.Connection, session_id: str) -> set[str]:
    """Return the ids of the tool calls among a session's newest messages."""
    rows = connection.execute(NEWEST_BESIDE, (session_id, RECENT)).fetchall()
    return {call.call_id for row in rows for call in read_beside(row["beside"]).tool_calls}


def seed(connection: sqlite3.Connection, session_id: str, entries: Iterable[Entry], at: float) -> None:
    """Begin a session's history with what its client brought."""
    for entry in entries:
        append(connection, session_id=session_id, entry=entry, kind=HistoryKind.MESSAGE, at=at)
