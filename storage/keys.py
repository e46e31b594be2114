"""Bearer keys of /v1 and /admin: hashes only."""

import sqlite3

from actors.exceptions import Conflict, NotFound
from actors.messages.rows import KeyRow, KeyScope
from actors.messages.store import FindKey, ListKeys, PutKey, RevokeKey
from storage.columns import Column, encode

SCOPES = Column.of(tuple[KeyScope, ...])


def key_row(row: sqlite3.Row) -> KeyRow:
    """Return a row as actors see it."""
    return KeyRow(
        key_id=row["key_id"],
        name=row["name"],
        owner=row["owner"],
        scopes=SCOPES.read(row["scopes"]),
        created_at=row["created_at"],
        revoked_at=row["revoked_at"],
    )


def put_key(connection: sqlite3.Connection, request: PutKey) -> KeyRow:
    """See PutKey."""
    known = connection.execute(
        "SELECT * FROM keys WHERE key_id = ? AND key_hash = ?", (request.key_id, request.key_hash)
    ).fetchone()
    if known is not None:
        return key_row(known)
    try:
        connection.execute(
            "INSERT INTO keys (key_id, name, owner, scopes, key_hash, created_at) VALUES (?, ?, ?, ?, ?, ?)",
            (
                request.key_id,
                request.name,
                request.owner,
                encode(request.scopes),
                request.key_hash,
                request.at,
            ),
        )
    except sqlite3.IntegrityError:
        raise Conflict(
            f"there is a key {request.name!r} already; choose another name, or revoke it first"
        ) from None
    return key_row(connection.execute("SELECT * FROM keys WHERE key_id = ?", (request.key_id,)).fetchone())


def find_key(connection: sqlite3.Connection, request: FindKey) -> KeyRow | None:
    """See FindKey."""
    row = connection.execute(
        "SELECT * FROM keys WHERE key_hash = ? AND revoked_at IS NULL", (request.key_hash,)
    ).fetchone()
    return key_row(row) if row is not None else None


def revoke_key(connection: sqlite3.Connection, request: RevokeKey) -> KeyRow:
    """See RevokeKey."""
    row = connection.execute(
        "SELECT * FROM keys WHERE key_id = ?1 OR name = ?1 ORDER BY revoked_at IS NOT NULL, created_at DESC LIMIT 1",
        (request.key,),
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no key {request.key!r}")
    connection.execute(
        "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE key_id = ?", (request.at, row["key_id"])
    )
    return key_row(connection.execute("SELECT * FROM keys WHERE key_id = ?", (row["key_id"],)).fetchone())


def list_keys(connection: sqlite3.Connection, request: ListKeys) -> tuple[KeyRow, ...]:
    """See ListKeys."""
    return tuple(
        key_row(row) for row in connection.execute("SELECT * FROM keys ORDER BY created_at DESC, name")
    )
