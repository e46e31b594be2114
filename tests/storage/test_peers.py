"""Peers: their identities, and secrets that nobody can read off the disk."""

import pytest

from actors.exceptions import Conflict, NotFound
from actors.messages.rows import PeerRole
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


def peer(name="hermes", role=PeerRole.CONNECTOR, identities=("discord:bot-1",), secret="s1"):
    return PutPeer(name=name, role=role, identities=identities, scopes=("G1",), secret=Secret(secret), at=1.0)


async def find(store, secret):
    row = await store.ask(FindPeerBySecret(secret=Secret(secret)))
    return row.name if row is not None else None


async def test_a_peer_is_found_by_name_and_by_secret(store):
    row = await store.ask(peer())
    assert (row.name, row.role, row.identities, row.scopes) == (
        "hermes", PeerRole.CONNECTOR, ("discord:bot-1",), ("G1",),
    )  # fmt: skip
    assert await store.ask(GetPeer(name="hermes")) == row
    assert await find(store, "s1") == "hermes"
    assert await find(store, "s2") is None
    assert await store.ask(GetPeer(name="nobody")) is None


async def test_rel_6_secrets_are_sealed_on_disk_and_left_out_of_lists(store):
    await store.ask(peer(secret="canary-one"))
    rotated = await store.ask(RotatePeer(name="hermes", secret=Secret("canary-two"), at=2.0))
    assert [secret.value for secret in rotated.secrets] == ["canary-two", "canary-one"]
    assert b"canary" not in b"".join(file.read_bytes() for file in store.data_dir.iterdir())
    (listed,) = await store.ask(ListPeers())
    assert listed.secrets == () and "canary" not in repr(rotated)


async def test_a_rotation_keeps_the_former_secret_and_no_older_one(store):
    await store.ask(peer(secret="one"))
    for secret in ("two", "three"):
        await store.ask(RotatePeer(name="hermes", secret=Secret(secret), at=2.0))
    assert [await find(store, secret) for secret in ("one", "two", "three")] == [None, "hermes", "hermes"]


async def test_repeating_a_rotation_changes_nothing(store):
    await store.ask(peer(secret="one"))
    rotate = RotatePeer(name="hermes", secret=Secret("two"), at=2.0)
    assert await store.ask(rotate) == await store.ask(rotate)
    assert await find(store, "one") == "hermes"


async def test_a_secret_names_one_peer(store):
    await store.ask(peer())
    with pytest.raises(Conflict, match="secret"):
        await store.ask(peer(name="other", identities=("discord:bot-2",)))
    await store.ask(peer(name="other", identities=("discord:bot-2",), secret="s2"))
    with pytest.raises(Conflict, match="secret"):
        await store.ask(RotatePeer(name="other", secret=Secret("s1"), at=2.0))
    assert await find(store, "s2") == "other"


async def test_a_name_is_given_once(store):
    await store.ask(peer())
    await store.ask(RevokePeer(name="hermes", at=2.0))
    with pytest.raises(Conflict, match="hermes"):
        await store.ask(peer(secret="s2"))


async def test_an_identity_belongs_to_one_connector(store):
    await store.ask(peer())
    with pytest.raises(Conflict, match="hermes") as caught:
        await store.ask(peer(name="other", secret="s2"))
    assert caught.value.code == "identity_conflict"
    await store.ask(peer(name="gateway", role=PeerRole.GATEWAY, secret="s3"))
    await store.ask(RevokePeer(name="hermes", at=2.0))
    await store.ask(peer(name="other", secret="s4"))


async def test_a_revoked_peer_is_known_and_refused(store):
    await store.ask(peer())
    revoked = await store.ask(RevokePeer(name="hermes", at=2.0))
    assert revoked.revoked_at == 2.0
    assert (await store.ask(RevokePeer(name="hermes", at=9.0))).revoked_at == 2.0
    assert (await store.ask(GetPeer(name="hermes"))).revoked_at == 2.0
    assert await find(store, "s1") is None
    with pytest.raises(Conflict, match="revoked"):
        await store.ask(RotatePeer(name="hermes", secret=Secret("s2"), at=3.0))


@pytest.mark.parametrize(
    "request_of_nobody",
    [
        RotatePeer(name="nobody", secret=Secret("s"), at=1.0),
        RevokePeer(name="nobody", at=1.0),
        NextLinkGen(peer="nobody", at=1.0),
    ],
)
async def test_nobody_is_not_found(store, request_of_nobody):
    with pytest.raises(NotFound, match="nobody"):
        await store.ask(request_of_nobody)


async def test_link_generations_only_grow(store):
    await store.ask(peer())
    assert [await store.ask(NextLinkGen(peer="hermes", at=1.0)) for _ in range(3)] == [1, 2, 3]
    await store.reopen()
    assert await store.ask(NextLinkGen(peer="hermes", at=1.0)) == 4


async def test_without_its_key_file_a_secret_is_unreadable_until_the_peer_is_rotated(store):
    await store.ask(peer(secret="one"))
    (store.data_dir / "secret.key").unlink()
    await store.reopen()
    assert (await store.ask(GetPeer(name="hermes"))).secrets == ()
    rotated = await store.ask(RotatePeer(name="hermes", secret=Secret("two"), at=2.0))
    assert rotated.secrets == (Secret("two"),)
    assert (await find(store, "one"), await find(store, "two")) == (None, "hermes")
