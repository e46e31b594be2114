"""What makes a repetition a duplicate (RLY-12)."""

import sqlite3

from actors.exceptions import Conflict
from actors.messages.rows import Accepted, InboxState, Origin
from actors.messages.store import AcceptMessage, PostToChat
from storage import inbox


def find(connection: sqlite3.Connection, request: AcceptMessage) -> Accepted | None:
    """Return the acceptance that ``request`` repeats, if it does."""
    # Its own id: the asker did not see the first answer and asks again.
    row = inbox.get(connection, request.inbox_id)
    if row is None and request.message_id is not None:
        row = _by_message(connection, request)
    if row is None and request.buffer_id is not None:
        row = _by_buffer(connection, request)
    if row is None:
        return None
    return Accepted(
        inbox_id=row["inbox_id"],
        session_id=row["session_id"],
        duplicate=True,
        created=False,
        queued=inbox.queued(connection, row["session_id"]),
        state=InboxState(row["state"]),
    )


def remember(connection: sqlite3.Connection, request: AcceptMessage) -> None:
    """Let a repetition of ``request`` be a duplicate from now on."""
    if request.message_id is None and request.buffer_id is None:
        return
    connection.execute(
        "INSERT INTO seen (peer, scope, chat_id, message_id, buffer_id, body_hash, inbox_id, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            request.peer,
            request.scope or "",
            _chat(request),
            request.message_id,
            request.buffer_id,
            request.body_hash,
            request.inbox_id,
            request.at,
        ),
    )


def find_post(connection: sqlite3.Connection, request: PostToChat) -> int | None:
    """Return the seq of the history row that ``request`` has become already, if it has."""
    found = connection.execute(
        "SELECT inbox_id FROM seen WHERE buffer_id = ? AND peer = ?", (_post(request), request.peer)
    ).fetchone()
    return int(found["inbox_id"]) if found is not None else None


def remember_post(connection: sqlite3.Connection, request: PostToChat, seq: int) -> None:
    """Let a repetition of ``request`` be one: what it has become is a row of the history."""
    connection.execute(
        "INSERT INTO seen (peer, scope, chat_id, buffer_id, inbox_id, at) VALUES (?, ?, '', ?, ?, ?)",
        (request.peer, request.scope or "", _post(request), str(seq), request.at),
    )


def _post(request: PostToChat) -> str:
    # A name space of its own beside the buffer ids of messages.
    return f"post:{request.post_id}"


def _by_message(connection: sqlite3.Connection, request: AcceptMessage) -> sqlite3.Row | None:
    found = connection.execute(
        "SELECT inbox_id, body_hash FROM seen"
        " WHERE message_id = ? AND chat_id = ? AND scope = ? AND peer = ?",
        (request.message_id, _chat(request), request.scope or "", request.peer),
    ).fetchone()
    if found is None:
        return None
    if request.origin is Origin.API and found["body_hash"] != request.body_hash:
        # The id is a key that its client chose for one request (API-12); a platform's ids are never used twice.
        raise Conflict(
            "this Idempotency-Key was used for another request; use a new key for a new request",
            code="idempotency_key_conflict",
        )
    return inbox.get(connection, found["inbox_id"])


def _by_buffer(connection: sqlite3.Connection, request: AcceptMessage) -> sqlite3.Row | None:
    found = connection.execute(
        "SELECT seq, inbox_id, body_hash FROM seen WHERE buffer_id = ? AND peer = ?",
        (request.buffer_id, request.peer),
    ).fetchone()
    if found is None:
        return None
    if found["body_hash"] == request.body_hash:
        return inbox.get(connection, found["inbox_id"])
    # A buffer id that is used again, with another body, stands for the newer message.
    connection.execute("UPDATE seen SET buffer_id = NULL WHERE seq = ?", (found["seq"],))
    return None


def _chat(request: AcceptMessage) -> str:
    return request.route.chat_id if request.route is not None else ""
