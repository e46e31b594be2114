"""Acceptance: what makes a message ours, in one transaction (RLY-11)."""

import sqlite3

from actors.exceptions import Busy, Invalid
from actors.messages.rows import Accepted, InboxState, SessionKind
from actors.messages.store import AcceptMessage, RotateChat
from storage import history, inbox, seen, sessions, turns
from storage.chats import session_of_chat


def accept_message(connection: sqlite3.Connection, request: AcceptMessage) -> Accepted:
    """See AcceptMessage."""
    duplicate = seen.find(connection, request)
    if duplicate is not None:
        return duplicate
    session_id, created = session_of_chat(
        connection,
        peer=request.peer,
        scope=request.scope,
        session_key=request.session_key,
        new_session_id=request.new_session_id,
        kind=request.kind,
        title=_title(request),
        at=request.at,
        rotate=request.rotate,
    )
    queued = 0 if created else inbox.queued(connection, session_id)
    if request.max_queued is not None and queued >= request.max_queued:
        raise Busy(
            f"{queued} messages of this chat wait already; try again when one is answered",
            code="session_busy",
        )
    if request.seed and (created or (queued == 0 and history.is_empty(connection, session_id))):
        history.seed(connection, session_id, request.seed, request.at)
    _require_calls(connection, request, session_id)
    inbox.insert(connection, request, session_id)
    seen.remember(connection, request)
    if request.turn_id is not None:
        turns.admit(connection, request, session_id)
    if not created:
        sessions.touch(connection, session_id, request.at)
    return Accepted(
        inbox_id=request.inbox_id,
        session_id=session_id,
        duplicate=False,
        created=created,
        queued=queued + 1,
        state=InboxState.ACCEPTED,
    )


def _title(request: AcceptMessage) -> str:
    """Return what a session is called after: what a person has said last, and no result of a tool."""
    said = (entry.content for entry in reversed((*request.seed, *request.entries)) if entry.role == "user")
    return next(said, request.entries[-1].content if request.entries else "")


def _require_calls(connection: sqlite3.Connection, request: AcceptMessage, session_id: str) -> None:
    """Refuse results of tools that the session has not called: no model would ever see them."""
    answered = [entry.tool_call_id for entry in request.entries if entry.role == "tool"]
    if not answered:
        return
    called = history.called(connection, session_id)
    for call_id in answered:
        if call_id not in called:
            raise Invalid(
                f"the session has not called a tool under the id {(call_id or '')[:100]!r} of late; "
                "send results into the session that has asked for them",
                code="unknown_tool_call",
            )


def rotate_chat(connection: sqlite3.Connection, request: RotateChat) -> Accepted:
    """See RotateChat. There is no message, so ``inbox_id`` is empty."""
    session_id, created = request.new_session_id, False
    if not sessions.exists(connection, session_id):
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
        duplicate=not created,
        created=created,
        queued=0,
        state=InboxState.TURNED,
    )
