"""ADM: what operators see and steer, on the running daemon and through the command line."""

import asyncio
import json
import stat
import sys
import time

import pytest

from actors.messages.events import Publish, ReadBack
from actors.messages.session import InboxReady
from actors.messages.store import LastEventSeq
from tests.admin_wire import AdminWire
from tests.daemon import Daemon
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


async def test_adm_1_ps_of_1000_live_sessions_adds_up_and_asks_nobody(tmp_path):
    """How long it takes is in tests/bench/bench_scale.py."""
    async with Harness(tmp_path / "data") as harness, AdminWire(harness.url, harness.admin_token) as wire:
        names = {harness.system.new_id() for _ in range(1000)}
        for name in names:
            harness.sessions.tell(InboxReady(session_id=name))
        await until(lambda: len(harness.system.actors()) > 1000 and not harness.system.active)
        await wire.ask("actors.suspend", path="/sessions")
        for name in names:
            harness.sessions.tell(InboxReady(session_id=name))
        before = await rows_by_path(wire)
        rows = await rows_by_path(wire)
        assert {path.rsplit("/", 1)[1] for path in rows if path.startswith("/sessions/")} == names
        assert all(row["parent"] in rows for row in rows.values() if row["parent"] is not None)
        assert sum(row["control_depth"] + row["ordinary_depth"] for row in rows.values()) == 1000
        assert rows["/sessions"]["ordinary_depth"] == 1000 and rows["/sessions"]["oldest_age"] > 0
        # It is one look from outside: of all actors only those that carry any request have handled something for it.
        asked = {path for path, row in rows.items() if row["handled"] > before[path]["handled"]}
        assert asked - {"/sweeper", "/events"} == {"/admin", "/store"}
        await wire.ask("actors.resume", path="/sessions")
        await until(lambda: not harness.system.active)
        served = (await rows_by_path(wire))["/sessions"]
        assert served["handled"] - before["/sessions"]["handled"] == 1000
        info = await wire.ask("system.info")
        assert info["sessions_live"] == 1000 and info["actors"] == len(rows)


async def rows_by_path(wire):
    listed = await wire.ask("actors.list")
    assert listed["total"] == len(listed["actors"])
    return {row["path"]: row for row in listed["actors"]}


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


async def test_adm_2_every_cause_is_an_event_within_a_second(tmp_path):
    settings = {"supervision.stuck_s": 0.3, "admin.stop_s": 0.1}
    async with (
        Harness(tmp_path / "data", **settings) as harness,
        AdminWire(harness.url, harness.admin_token) as wire,
    ):
        await wire.ask("events.subscribe", kinds=["actor."])
        lane = harness.at("/lanes/echo")

        async def told(kind):
            event = await wire.event(kind)
            return event["ts"] - caused, event

        caused = harness.system.clock.wall()
        assert await wire.ask("actors.stop", path="/lanes/echo") == {"status": "stopped"}
        seconds, event = await told("actor.stopped")
        assert seconds < 1 and event["path"] == "/lanes/echo"
        seconds, event = await told("actor.restarted")
        assert seconds < 1 and event["data"]["incarnation"] == 1

        # A handler that does not come back: its time is over after stuck_s, and the next sweep sees it.
        await lane.started(harness.within())
        lane._cell.behaviour.on_receive = lambda message: asyncio.Event().wait()
        caused = harness.system.clock.wall() + 0.3
        lane.tell(Publish(kind="a", path="/t", data={}, at=1.0))
        seconds, event = await told("actor.stalled")
        assert seconds < 1 and event["data"]["child"] == "/lanes/echo" and event["data"]["seconds"] >= 0.3
        seconds, event = await told("actor.restarted")
        assert seconds < 1

        # One restart more than the intensity allows.
        while event["event"] != "actor.quarantined":
            await lane.started(harness.within())
            caused = harness.system.clock.wall()
            lane._cell.kill()
            seconds, event = await told("actor.killed")
            assert seconds < 1
            event = await wire.event()
        assert event["ts"] - caused < 1 and event["data"]["child"] == "/lanes/echo"


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


