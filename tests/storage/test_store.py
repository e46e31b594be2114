"""The store actor: batches, refusals beside successes, faults of the disk, ownership of the directory."""

import asyncio
import os
import sqlite3
import sys

import pytest
from cryptography.fernet import Fernet

from actors.exceptions import (
    Busy,
    Conflict,
    DataDirLocked,
    DeadlineExceeded,
    Invalid,
    SchemaTooNew,
    StoreUnavailable,
)
from actors.messages.base import Request
from actors.messages.events import Event
from actors.messages.lifecycle import StopStatus
from actors.messages.rows import KeyScope, PeerRole
from actors.messages.secret import Secret
from actors.messages.store import (
    AppendEvents,
    FindKey,
    FindPeerBySecret,
    GetPeer,
    LastEventSeq,
    ListPeers,
    ListSessions,
    NextLinkGen,
    PutKey,
    PutPeer,
    ReadEvents,
    RevokeKey,
    RevokePeer,
    RotatePeer,
    StoreInfo,
)
from actors.runtime import Budget
from storage import open_database
from storage.conversations import Conversations
from storage.database import FILE
from storage.families import families
from storage.migrations import migrate
from storage.retention import Retain
from storage.schema import VERSION
from storage.seal import Seal
from storage.settings import RetentionSettings
from tests.storage.conftest import StoreBox


async def test_writers_that_arrive_together_share_commits(store):
    before = (await store.ask(StoreInfo()))["commits"]
    await asyncio.gather(*(store.accept(session_key=f"k{n}") for n in range(64)))
    info = await store.ask(StoreInfo())
    assert info["rows"]["inbox"] == 64
    assert info["commits"] - before <= 4


async def test_a_refused_write_leaves_its_neighbours(store):
    first = await store.accept(max_queued=1)
    outcomes = await asyncio.gather(
        store.accept("a", session_key="other"),
        store.accept("b", max_queued=1),
        store.accept("c", session_key="third"),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], Busy)
    assert outcomes[0].created and outcomes[2].created
    assert len(await store.ask(ListSessions())) == 3 and first.created


async def test_an_expired_write_is_dropped_before_it_begins(store):
    with pytest.raises(DeadlineExceeded):
        await store.ask(store.message(session_key="late"), seconds=0)
    assert await store.ask(ListSessions()) == ()


async def test_what_it_does_not_know_is_refused(store):
    class Strange(Request[None], frozen=True, kw_only=True):
        """Nothing that the store knows."""

    with pytest.raises(Invalid, match="Strange"):
        await store.ask(Strange())


async def test_rel_2_a_full_disk_is_said_and_survived(store):
    def limit(pages):
        return lambda raw: raw.execute(f"PRAGMA max_page_count = {pages}").fetchone()[0]

    connection = store.ref._cell.behaviour._connection
    used = await connection.run(lambda raw: raw.execute("PRAGMA page_count").fetchone()[0])
    await connection.run(limit(used))
    big = "x" * 100_000
    with pytest.raises(StoreUnavailable, match="disk is full: free some space"):
        await store.accept(big, message_id="m1")
    await connection.run(limit(1_000_000))
    accepted = await store.accept(big, message_id="m1")
    assert not accepted.duplicate and accepted.queued == 1


async def test_rel_2_a_second_daemon_is_refused_with_the_owner(store):
    with pytest.raises(DataDirLocked, match=f"pid {os.getpid()}"):
        await open_database(store.data_dir)


async def test_rel_2_a_newer_schema_is_left_alone(tmp_path):
    box = await StoreBox(tmp_path / "d").open()
    await box.close()
    with sqlite3.connect(tmp_path / "d" / FILE) as raw:
        raw.execute("PRAGMA user_version = 99")
    with pytest.raises(SchemaTooNew, match="99"):
        await open_database(tmp_path / "d")


async def test_rel_2_a_file_that_is_no_database_is_named(tmp_path):
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / FILE).write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(StoreUnavailable, match="no database"):
        await open_database(directory)


async def test_rel_2_a_damaged_seal_is_named(tmp_path):
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "secret.key").write_text("short")
    with pytest.raises(StoreUnavailable, match=r"secret\.key"):
        await open_database(directory)


def test_a_migration_backs_up_and_goes_forward(tmp_path):
    path = tmp_path / FILE
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(raw, path)
    steps = {VERSION: lambda connection: connection.execute("CREATE TABLE later (x)")}
    migrate(raw, path, target=VERSION + 1, steps=steps)
    assert raw.execute("SELECT count(*) FROM later").fetchone() == (0,)
    raw.close()
    backup = sqlite3.connect(tmp_path / f"{FILE}.v{VERSION}.bak")
    assert backup.execute("PRAGMA user_version").fetchone() == (VERSION,)
    backup.close()


async def test_stopping_commits_what_is_queued(tmp_path):
    box = await StoreBox(tmp_path / "d").open()
    asked = [box.send(box.message(session_key=f"k{n}")) for n in range(300)]
    await box.system.idle()
    assert await box.system.stop(box.ref, Budget.of(box.system.clock, 10)) is StopStatus.STOPPED
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    kept = sum(not isinstance(outcome, Exception) for outcome in outcomes)
    box.database.close()
    await box.open()
    assert len(await box.ask(ListSessions(limit=1000))) == kept == 300
    await box.close()


