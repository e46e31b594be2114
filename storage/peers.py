"""Relay peers, their sealed secrets and their identities."""

import sqlite3

import structlog

from actors.exceptions import Conflict, NotFound
from actors.messages.rows import PeerRole, PeerRow
from actors.messages.secret import Secret
from actors.messages.store import (
    FindPeerBySecret,
    GetPeer,
    ListPeers,
    NextLinkGen,
    PutPeer,
    RevokePeer,
    RotatePeer,
)
from storage.columns import Column, encode
from storage.seal import Seal

log = structlog.get_logger("turnkeep.store")

NAMES = Column.of(tuple[str, ...])


class Peers:
    """The family's functions, with the seal that their secrets need."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def put(self, connection: sqlite3.Connection, request: PutPeer) -> PeerRow:
        """See PutPeer."""
        if connection.execute("SELECT 1 FROM peers WHERE name = ?", (request.name,)).fetchone() is not None:
            if self._is_primary(connection, request.name, request.secret):
                return self._get(connection, request.name)
            raise Conflict(
                f"there is a peer {request.name!r} already; choose another name, or rotate its secret"
            )
        self._refuse_taken(connection, request.secret, but_for=request.name)
        if request.role is PeerRole.CONNECTOR:
            for identity in request.identities:
                self._refuse_claimed(connection, identity)
        connection.execute(
            "INSERT INTO peers (name, role, identities, scopes, created_at) VALUES (?, ?, ?, ?, ?)",
            (request.name, request.role, encode(request.identities), encode(request.scopes), request.at),
        )
        connection.executemany(
            "INSERT INTO peer_identities (identity, peer, role) VALUES (?, ?, ?)",
            [(identity, request.name, request.role) for identity in dict.fromkeys(request.identities)],
        )
        self._put_secret(connection, request.name, 0, request.secret)
        return self._get(connection, request.name)

    def rotate(self, connection: sqlite3.Connection, request: RotatePeer) -> PeerRow:
        """See RotatePeer."""
        if self._get(connection, request.name).revoked_at is not None:
            raise Conflict(f"peer {request.name!r} is revoked; add one with another name")
        if self._is_primary(connection, request.name, request.secret):
            return self._get(connection, request.name)
        self._refuse_taken(connection, request.secret, but_for=request.name)
        connection.execute("DELETE FROM peer_secrets WHERE peer = ? AND rank > 0", (request.name,))
        connection.execute("UPDATE peer_secrets SET rank = 1 WHERE peer = ?", (request.name,))
        self._put_secret(connection, request.name, 0, request.secret)
        return self._get(connection, request.name)

    def revoke(self, connection: sqlite3.Connection, request: RevokePeer) -> PeerRow:
        """See RevokePeer."""
        self._get(connection, request.name)
        connection.execute(
            "UPDATE peers SET revoked_at = coalesce(revoked_at, ?) WHERE name = ?", (request.at, request.name)
        )
        # What it fronted is free for another connector.
        connection.execute("DELETE FROM peer_identities WHERE peer = ?", (request.name,))
        return self._get(connection, request.name)

    def get(self, connection: sqlite3.Connection, request: GetPeer) -> PeerRow | None:
        """See GetPeer."""
        row = connection.execute("SELECT * FROM peers WHERE name = ?", (request.name,)).fetchone()
        return self._row(connection, row) if row is not None else None

    def find_by_secret(self, connection: sqlite3.Connection, request: FindPeerBySecret) -> PeerRow | None:
        """See FindPeerBySecret."""
        row = connection.execute(
            "SELECT p.* FROM peers p JOIN peer_secrets s ON s.peer = p.name"
            " WHERE s.fingerprint = ? AND p.revoked_at IS NULL",
            (self._seal.fingerprint(request.secret),),
        ).fetchone()
        return self._row(connection, row) if row is not None else None

    def list(self, connection: sqlite3.Connection, request: ListPeers) -> tuple[PeerRow, ...]:
        """See ListPeers."""
        return tuple(_peer(row, ()) for row in connection.execute("SELECT * FROM peers ORDER BY name"))

    def next_link_gen(self, connection: sqlite3.Connection, request: NextLinkGen) -> int:
        """See NextLinkGen."""
        connection.execute("UPDATE peers SET link_gen = link_gen + 1 WHERE name = ?", (request.peer,))
        row = connection.execute("SELECT link_gen FROM peers WHERE name = ?", (request.peer,)).fetchone()
        if row is None:
            raise NotFound(f"there is no peer {request.peer!r}")
        return int(row["link_gen"])

    def _refuse_claimed(self, connection: sqlite3.Connection, identity: str) -> None:
        claimed = connection.execute(
            "SELECT peer FROM peer_identities WHERE identity = ? AND role = 'connector'", (identity,)
        ).fetchone()
        if claimed is not None:
            raise Conflict(
                f"identity {identity!r} belongs to connector {claimed['peer']!r}; revoke that one first",
                code="identity_conflict",
            )

    def _refuse_taken(self, connection: sqlite3.Connection, secret: Secret, *, but_for: str) -> None:
        taken = connection.execute(
            "SELECT 1 FROM peer_secrets WHERE fingerprint = ? AND peer <> ?",
            (self._seal.fingerprint(secret), but_for),
        ).fetchone()
        if taken is not None:
            raise Conflict("another peer has this secret; a secret names one peer, so make a new one")

    def _is_primary(self, connection: sqlite3.Connection, name: str, secret: Secret) -> bool:
        row = connection.execute(
            "SELECT 1 FROM peer_secrets WHERE peer = ? AND rank = 0 AND fingerprint = ?",
            (name, self._seal.fingerprint(secret)),
        ).fetchone()
        return row is not None

    def _put_secret(self, connection: sqlite3.Connection, name: str, rank: int, secret: Secret) -> None:
        connection.execute(
            "INSERT INTO peer_secrets (peer, rank, sealed, fingerprint) VALUES (?, ?, ?, ?)",
            (name, rank, self._seal.seal(secret), self._seal.fingerprint(secret)),
        )

    def _get(self, connection: sqlite3.Connection, name: str) -> PeerRow:
        row = connection.execute("SELECT * FROM peers WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise NotFound(f"there is no peer {name!r}")
        return self._row(connection, row)

    def _row(self, connection: sqlite3.Connection, row: sqlite3.Row) -> PeerRow:
        sealed = connection.execute(
            "SELECT sealed FROM peer_secrets WHERE peer = ? ORDER BY rank", (row["name"],)
        )
        secrets = [self._seal.open(secret["sealed"]) for secret in sealed]
        if None in secrets:
            log.warning(
                "peer.secret_unreadable", peer=row["name"], cure="restore secret.key, or rotate the peer"
            )
        return _peer(row, tuple(secret for secret in secrets if secret is not None))


def _peer(row: sqlite3.Row, secrets: tuple[Secret, ...]) -> PeerRow:
    return PeerRow(
        name=row["name"],
        role=PeerRole(row["role"]),
        identities=NAMES.read(row["identities"]),
        scopes=NAMES.read(row["scopes"]),
        secrets=secrets,
        created_at=row["created_at"],
        revoked_at=row["revoked_at"],
    )
