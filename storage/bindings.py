"""Bindings: which session answers for a chat."""

import sqlite3

from actors.messages.rows import Binding
from actors.messages.store import FindBindings


def find_bindings(connection: sqlite3.Connection, request: FindBindings) -> tuple[Binding, ...]:
    """See FindBindings."""
    rows = connection.execute(
        "SELECT * FROM bindings WHERE peer = ? AND session_key = ? AND (?3 IS NULL OR scope = ?3)",
        (request.peer, request.session_key, request.scope),
    )
    return tuple(Binding(**row) for row in rows)


def resolve(
    connection: sqlite3.Connection, peer: str, scope: str | None, session_key: str
) -> tuple[str, Binding | None]:
    """
    Return the scope that a chat is bound under, and its binding if there is one (KEY-6).

    A given scope is its own chat. An absent one is the chat's only one; with several, or none, its own.
    """
    if scope is None:
        found = find_bindings(connection, FindBindings(peer=peer, session_key=session_key))
        if len(found) == 1:
            return found[0].scope, found[0]
        own = [binding for binding in found if binding.scope == ""]
        return "", own[0] if own else None
    row = connection.execute(
        "SELECT * FROM bindings WHERE peer = ? AND session_key = ? AND scope = ?", (peer, session_key, scope)
    ).fetchone()
    return scope, Binding(**row) if row is not None else None


def bind(
    connection: sqlite3.Connection,
    peer: str,
    scope: str,
    session_key: str,
    session_id: str,
    old: Binding | None,
) -> bool:
    """Point a chat at a session; False if the binding is no longer the one that was read."""
    if old is None:
        done = connection.execute(
            "INSERT INTO bindings (peer, session_key, scope, session_id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (peer, session_key, scope, session_id),
        )
    else:
        done = connection.execute(
            "UPDATE bindings SET session_id = ?, version = version + 1"
            " WHERE peer = ? AND session_key = ? AND scope = ? AND version = ?",
            (session_id, peer, session_key, scope, old.version),
        )
    return done.rowcount == 1
