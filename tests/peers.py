"""Relay peers and keys for tests, made as an operator makes them."""

import hashlib

from actors.messages.admin import AddPeer, Perform
from actors.messages.rows import KeyRow, PeerRole
from actors.messages.store import FindKey
from tests.harness import Harness


async def admin_key(harness: Harness) -> KeyRow:
    """Return the first run's admin key."""
    key_hash = hashlib.sha256(harness.admin_token.encode()).hexdigest()
    key = await harness.ask("/store", FindKey(key_hash=key_hash))
    assert key is not None
    return key


async def add_peer(
    harness: Harness,
    name: str,
    *identities: str,
    role: PeerRole = PeerRole.CONNECTOR,
    scopes: tuple[str, ...] = (),
) -> str:
    """Add a peer through the admin actor; return its secret."""
    request = AddPeer(name=name, role=role, identities=identities, scopes=scopes)
    answer = await harness.ask(
        "/admin",
        Perform(request=request, caller=await admin_key(harness), watcher=harness.system.port("/test")),
    )
    return str(answer["secret"])
