"""Chats: how one gets its session."""

import sqlite3

from actors.messages.rows import Entry, HistoryKind, HistoryRow, SessionKind, SessionRow
from actors.messages.store import OpenSession, PostToChat
from storage import bindings, history, inbox, seen, sessions

ROTATED = "new_session"
"""Why a session has ended whose chat was given a fresh one: a user boundary."""


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
    return sessions.get(connection, session_id)


def post_to_chat(connection: sqlite3.Connection, request: PostToChat) -> HistoryRow:
    """See PostToChat."""
    posted = seen.find_post(connection, request)
    if posted is not None:
        return history.get(connection, posted)
    session_id, _ = session_of_chat(
        connection,
        peer=request.peer,
        scope=request.scope,
        session_key=request.session_key,
        new_session_id=request.new_session_id,
        kind=SessionKind.GATEWAY,
        title=request.content,
        at=request.at,
    )
    seq = history.append(
        connection,
        session_id=session_id,
        entry=Entry(role="assistant", content=request.content),
        kind=HistoryKind.MESSAGE,
        author=request.author,
        at=request.at,
    )
    seen.remember_post(connection, request, seq)
    sessions.touch(connection, session_id, request.at)
    return history.get(connection, seq)


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

    A chat without one, whose session has ended, or that is to be rotated gets ``new_session_id``; the rotated session
    ends, and what waits in it with it. Raises Conflict if the binding is no longer the one that was read.
    """
    bound_scope, binding = bindings.resolve(connection, peer, scope, session_key)
    if binding is not None:
        stays = not rotate and not sessions.has_ended(connection, binding.session_id)
        if stays or binding.session_id == new_session_id:
            return binding.session_id, False
        if rotate:
            sessions.end(connection, binding.session_id, ROTATED)
            inbox.abandon(connection, binding.session_id, ROTATED, at)
    sessions.insert(
        connection,
        session_id=new_session_id,
        kind=kind,
        title=title,
        peer=peer,
        scope=bound_scope,
        session_key=session_key,
        at=at,
    )
    bindings.bind(connection, peer, bound_scope, session_key, new_session_id, binding)
    return new_session_id, True
