"""Sessions: rows, and how a chat gets one."""

import sqlite3

from actors.exceptions import Conflict
from actors.messages.rows import RunState, SessionKind, SessionRow, TurnState
from actors.messages.store import GetSession, ListSessions, OpenSession
from storage import bindings

TITLE_LENGTH = 60

SELECT = """
SELECT s.*,
    (SELECT state FROM turns t WHERE t.session_id = s.session_id ORDER BY admitted_at DESC, turn_gen DESC LIMIT 1)
        AS last_turn,
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


def open_session(connection: sqlite3.Connection, request: OpenSession) -> SessionRow:
    """See OpenSession."""
    session_id, _ = session_of_chat(
        connection,
        peer=request.peer,
        scope=request.scope,
        session_key=request.session_key,
        new_session_id=request.new_session_id,
        kind=request.kind,
        title=request.title,
        at=request.at,
    )
    return session_row(connection.execute(f"{SELECT} WHERE s.session_id = ?", (session_id,)).fetchone())


def session_of_chat(
    connection: sqlite3.Connection,
    *,
    peer: str,
    scope: str | None,
    session_key: str,
    new_session_id: str,
    kind: SessionKind,
    title: str,
    at: float,
    rotate: bool = False,
) -> tuple[str, bool]:
    """
    Return the id of the session that answers for a chat, and whether it is new.

    A chat without one, whose session has ended, or that is to be rotated gets ``new_session_id``. Raises Conflict if
    somebody else bound the chat meanwhile.
    """
    bound_scope, binding = bindings.resolve(connection, peer, scope, session_key)
    if binding is not None and not rotate and _is_open(connection, binding.session_id):
        return binding.session_id, False
    connection.execute(
        "INSERT INTO sessions (session_id, kind, run_state, title, peer, scope, session_key, created_at, active_at)"
        " VALUES (?, ?, 'active', ?, ?, ?, ?, ?, ?)",
        (new_session_id, kind, title[:TITLE_LENGTH], peer, bound_scope, session_key, at, at),
    )
    if not bindings.bind(connection, peer, bound_scope, session_key, new_session_id, binding):
        raise Conflict("the chat was bound to another session at the same moment; try again")
    return new_session_id, True


def _is_open(connection: sqlite3.Connection, session_id: str) -> bool:
    row = connection.execute("SELECT run_state FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    return row is not None and row["run_state"] != RunState.ENDED
