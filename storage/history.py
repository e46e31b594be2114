"""History: what was said in a session, by whom."""

import sqlite3

from actors.messages.rows import Entry, HistoryKind, HistoryRow, SessionKind
from actors.messages.store import EditPost, PostToChat, ReadHistory
from storage.sessions import session_of_chat


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
        (request.session_id, request.before if request.before is not None else 2**62, request.limit),
    ).fetchall()
    return tuple(history_row(row) for row in reversed(rows))


def conversation(connection: sqlite3.Connection, session_id: str) -> tuple[Entry, ...]:
    """Return what a model gets of a session: its messages, without notices and broken-off texts."""
    rows = connection.execute(
        "SELECT role, content FROM history WHERE session_id = ? AND kind = 'message' ORDER BY seq",
        (session_id,),
    )
    return tuple(Entry(role=row["role"], content=row["content"]) for row in rows)


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


def post_to_chat(connection: sqlite3.Connection, request: PostToChat) -> HistoryRow:
    """See PostToChat."""
    session_id, _ = session_of_chat(
        connection,
        peer=request.peer,
        scope=request.scope,
        session_key=request.session_key,
        new_session_id=request.new_session_id,
        kind=SessionKind.GATEWAY,
        title=request.content.strip().partition("\n")[0],
        at=request.at,
    )
    seq = append(
        connection,
        session_id=session_id,
        role="assistant",
        content=request.content,
        kind=HistoryKind.MESSAGE,
        author=request.author,
        at=request.at,
    )
    connection.execute("UPDATE sessions SET active_at = ? WHERE session_id = ?", (request.at, session_id))
    return history_row(connection.execute("SELECT * FROM history WHERE seq = ?", (seq,)).fetchone())


def edit_post(connection: sqlite3.Connection, request: EditPost) -> bool:
    """See EditPost."""
    done = connection.execute(
        "UPDATE history SET content = ? WHERE seq = ? AND author = ?",
        (request.content, request.seq, request.author),
    )
    return done.rowcount == 1
