"""The inbox: messages that were accepted, each turned once."""

import sqlite3

from actors.messages.rows import InboxState
from actors.messages.store import AcceptMessage, BuryMessage, SessionsWithMail
from storage import turns
from storage.columns import encode, encode_or_none


def bury_message(connection: sqlite3.Connection, request: BuryMessage) -> bool:
    """See BuryMessage."""
    done = connection.execute(
        "UPDATE inbox SET state = ?, reason = ?, settled_at = ? WHERE inbox_id = ? AND state = 'accepted'",
        (InboxState.DEAD, request.reason, request.at, request.inbox_id),
    )
    row = connection.execute(
        "SELECT turn_id, state, reason, settled_at FROM inbox WHERE inbox_id = ?", (request.inbox_id,)
    ).fetchone()
    if done.rowcount == 0:
        buried = (InboxState.DEAD, request.reason, request.at)
        return row is not None and (row["state"], row["reason"], row["settled_at"]) == buried
    turns.cancel_admitted(connection, row["turn_id"], request.reason, request.at)
    return True


def sessions_with_mail(connection: sqlite3.Connection, request: SessionsWithMail) -> tuple[str, ...]:
    """See SessionsWithMail."""
    rows = connection.execute(
        "SELECT session_id FROM inbox WHERE state = 'accepted' GROUP BY session_id ORDER BY min(seq)"
    )
    return tuple(row["session_id"] for row in rows)


def insert(connection: sqlite3.Connection, request: AcceptMessage, session_id: str) -> None:
    """Add a message that waits."""
    connection.execute(
        "INSERT INTO inbox (inbox_id, session_id, origin, peer, state, entries, params, route, event, detached,"
        " turn_id, accepted_at) VALUES (?, ?, ?, ?, 'accepted', ?, ?, ?, ?, ?, ?, ?)",
        (
            request.inbox_id,
            session_id,
            request.origin,
            request.peer,
            encode(request.entries),
            encode(request.params),
            encode_or_none(request.route),
            encode_or_none(request.event),
            request.detached,
            request.turn_id,
            request.at,
        ),
    )


def get(connection: sqlite3.Connection, inbox_id: str) -> sqlite3.Row | None:
    """Return id, session and state of a message."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT inbox_id, session_id, state FROM inbox WHERE inbox_id = ?", (inbox_id,)
    ).fetchone()
    return row


def queued(connection: sqlite3.Connection, session_id: str) -> int:
    """Return how many messages of a session wait."""
    row = connection.execute(
        "SELECT count(*) FROM inbox WHERE session_id = ? AND state = 'accepted'", (session_id,)
    ).fetchone()
    return int(row[0])


def abandon(connection: sqlite3.Connection, session_id: str, reason: str, at: float) -> None:
    """Let what waits in a session that has ended be undelivered (SES-50)."""
    waiting = connection.execute(
        "SELECT seq, turn_id FROM inbox WHERE session_id = ? AND state = 'accepted'", (session_id,)
    ).fetchall()
    for row in waiting:
        connection.execute(
            "UPDATE inbox SET state = ?, reason = ?, settled_at = ? WHERE seq = ?",
            (InboxState.UNDELIVERED, reason, at, row["seq"]),
        )
        turns.cancel_admitted(connection, row["turn_id"], reason, at)