async def test_adm_3_an_observer_that_comes_and_goes_misses_nothing(tmp_path):
    # The ring is short: what an observer has missed comes out of it, out of the store, or out of both.
    settings = {"events.kept": 32, "events.flush_s": 0.01}
    async with Harness(tmp_path / "data", **settings) as harness:
        next_seq, heard = 1, []
        for turn in range(6):
            async with AdminWire(harness.url, harness.admin_token) as wire:
                await wire.ask("events.subscribe", from_seq=next_seq)
                for n in range(5 * turn):
                    harness.at("/events").tell(Publish(kind="a", path="/t", data={"n": n}, at=1.0))
                    await asyncio.sleep(0)
                last = (await harness.ask("/events", ReadBack(from_seq=-1))).last_seq
                while next_seq <= last - turn:
                    event = await wire.event()
                    if event["event"] == "events.live":
                        continue
                    assert event["event"] != "gap"
                    heard.append(event["seq"])
                    next_seq = event["seq"] + 1
                # Cut off, with the rest on its way.
                wire.socket.transport.abort()
            # While nobody listens.
            for n in range(10):
                harness.at("/events").tell(Publish(kind="b", path="/t", data={"n": n}, at=1.0))
            last = (await harness.ask("/events", ReadBack(from_seq=-1))).last_seq
            await until(lambda last=last: stored(harness, last))
        assert heard == list(range(1, len(heard) + 1)) and len(heard) > 60


async def stored(harness, seq):
    return await harness.ask("/store", LastEventSeq()) >= seq


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


# ADM-4


async def test_adm_4_a_slow_observer_of_the_daemon_is_dropped_and_slows_nobody(tmp_path, backend):
    config = (
        f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n'
        "[admin_socket]\nqueue = 20\nclose_s = 20.0\n"
    )
    async with (
        Daemon(tmp_path / "data", config=config) as daemon,
        AdminWire(daemon.url, daemon.admin_token) as slow,
        AdminWire(daemon.url, daemon.admin_token) as quick,
    ):
        await slow.ask("events.subscribe")
        # It stops reading: the kernel's buffers fill, then the daemon's, then its queue.
        slow.socket.transport.pause_reading()
        longest = "/" + "x" * 1023
        while "overflow" not in (await quick.ask("actors.list", prefix="/events"))["dead_letters"]:
            # Refused and audited: an event of some length for each.
            for n in range(200):
                await quick.send({"id": n, "type": "actors.resume", "path": longest})
            for _ in range(200):
                assert (await quick.receive())["error"]["code"] == "not_found"
        # Everybody else is served meanwhile.
        assert (await quick.ask("actors.get", path="/events"))["actor"]["state"] == "running"
        await quick.ask("sessions.send", chat="c", text="hello", watch=True)
        while (event := await quick.event("turn.state"))["data"]["state"] != "idle":
            pass
        assert event["data"]["text"] == "reply to: hello"
        slow.socket.transport.resume_reading()
        last = await slow.last()
        assert last["event"] == "dropped" and last["data"] == {"reason": "too_slow"}
        assert slow.socket.close_code == 1008


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


async def test_adm_5_what_is_done_to_actors_is_audited(daemon):
    async def actors(*words):
        return await ctl("actors", *words, *here(daemon))

    assert (await actors("suspend", "/lanes/fake")).code == 0
    shown = json.loads((await actors("get", "/lanes/fake", "--json")).out)["actor"]
    assert shown["state"] == "suspended" and abs(shown["since"] + shown["age"] - time.time()) < 10
    assert (await actors("resume", "/lanes/fake")).code == 0
    assert (await actors("restart", "/lanes/fake")).out == "/lanes/fake runs again, incarnation 1\n"
    assert (await actors("stop", "/nobody")).code == 4
    refused = await actors("restart", "/admin")
    assert refused.code == 5 and "carries this request out" in refused.err
    refused = await actors("stop", "/admin")
    assert refused.code == 5 and "carries this request out" in refused.err
    assert (await actors("list", "--sort", "size")).code == 2
    trace = await actors("trace", "/store", "--count", "1", "--contents")
    assert trace.code == 0 and "\x1b" not in trace.out
    assert trace.out.splitlines()[-1].startswith("1 messages; the trace ended by its ")
    ran = await ctl("events", "--kind", "admin.", "--json", *here(daemon))
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert [(event["event"], event["data"]["path"], event["data"]["result"]) for event in events] == [
        ("admin.actors.suspend", "/lanes/fake", "ok"),
        ("admin.actors.resume", "/lanes/fake", "ok"),
        ("admin.actors.restart", "/lanes/fake", "ok"),
        ("admin.actors.stop", "/nobody", "not_found"),
        ("admin.actors.restart", "/admin", "conflict"),
        ("admin.actors.stop", "/admin", "conflict"),
        ("admin.actors.trace", "/store", "ok"),
    ]


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


async def test_adm_7_suspend_holds_the_ordinary_lane_and_resume_loses_nothing(wire):
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
