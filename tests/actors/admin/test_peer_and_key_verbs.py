"""Secrets are made, shown once, and found nowhere else."""

import hashlib

import msgspec
import pytest

from actors.admin.peer_verbs import new_secret
from actors.exceptions import Conflict, Invalid, NotFound
from actors.messages.admin import (
    AddKey,
    AddPeer,
    ListAllDeliveries,
    ListAllKeys,
    ListAllPeers,
    ListRelays,
    RevokeKeyAccess,
    RevokePeerAccess,
    RotatePeerSecret,
)
from actors.messages.events import ReadBack
from actors.messages.rows import KeyScope, NewDelivery, Route
from actors.messages.secret import Secret
from actors.messages.store import FindKey, FindPeerBySecret, PutDelivery


async def add(box, name="p", identities=("telegram:b",), **fields):
    return await box.perform(AddPeer(name=name, identities=identities, **fields))


async def whose(box, secret):
    row = await box.harness.ask("/store", FindPeerBySecret(secret=Secret(secret)))
    return row.name if row is not None else None


async def test_a_peers_secret_is_shown_once(box):
    added = await add(box, scopes=("g1",))
    assert await whose(box, added["secret"]) == "p"
    assert len(added["secret"]) >= 43
    assert added["peer"]["identities"] == ("telegram:b",) and added["peer"]["scopes"] == ("g1",)
    listed = await box.perform(ListAllPeers())
    page = await box.harness.ask("/events", ReadBack(from_seq=1))
    everything = msgspec.json.encode([listed, page.entries]).decode()
    assert '"p"' in everything and added["secret"] not in everything


async def test_no_secret_looks_like_an_option(box):
    secrets = [new_secret(box.harness.system).value for _ in range(2_000)]
    assert not [secret for secret in secrets if secret.startswith("-")]


async def test_a_rotated_peer_has_two_secrets(box):
    first = (await add(box))["secret"]
    second = (await box.perform(RotatePeerSecret(name="p")))["secret"]
    assert first != second
    assert await whose(box, first) == await whose(box, second) == "p"


async def test_a_revoked_peer_is_refused(box):
    secret = (await add(box))["secret"]
    revoked = await box.perform(RevokePeerAccess(name="p"))
    assert revoked["peer"]["revoked_at"] is not None
    assert await whose(box, secret) is None


@pytest.mark.parametrize("identities", [(), ("telegram",), (":b",), ("telegram:",)])
async def test_identities_are_platform_and_bot(box, identities):
    with pytest.raises(Invalid, match="telegram:my_bot"):
        await add(box, identities=identities)


async def test_names_are_taken_once(box):
    await add(box)
    with pytest.raises(Conflict):
        await add(box, identities=("discord:b",))
    with pytest.raises(Conflict):
        await add(box, "other")
    with pytest.raises(Conflict):
        await add(box, "console")


@pytest.mark.parametrize(
    "request_", [RotatePeerSecret(name="x"), RevokePeerAccess(name="x"), RevokeKeyAccess(key="x")]
)
async def test_nobody_of_that_name(box, request_):
    with pytest.raises(NotFound):
        await box.perform(request_)


async def test_of_a_key_only_the_hash_is_kept(box):
    added = await box.perform(AddKey(name="k", scopes=(KeyScope.API, KeyScope.OBSERVE)))
    key_hash = hashlib.sha256(added["secret"].encode()).hexdigest()
    row = await box.harness.ask("/store", FindKey(key_hash=key_hash))
    assert row.name == row.owner == "k" and row.scopes == (KeyScope.API, KeyScope.OBSERVE)
    listed = await box.perform(ListAllKeys())
    page = await box.harness.ask("/events", ReadBack(from_seq=1))
    assert added["secret"] not in msgspec.json.encode([listed, page.entries]).decode()
    database = (box.harness.data_dir / "turnkeep.db").read_bytes()
    assert added["secret"].encode() not in database


async def test_a_revoked_key_is_not_found_any_more(box):
    added = await box.perform(AddKey(name="k", owner="somebody"))
    await box.perform(RevokeKeyAccess(key="k"))
    key_hash = hashlib.sha256(added["secret"].encode()).hexdigest()
    assert await box.harness.ask("/store", FindKey(key_hash=key_hash)) is None


async def test_deliveries_are_listed_without_their_texts(box):
    delivery = NewDelivery(
        delivery_id="d1", peer="p", route=Route(platform="telegram", chat_id="c"), content="canary"
    )
    await box.harness.ask("/store", PutDelivery(at=1.0, delivery=delivery))
    listed = await box.perform(ListAllDeliveries())
    assert listed["deliveries"][0]["state"] == "pending" and "canary" not in str(listed)
    assert (await box.perform(ListAllDeliveries(peer="other")))["deliveries"] == []


async def test_without_links_there_are_none(box):
    assert (await box.perform(ListRelays()))["relays"] == ()
