"""Relay peers and the keys of clients."""

from actors.messages.rows import KeyRow, KeyScope, PeerRole, PeerRow
from actors.messages.secret import Secret
from actors.messages.store.request import Read, Write


class PutPeer(Write[PeerRow], frozen=True, kw_only=True):
    """
    Add a peer. Refused with Conflict if the name exists, or another connector claims one of the identities.

    Repeating it, with the same secret, answers the stored row.
    """

    name: str
    role: PeerRole
    identities: tuple[str, ...]
    scopes: tuple[str, ...]
    secret: Secret


class RotatePeer(Write[PeerRow], frozen=True, kw_only=True):
    """Make ``secret`` the primary one; the former primary stays as secondary. NotFound if there is no such peer."""

    name: str
    secret: Secret


class RevokePeer(Write[PeerRow], frozen=True, kw_only=True):
    """Refuse the peer from now on. NotFound if there is no such peer."""

    name: str


class GetPeer(Read[PeerRow | None], frozen=True, kw_only=True):
    """A peer by name, revoked ones too."""

    name: str


class FindPeerBySecret(Read[PeerRow | None], frozen=True, kw_only=True):
    """The unrevoked peer with that plain secret."""

    secret: Secret


class ListPeers(Read[tuple[PeerRow, ...]], frozen=True, kw_only=True):
    """All peers by name; their secrets are left out."""


class NextLinkGen(Write[int], frozen=True, kw_only=True):
    """The number of a peer's new link; it only grows."""

    peer: str


class PutKey(Write[KeyRow], frozen=True, kw_only=True):
    """
    Keep a key's hash. Refused with Conflict if the name is taken by a key that is not revoked.

    Repeating it answers the stored row.
    """

    key_id: str
    name: str
    owner: str
    scopes: tuple[KeyScope, ...]
    key_hash: str
    """Hex SHA-256 of the key."""


class FindKey(Read[KeyRow | None], frozen=True, kw_only=True):
    """The unrevoked key with that hash."""

    key_hash: str


class RevokeKey(Write[KeyRow], frozen=True, kw_only=True):
    """Refuse the key from now on; by id or by name. NotFound if there is none."""

    key: str


class ListKeys(Read[tuple[KeyRow, ...]], frozen=True, kw_only=True):
    """All keys, newest first."""
