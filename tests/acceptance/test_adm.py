"""ADM: what operators see and steer, on the running daemon and through the command line."""

import asyncio
import json
import stat
import sys
import time

import pytest

from actors.messages.session import InboxReady
from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.backend_script import Hold
from tests.harness import Harness, until
from tests.transports.terminal.conftest import ctl

SECRET_FILES = ("admin.token", "api.key")


@pytest.fixture
async def daemon(tmp_path, backend):
    lane = f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n'
    async with Daemon(tmp_path / "data", config=lane) as running:
        yield running


@pytest.fixture
async def wire(daemon):
    async with AdminWire(daemon.url, daemon.admin_token) as connection:
        yield connection


def here(daemon):
    return ("--data-dir", str(daemon.data_dir))


# ADM-1


async def test_adm_1_ps_during_1000_live_sessions_is_quick_and_adds_up(tmp_path):
    async with Harness(tmp_path / "data") as harness, AdminWire(harness.url, harness.admin_token) as wire:
        names = {harness.system.new_id() for _ in range(1000)}
        for name in names:
            harness.sessions.tell(InboxReady(session_id=name))
        await until(lambda: len(harness.system.actors()) > 1000 and not harness.system.active)
        took = []
        for _ in range(5):
            began = time.perf_counter()
            result = await wire.ask("actors.list")
            took.append(time.perf_counter() - began)
        assert min(took) < 0.2, took
        rows = {row["path"]: row for row in result["actors"]}
        assert {path.rsplit("/", 1)[1] for path in rows if path.startswith("/sessions/")} == names
        assert all(row["parent"] in rows for row in rows.values() if row["parent"] is not None)
        assert sum(row["control_depth"] + row["ordinary_depth"] for row in rows.values()) == 0
        info = await wire.ask("system.info")
        assert info["sessions_live"] == 1000 and info["actors"] == len(rows)


async def test_adm_1_the_command_shows_every_actor(daemon, wire):
    listed = (await wire.ask("actors.list"))["actors"]
    ran = await ctl("ps", *here(daemon))
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()[1:] if line.startswith("/")] == [
        row["path"] for row in listed
    ]
    tree = json.loads((await ctl("tree", "--json", *here(daemon))).out)["tree"]
    assert sorted(paths(tree)) == sorted(row["path"] for row in listed)


def paths(nodes):
    for node in nodes:
        yield node["path"]
        yield from paths(node["children"])


# ADM-2


async def test_adm_2_an_actor_that_stops_restarts_and_is_quarantined_is_an_event_within_a_second(wire):
    await wire.ask("events.subscribe", kinds=["actor."])
    told = []

    async def next_kind():
        event = await wire.event()
        assert time.time() - event["ts"] < 1
        told.append(event)
        return event["event"]

    while await wire.ask("actors.stop", path="/lanes/fake") == {"status": "stopped"}:
        assert await next_kind() == "actor.stopped"
        if await next_kind() == "actor.quarantined":
            break
    assert [event["event"] for event in told].count("actor.restarted") == 5
    assert told[-1]["data"]["child"] == told[0]["path"] == "/lanes/fake"
    assert (await wire.ask("actors.get", path="/lanes"))["actor"]["state"] == "running"


# ADM-3


async def test_adm_3_events_resume_over_a_restart(daemon):
    async with AdminWire(daemon.url, daemon.admin_token) as wire:
        for n in range(3):
            await wire.ask("sessions.open", chat=f"c{n}")
        await wire.ask("events.subscribe", from_seq=1)
        last = await seq_of(wire, "admin.sessions.open", 3)
    assert await daemon.stop() == 0
    await daemon.start()
    ran = await ctl("events", "--json", "--from", str(last), *here(daemon))
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0 and events[0]["event"] == "admin.sessions.open"
    assert [event["seq"] for event in events] == list(range(last, last + len(events)))
    assert "gap" not in [event["event"] for event in events]


async def test_adm_3_after_a_kill_events_resume_or_say_gap(daemon):
    async with AdminWire(daemon.url, daemon.admin_token) as wire:
        await wire.ask("events.subscribe", from_seq=1)
        await wire.ask("sessions.open", chat="c")
        last = await seq_of(wire, "admin.sessions.open", 1)
    await daemon.kill()
    await daemon.start()
    async with AdminWire(daemon.url, daemon.admin_token) as wire:
        await wire.ask("events.subscribe", from_seq=last + 1)
        await wire.ask("sessions.open", chat="d")
        expected = last + 1
        while True:
            event = await wire.event()
            if event["event"] == "gap":
                assert event["data"]["next_seq"] > expected
                expected = event["data"]["next_seq"]
            elif event["event"] != "events.live":
                assert event["seq"] == expected
                expected += 1
            if event["event"] == "admin.sessions.open" and event["data"]["chat"] == "d":
                break


async def seq_of(wire, kind, times):
    for _ in range(times):
        event = await wire.event(kind)
    return event["seq"]


