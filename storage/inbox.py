"""The inbox: messages that were accepted, each turned once."""

import sqlite3

from actors.exceptions import Busy
from actors.messages.rows import Accepted, InboxState, SessionKind
from actors.messages.store import AcceptMessage, BuryMessage, RequeueMessage, RotateChat, SessionsWithMail
from storage.columns import encode, encode_or_none
from storage.sessions import session_of_chat


def accept_message(connection: sqlite3.Connection, request: AcceptMessage) -> Accepted:
    """See AcceptMessage."""
    duplicate = _find_duplicate(connection, request)
    if duplicate is not None:
        return duplicate
    text = request.entries[-1].content if request.entries else ""
    session_id, created = session_of_chat(
        connection,
        peer=request.peer,
        scope=request.scope,
        session_key=request.session_key,
        new_session_id=request.new_session_id,
        kind=request.kind,
        title=text.strip().partition("\n")[0],
        at=request.at,
        rotate=request.rotate,
    )
    queued = _queued(connection, session_id)
    if request.max_queued is not None and queued >= request.max_queued:
        raise Busy(
            f"{queued} messages of this chat wait already; try again when one is answered",
            code="session_busy",
        )
    connection.execute(
        "INSERT INTO inbox (inbox_id, session_id, origin, peer, state, entries, params, route, event, detached,"
        " accepted_at) VALUES (?, ?, ?, ?, 'accepted', ?, ?, ?, ?, ?, ?)",
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
            request.at,
        ),
    )
    _remember(connection, request)
    if request.seed:
        _seed(connection, request, session_id)
    if request.turn_id is not None:
        connection.execute(
            "INSERT INTO turns (turn_id, session_id, inbox_id, turn_gen, state, origin, detached, tries, admitted_at)"
            " VALUES (?, ?, ?, 0, 'admitted', ?, ?, 0, ?)",
            (request.turn_id, session_id, request.inbox_id, request.origin, request.detached, request.at),
        )
    connection.execute(
        "UPDATE sessions SET active_at = ?, version = version + 1 WHERE session_id = ?",
        (request.at, session_id),
    )
    return Accepted(
        inbox_id=request.inbox_id,
        session_id=session_id,
        duplicate=False,
        created=created,
        queued=queued + 1,
        state=InboxState.ACCEPTED,
    )


def rotate_chat(connection: sqlite3.Connection, request: RotateChat) -> Accepted:
    """See RotateChat."""
    session_id, created = session_of_chat(
        connection,
        peer=request.peer,
        scope=request.scope,
        session_key=request.session_key,
        new_session_id=request.new_session_id,
        kind=SessionKind.CHAT,
        title="",
        at=request.at,
        rotate=True,
    )
    return Accepted(
        inbox_id="",
        session_id=session_id,
        duplicate=False,
        created=created,
        queued=0,
        state=InboxState.TURNED,
    )


def requeue_message(connection: sqlite3.Connection, request: RequeueMessage) -> bool:
    """See RequeueMessage."""
    done = connection.execute(
        "UPDATE inbox SET state = 'accepted', settled_at = NULL"
        " WHERE inbox_id = ? AND state = 'turned' AND tries <= ?",
        (request.inbox_id, request.max_tries),
    )
    return done.rowcount == 1


def bury_message(connection: sqlite3.Connection, request: BuryMessage) -> bool:
    """See BuryMessage."""
    done = connection.execute(
        "UPDATE inbox SET state = 'dead', reason = ?, settled_at = ? WHERE inbox_id = ? AND state = 'accepted'",
        (request.reason, request.at, request.inbox_id),
    )
    if done.rowcount == 0:
        return False
    connection.execute(
        "UPDATE turns SET state = 'cancelled', reason = ?, ended_at = ? WHERE inbox_id = ? AND state = 'admitted'",
        (request.reason, request.at, request.inbox_id),
    )
    return True


def sessions_with_mail(connection: sqlite3.Connection, request: SessionsWithMail) -> tuple[str, ...]:
    """See SessionsWithMail."""
    rows = connection.execute(
        "SELECT session_id FROM inbox WHERE state = 'accepted' GROUP BY session_id ORDER BY min(seq)"
    )
    return tuple(row["session_id"] for row in rows)


def _queued(connection: sqlite3.Connection, session_id: str) -> int:
    row = connection.execute(
        "SELECT count(*) AS n FROM inbox WHERE session_id = ? AND state = 'accepted'", (session_id,)
    ).fetchone()
    return int(row["n"])


def _find_duplicate(connection: sqlite3.Connection, request: AcceptMessage) -> Accepted | None:
    found: sqlite3.Row | None = None
    if request.message_id is not None and request.route is not None:
        found = connection.execute(
            "SELECT inbox_id FROM seen_messages WHERE peer = ? AND scope = ? AND chat_id = ? AND message_id = ?",
            (request.peer, request.scope or "", request.route.chat_id, request.message_id),
        ).fetchone()
    if found is None and request.buffer_id is not None:
        # Peers may use a buffer id again: only with the same body it is the same message.
        found = connection.execute(
            "SELECT inbox_id FROM seen_buffers WHERE peer = ? AND buffer_id = ? AND body_hash = ?",
            (request.peer, request.buffer_id, request.body_hash or ""),
        ).fetchone()
    if found is None:
        return None
    row = connection.execute(
        "SELECT session_id, state FROM inbox WHERE inbox_id = ?", (found["inbox_id"],)
    ).fetchone()
    if row is None:
        return None
    return Accepted(
        inbox_id=found["inbox_id"],
        session_id=row["session_id"],
        duplicate=True,
        created=False,
        queued=_queued(connection, row["session_id"]),
        state=InboxState(row["state"]),
    )


def _remember(connection: sqlite3.Connection, request: AcceptMessage) -> None:
    if request.message_id is not None and request.route is not None:
        connection.execute(
            "INSERT OR REPLACE INTO seen_messages VALUES (?, ?, ?, ?, ?, ?)",
            (
                request.peer,
                request.scope or "",
                request.route.chat_id,
                request.message_id,
                request.inbox_id,
                request.at,
            ),
        )
    if request.buffer_id is not None:
        connection.execute(
            "INSERT OR REPLACE INTO seen_buffers VALUES (?, ?, ?, ?, ?)",
            (request.peer, request.buffer_id, request.body_hash or "", request.inbox_id, request.at),
        )


def _seed(connection: sqlite3.Connection, request: AcceptMessage, session_id: str) -> None:
    """Take the history that a client brought, if the session has none and nothing waits before this message."""
    known = connection.execute(
        "SELECT 1 FROM history WHERE session_id = ?1"
        " UNION ALL SELECT 1 FROM inbox WHERE session_id = ?1 AND inbox_id <> ?2 LIMIT 1",
        (session_id, request.inbox_id),
    ).fetchone()
    if known is None:
        connection.executemany(
            "INSERT INTO history (session_id, role, content, kind, at) VALUES (?, ?, ?, 'message', ?)",
            [(session_id, entry.role, entry.content, request.at) for entry in request.seed],
        )
