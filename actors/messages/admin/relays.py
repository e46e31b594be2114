"""About relay peers, what is delivered to them, and keys."""

from typing import Annotated

import msgspec

from actors.messages.admin.request import AdminRequest, Limit, Name, Word
from actors.messages.rows import DeliveryState, KeyScope, PeerRole


class ListRelays(AdminRequest, frozen=True, kw_only=True, tag="relays.list"):
    """The links of relay peers."""


class ListAllDeliveries(AdminRequest, frozen=True, kw_only=True, tag="deliveries.list"):
    """Deliveries, newest first, without their texts."""

    states: tuple[DeliveryState, ...] = ()
    peer: str | None = None
    limit: Limit = 100


class AddPeer(AdminRequest, frozen=True, kw_only=True, tag="peers.add"):
    """Let a relay peer in. Its secret is in the answer, and nowhere else."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name", "role")

    name: Name
    role: PeerRole = PeerRole.CONNECTOR
    identities: tuple[Word, ...] = ()
    scopes: tuple[Word, ...] = ()


class ListAllPeers(AdminRequest, frozen=True, kw_only=True, tag="peers.list"):
    """All peers, without their secrets."""


class RotatePeerSecret(AdminRequest, frozen=True, kw_only=True, tag="peers.rotate"):
    """Give a peer a new secret; the former one stays good beside it."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name",)

    name: Word


class RevokePeerAccess(AdminRequest, frozen=True, kw_only=True, tag="peers.revoke"):
    """Refuse a peer from now on and close its links."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name",)

    name: Word


class AddKey(AdminRequest, frozen=True, kw_only=True, tag="keys.add"):
    """Make a key. It is in the answer, and nowhere else."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name", "owner")

    name: Name
    owner: Word | None = None
    """Keys of one owner see the same chats; if absent, the key's name."""
    scopes: Annotated[tuple[KeyScope, ...], msgspec.Meta(min_length=1)] = (KeyScope.API,)


class ListAllKeys(AdminRequest, frozen=True, kw_only=True, tag="keys.list"):
    """All keys, newest first; of none is more known than its hash."""

    scope = KeyScope.ADMIN


class RevokeKeyAccess(AdminRequest, frozen=True, kw_only=True, tag="keys.revoke"):
    """Refuse a key from now on, by id or name."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("key",)

    key: Word