async def test_adm_3_follow_goes_on_over_a_restart(daemon):
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            "from bin.ctl import main; main()",
            "events",
            "--follow",
            "--json",
            *here(daemon),
        ),
        *("--kind", "admin.sessions.open", "--from", "1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )

    async def followed():
        async with asyncio.timeout(20):
            while True:
                event = json.loads(await process.stdout.readline())
                if event["event"] != "gap":
                    return event["data"]["chat"]

    try:
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            await wire.ask("sessions.open", chat="one")
        assert await followed() == "one"
        await daemon.stop()
        await daemon.start()
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            await wire.ask("sessions.open", chat="two")
        assert await followed() == "two"
    finally:
        process.kill()
        await process.communicate()


# ADM-5


async def test_adm_5_changes_are_audited_and_hold_no_secret(daemon):
    added = json.loads(
        (await ctl("peers", "add", "p", "--identity", "telegram:b", "--json", *here(daemon))).out
    )
    key = json.loads((await ctl("keys", "add", "k", "--json", *here(daemon))).out)
    assert (await ctl("peers", "rotate", "nope", *here(daemon))).code == 4
    ran = await ctl("events", "--kind", "admin.", "--json", *here(daemon))
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert [(event["event"], event["data"]["name"], event["data"]["result"]) for event in events] == [
        ("admin.peers.add", "p", "ok"),
        ("admin.keys.add", "k", "ok"),
        ("admin.peers.rotate", "nope", "not_found"),
    ]
    assert all(event["data"]["by"] == "admin" for event in events)
    assert await daemon.stop() == 0
    everything = ran.out + daemon.log
    assert added["secret"] not in everything and key["secret"] not in everything


# ADM-6


@pytest.mark.parametrize("token", [None, "wrong"])
async def test_adm_6_without_a_credential_nothing_is_said(daemon, token):
    async with AdminWire(daemon.url, token) as wire:
        assert await wire.closed() == 4401


async def test_adm_6_the_wrong_scope_is_forbidden(daemon):
    async with AdminWire(daemon.url, daemon.api_key) as wire:
        assert await wire.ask("actors.list") == "forbidden"
    made = json.loads((await ctl("keys", "add", "o", "--scope", "observe", "--json", *here(daemon))).out)
    assert (await ctl("ps", "--token", made["secret"], *here(daemon))).code == 0
    ran = await ctl("shutdown", "--token", made["secret"], *here(daemon))
    assert ran.code == 5 and "scope admin" in ran.err


# ADM-7


async def test_adm_7_suspend_holds_the_ordinary_lane_and_resume_loses_nothing(wire, backend):
    backend.script(Hold("never"))
    await wire.ask("actors.suspend", path="/sessions")
    sent = [await wire.ask("sessions.send", chat=f"c{n}", text="hello", watch=n == 1) for n in range(2)]
    assert all(one["accepted"]["state"] == "accepted" for one in sent)
    row = (await wire.ask("actors.get", path="/sessions"))["actor"]
    assert (row["state"], row["ordinary_depth"]) == ("suspended", 3)
    # Control is served meanwhile: a stop is answered although nothing runs.
    session_id = sent[0]["accepted"]["session_id"]
    assert (await wire.ask("sessions.stop_turn", session_id=session_id))["stopped"] is False
    await wire.ask("actors.resume", path="/sessions")
    while True:
        event = await wire.event("turn.state")
        if event["data"]["state"] == "idle":
            assert event["data"]["text"] == "reply to: hello"
            break
    assert (await wire.ask("actors.get", path="/sessions"))["actor"]["ordinary_depth"] == 0


# ADM-11


async def test_adm_11_the_first_run_makes_credentials_and_prints_their_paths_only(tmp_path):
    async with Daemon(tmp_path / "data") as daemon:
        secrets = {name: (daemon.data_dir / name).read_text().strip() for name in SECRET_FILES}
        for name, secret in secrets.items():
            file = daemon.data_dir / name
            assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(secret) >= 43
        assert (await ctl("status", *here(daemon))).code == 0
        assert await daemon.stop() == 0
        printed = daemon.log
        kept = b"".join(file.read_bytes() for file in daemon.data_dir.glob("turnkeep.db*"))
        for secret in secrets.values():
            assert secret not in printed and secret.encode() not in kept
        await daemon.start()
        assert {name: (daemon.data_dir / name).read_text().strip() for name in SECRET_FILES} == secrets
        assert (await ctl("status", *here(daemon))).code == 0


async def test_adm_11_the_first_run_says_where_they_are(tmp_path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from bin.daemon import main; main()", "--port", "0"),
        *("--data-dir", str(tmp_path / "data")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await until(lambda: (tmp_path / "data" / "daemon.json").exists())
    process.terminate()
    out = (await process.communicate())[0].decode()
    for name in SECRET_FILES:
        assert str(tmp_path / "data" / name) in out
        assert (tmp_path / "data" / name).read_text().strip() not in out
    assert process.returncode == 0