@pytest.mark.parametrize(("point", "kept"), [("store.before_commit", 0), ("store.after_commit", 1)])
async def test_rly_11_a_kill_around_the_commit_keeps_all_or_nothing(tmp_path, point, kept):
    program = (
        "import asyncio, sys, pathlib\n"
        "from actors.runtime import Failpoints\n"
        "from tests.storage.conftest import StoreBox\n"
        "async def main():\n"
        "    box = await StoreBox(pathlib.Path(sys.argv[1])).open()\n"
        "    box.system.failpoints = Failpoints.parse(sys.argv[2])\n"
        "    await box.accept(message_id='m1')\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path / "d"), f"{point}=kill"
    )
    assert await process.wait() == -9
    box = await StoreBox(tmp_path / "d").open()
    assert (await box.accept(message_id="m1")).duplicate is bool(kept)
    await box.close()


async def test_every_request_has_a_function_that_uses_an_index(store):
    connection = store.ref._cell.behaviour._connection
    statements: list[str] = []
    await connection.run(lambda raw: raw.set_trace_callback(statements.append))
    accepted = await store.accept(message_id="m", buffer_id="b", turn_id="T")
    await store.take(accepted.session_id)
    await connection.run(lambda raw: raw.set_trace_callback(None))
    for statement in statements:
        if statement.startswith("SELECT"):
            plan = await connection.run(
                lambda raw, sql=statement: [row["detail"] for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}")]
            )
            assert not any(detail.startswith("SCAN") and "CONSTANT" not in detail for detail in plan), (
                statement, plan,
            )  # fmt: skip


def test_every_request_type_has_a_function():
    import actors.messages.store as requests

    kinds = {
        kind
        for kind in vars(requests).values()
        if isinstance(kind, type)
        and issubclass(kind, requests.Read | requests.Write)
        and kind not in (requests.Read, requests.Write)
    }
    assert kinds - set(
        families(Seal(Fernet.generate_key()), Conversations(10, 1000), RetentionSettings())
    ) == {StoreInfo}


# Peers and keys


def peer(name="hermes", role=PeerRole.CONNECTOR, identities=("discord:bot-1",), secret="s1"):
    return PutPeer(name=name, role=role, identities=identities, scopes=(), secret=Secret(secret), at=1.0)


async def test_a_peers_secrets_are_sealed_on_disk_and_rotate(store):
    await store.ask(peer(secret="canary-one"))
    assert (await store.ask(FindPeerBySecret(secret=Secret("canary-one")))).name == "hermes"
    rotated = await store.ask(RotatePeer(name="hermes", secret=Secret("canary-two"), at=2.0))
    assert [secret.value for secret in rotated.secrets] == ["canary-two", "canary-one"]
    await store.ask(RotatePeer(name="hermes", secret=Secret("canary-three"), at=3.0))
    assert await store.ask(FindPeerBySecret(secret=Secret("canary-one"))) is None
    raw = b"".join(file.read_bytes() for file in store.data_dir.iterdir())
    assert b"canary" not in raw
    (listed,) = await store.ask(ListPeers())
    assert listed.secrets == () and "canary" not in repr(rotated)


async def test_an_identity_belongs_to_one_connector(store):
    await store.ask(peer())
    with pytest.raises(Conflict, match="hermes") as caught:
        await store.ask(peer(name="other", secret="s2"))
    assert caught.value.code == "identity_conflict"
    await store.ask(peer(name="gw", role=PeerRole.GATEWAY, secret="s3"))
    await store.ask(RevokePeer(name="hermes", at=2.0))
    await store.ask(peer(name="other", secret="s4"))
    assert (await store.ask(GetPeer(name="hermes"))).revoked_at == 2.0
    assert await store.ask(FindPeerBySecret(secret=Secret("s1"))) is None


async def test_link_generations_only_grow(store, reopened):
    await store.ask(peer())
    assert [await store.ask(NextLinkGen(peer="hermes", at=1.0)) for _ in range(3)] == [1, 2, 3]
    store = await reopened()
    assert await store.ask(NextLinkGen(peer="hermes", at=1.0)) == 4


async def test_keys_are_found_by_hash_until_they_are_revoked(store):
    key = PutKey(key_id="k", name="n", owner="o", scopes=(KeyScope.OPERATE,), key_hash="h", at=1.0)
    row = await store.ask(key)
    assert row.allows(KeyScope.OBSERVE) and not row.allows(KeyScope.ADMIN) and not row.allows(KeyScope.API)
    assert (await store.ask(FindKey(key_hash="h"))).name == "n"
    with pytest.raises(Conflict):
        await store.ask(PutKey(key_id="k2", name="n", owner="o", scopes=(), key_hash="h2", at=1.0))
    await store.ask(RevokeKey(key="n", at=2.0))
    assert await store.ask(FindKey(key_hash="h")) is None


async def test_events_are_kept_once_and_read_from_a_number(store):
    events = tuple(Event(seq=n, kind="k", path="/", at=1.0, data={"n": n}) for n in range(1, 6))
    await store.ask(AppendEvents(events=events, at=1.0))
    await store.ask(AppendEvents(events=events, at=1.0))
    assert await store.ask(LastEventSeq()) == 5
    assert await store.ask(ReadEvents(from_seq=4)) == events[3:]


async def test_retention_lets_expired_rows_go_in_steps(store):
    await asyncio.gather(*(store.accept(session_key="k", message_id=f"m{n}") for n in range(250)))
    assert (await store.ask(Retain(at=store.now + 47 * 3600))).gone == 0
    steps = [await store.ask(Retain(at=store.now + 49 * 3600)) for _ in range(3)]
    assert [(step.gone, step.more) for step in steps] == [(200, True), (50, False), (0, False)]
    assert not (await store.accept(session_key="k", message_id="m1")).duplicate
