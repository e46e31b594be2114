"""Verbs about bearer keys. A key is shown once; what is kept is its hash (ADM-11)."""

import hashlib

from actors.admin.edges import Call, Verb
from actors.admin.peer_verbs import new_secret
from actors.keep import keep
from actors.messages.admin import AddKey, AdminRequest, Answer, ListAllKeys, RevokeKeyAccess
from actors.messages.store import ListKeys, PutKey, RevokeKey


async def add_key(request: AddKey, call: Call) -> Answer:
    """Make a key and show it."""
    key = new_secret(call.edges.system).value
    row = await keep(
        call.edges.store,
        PutKey(
            at=call.now(),
            key_id=call.edges.system.new_id(),
            name=request.name,
            owner=request.owner or request.name,
            scopes=request.scopes,
            key_hash=hashlib.sha256(key.encode()).hexdigest(),
        ),
        call.budget,
    )
    return {"key": row, "secret": key}


async def list_keys(request: ListAllKeys, call: Call) -> Answer:
    """Return what is known of each."""
    return {"keys": await call.edges.store.ask(ListKeys(), call.budget)}


async def revoke_key(request: RevokeKeyAccess, call: Call) -> Answer:
    """Refuse it from now on."""
    return {"key": await keep(call.edges.store, RevokeKey(at=call.now(), key=request.key), call.budget)}


KEY_VERBS: dict[type[AdminRequest], Verb] = {
    AddKey: add_key,
    ListAllKeys: list_keys,
    RevokeKeyAccess: revoke_key,
}
