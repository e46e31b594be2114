"""Bindings: which session answers for a chat."""

import sqlite3

from actors.exceptions import Conflict
from actors.messages.rows import Binding
from actors.messages.store import FindBindings
from storage import versions

SELECT = (
    "SELECT peer, scope, session_key, session_id, version FROM bindings WHERE peer = ? AND session_key = ?"
)


def find_bindings(connection: sqlite3.Connection, request: FindBindings) -> tuple[Binding, ...]:
    """See FindBindings."""
    if request.scope is not None:
        found = _in_scope(connection, request.peer, request.scope, request.session_key)
        return (found,) if found is not None else ()
    return _in_all_scopes(connection, request.peer, request.session_key)


def resolve(
    connection: sqlite3.Connection, peer: str, scope: str | None, session_key: str
) -> tuple[str, Binding | None]:
    """
    Return the scope that a chat is bound under, and its binding if there is one (KEY-6).

    A given scope is its own chat. An absent one is the chat's only one; with several, or none, its own.
    """
    if scope:
        return scope, _in_scope(connection, peer, scope, session_key)
    found = _in_all_scopes(connection, peer, session_key)
    if len(found) == 1:
        return found[0].scope, found[0]
    return "", next((binding for binding in found if binding.scope == ""), None)


def bind(
    connection: sqlite3.Connection,
    peer: str,
    scope: str,
    session_key: str,
    session_id: str,
    old: Binding | None,
) -> None:
    """Point a chat at a session. Raises Conflict if its binding is no longer ``old``, the one that was read."""
    if old is not None:
        key = {"peer": peer, "session_key": session_key, "scope": scope}
        versions.change(connection, "bindings", key, old.version, {"session_id": session_id})
        return
    done = connection.execute(
        "INSERT INTO bindings (peer, session_key, scope, session_id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (peer, session_key, scope, session_id),
    )
    if done.rowcount == 0:
        raise Conflict("the chat was bound to a session meanwhile; try again", code=versions.CODE)


def _in_all_scopes(connection: sqlite3.Connection, peer: str, session_key: str) -> tuple[Binding, ...]:
    rows = connection.execute(f"{SELECT} ORDER BY scope", (peer, session_key))
    return tuple(Binding(**row) for row in rows)


def _in_scope(connection: sqlite3.Connection, peer: str, scope: str, session_key: str) -> Binding | None:
    row = connection.execute(f"{SELECT} AND scope = ?", (peer, session_key, scope)).fetchone()
    return Binding(**row) if row is not None else None
