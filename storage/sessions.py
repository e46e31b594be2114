"""Sessions: their rows."""

import sqlite3

from actors.messages.rows import RunState, SessionKind, SessionRow, TurnState
from actors.messages.store import GetSession, ListSessions
from storage import versions

TITLE_LENGTH = 60

SELECT = """
SELECT s.*,
    (SELECT state FROM turns t WHERE t.session_id = s.session_id ORDER BY t.seq DESC LIMIT 1) AS last_turn,
    (SELECT error FROM turns t WHERE t.session_id = s.session_id ORDER BY t.seq DESC LIMIT 1) AS last_error,
    (SELECT count(*) FROM inbox i WHERE i.session_id = s.session_id AND i.state = 'accepted') AS queued
FROM sessions s
"""


def session_row(row: sqlite3.Row) -> SessionRow:
    """Return a row of SELECT as actors see it."""
    return SessionRow(
        session_id=row["session_id"],
        kind=SessionKind(row["kind"]),
        run_state=RunState(row["run_state"]),
        title=row["title"],
        peer=row["peer"],
        scope=row["scope"],
        session_key=row["session_key"],
        turn_gen=row["turn_gen"],
        version=row["version"],
        created_at=row["created_at"],
        active_at=row["active_at"],
        end_reason=row["end_reason"],
        last_turn=TurnState(row["last_turn"]) if row["last_turn"] is not None else None,
        last_error=row["last_error"],
        queued=row["queued"],
    )


def get_session(connection: sqlite3.Connection, request: GetSession) -> SessionRow | None:
    """See GetSession."""
    row = connection.execute(f"{SELECT} WHERE s.session_id = ?", (request.session_id,)).fetchone()
    if row is None and request.session_id:
        # A range instead of LIKE, so that no character of the prefix is a wildcard and the index serves.
        rows = connection.execute(
            f"{SELECT} WHERE s.session_id >= ? AND s.session_id < ? LIMIT 2",
            (request.session_id, f"{request.session_id}\U0010ffff"),
        ).fetchall()
        row = rows[0] if len(rows) == 1 else None
    return session_row(row) if row is not None else None


def list_sessions(connection: sqlite3.Connection, request: ListSessions) -> tuple[SessionRow, ...]:
    """See ListSessions."""
    where, values = ("WHERE s.peer = ?", [request.peer]) if request.peer is not None else ("", [])
    rows = connection.execute(
        f"{SELECT} {where} ORDER BY s.active_at DESC LIMIT ? OFFSET ?",
        [*values, request.limit, request.offset],
    )
    return tuple(session_row(row) for row in rows)


def get(connection: sqlite3.Connection, session_id: str) -> SessionRow:
    """Return the row of a session that is there."""
    return session_row(connection.execute(f"{SELECT} WHERE s.session_id = ?", (session_id,)).fetchone())


def insert(
    connection: sqlite3.Connection,
    *,
    session_id: str,
    kind: SessionKind,
    title: str,
    peer: str,
    scope: str,
    session_key: str,
    at: float,
) -> None:
    """Add an active session; its title is the beginning of the first line of ``title``."""
    line = title.strip().partition("\n")[0][:TITLE_LENGTH]
    connection.execute(
        "INSERT INTO sessions (session_id, kind, run_state, title, peer, scope, session_key, created_at, active_at)"
        " VALUES (?, ?, 'active', ?, ?, ?, ?, ?, ?)",
        (session_id, kind, line, peer, scope, session_key, at, at),
    )


def touch(connection: sqlite3.Connection, session_id: str, at: float) -> None:
    """Note that something happened in a session."""
    connection.execute("UPDATE sessions SET active_at = ? WHERE session_id = ?", (at, session_id))


def end(connection: sqlite3.Connection, session_id: str, reason: str) -> None:
    """End a session; one that has ended already keeps its reason."""
    row = connection.execute(
        "SELECT version FROM sessions WHERE session_id = ? AND run_state <> 'ended'", (session_id,)
    ).fetchone()
    if row is not None:
        ended = {"run_state": RunState.ENDED, "end_reason": reason}
        versions.change(connection, "sessions", {"session_id": session_id}, row["version"], ended)


def exists(connection: sqlite3.Connection, session_id: str) -> bool:
    """Say whether there is such a session."""
    row = connection.execute("SELECT 1 FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    return row is not None


def has_ended(connection: sqlite3.Connection, session_id: str) -> bool:
    """Say whether a session takes no more messages."""
    row = connection.execute("SELECT run_state FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    return bool(row["run_state"] == RunState.ENDED)


def next_turn_gen(connection: sqlite3.Connection, session_id: str) -> int:
    """Draw the number of a session's new turn; it only grows."""
    connection.execute("UPDATE sessions SET turn_gen = turn_gen + 1 WHERE session_id = ?", (session_id,))
    row = connection.execute("SELECT turn_gen FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    return int(row["turn_gen"])
