"""Keys: hashes only, and a revoked one never comes back."""

import pytest

from actors.exceptions import Conflict, NotFound
from actors.messages.rows import KeyScope
from actors.messages.store import FindKey, ListKeys, PutKey, RevokeKey


def key(key_id="k", name="n", key_hash="h", scopes=(KeyScope.OPERATE,), at=1.0):
    return PutKey(key_id=key_id, name=name, owner="o", scopes=scopes, key_hash=key_hash, at=at)


async def test_a_key_is_found_by_its_hash_until_it_is_revoked(store):
    row = await store.ask(key())
    assert row.allows(KeyScope.OBSERVE) and not row.allows(KeyScope.ADMIN) and not row.allows(KeyScope.API)
    assert await store.ask(FindKey(key_hash="h")) == row
    assert (await store.ask(RevokeKey(key="n", at=2.0))).revoked_at == 2.0
    assert await store.ask(FindKey(key_hash="h")) is None


async def test_a_name_is_free_again_once_its_key_is_revoked(store):
    await store.ask(key())
    with pytest.raises(Conflict, match="'n'"):
        await store.ask(key("k2", key_hash="h2"))
    await store.ask(RevokeKey(key="k", at=2.0))
    await store.ask(key("k2", key_hash="h2", at=3.0))
    assert [row.key_id for row in await store.ask(ListKeys())] == ["k2", "k"]
    # By name the one in use is meant, not the one that is revoked already.
    assert (await store.ask(RevokeKey(key="n", at=4.0))).key_id == "k2"


async def test_a_revoked_key_cannot_be_put_again(store):
    await store.ask(key())
    await store.ask(RevokeKey(key="k", at=2.0))
    with pytest.raises(Conflict):
        await store.ask(key("k2", name="other"))


async def test_an_unknown_key_is_not_found(store):
    with pytest.raises(NotFound):
        await store.ask(RevokeKey(key="none", at=1.0))
