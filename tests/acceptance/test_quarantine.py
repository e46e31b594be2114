"""What is quarantined, in the real composition and through the daemon as a process."""

import asyncio
import json
import signal
import sqlite3
import time

import pytest

from actors.admin.quarantine_verbs import QUARANTINE_VERBS
from actors.exceptions import ActorQuarantined
from actors.messages.admin import type_of
from actors.messages.quarantine import ListQuarantines, ReleaseQuarantine
from actors.messages.session import AttachWatcher, LiveSessions
from actors.messages.store import ListSessions, ListTurns
from actors.messages.turn import StopGeneration
from tests.acceptance.conftest import Api
from tests.actors.supervision.stubborn import Stubborn
from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.backend_script import Hold
from tests.harness import until
from tests.transports.terminal.conftest import ctl

QUICK = {"supervision.lost_s": 0.2, "supervision.sweep_s": 0.02}


@pytest.fixture
async def stubborn():
    """Work that does not end, until the test has."""
    made = Stubborn()
    yield made
    await made.let_go()


def hang(actor, work, message):
    """Let the handler of an actor not end at the next message of a type."""
    behaviour = actor._cell.behaviour
    handle = behaviour.on_receive

    async def on_receive(received):
        if isinstance(received, message):
            return await work()
        return await handle(received)

    # An activation looks its handler up when it begins.
    behaviour.on_receive = on_receive


async def held(harness):
    return [row.case.subject.name for row in await harness.ask("/quarantine", ListQuarantines())]


async def test_a_session_that_does_not_end_is_not_activated_beside_itself_and_its_messages_wait(
    boot, client, backend, stubborn
):
    harness = await boot(**QUICK, **{"session.retry_base_s": 0.0, "server.keepalive_s": 0.1})
    api = Api(client, harness)
    await api.say("one", "c1")
    (session,) = await harness.ask("/store", ListSessions())
    path = f"/sessions/{session.session_id}"
    hang(harness.at(path), stubborn.work, AttachWatcher)
    waiting = asyncio.ensure_future(api.say("two", "c1"))
    await stubborn.begun.wait()
    harness.system.kill(path)
    await until(lambda: harness.system.custody.is_quarantined(path))
    assert await until(lambda: held(harness)) == [path]
    # Others live on.
    assert (await api.say("three", "c2"))[0] == 200
    assert path.rsplit("/", 1)[1] not in await harness.ask("/sessions", LiveSessions())
    assert not waiting.done()
    await stubborn.let_go()
    assert (await waiting)[0] == 200
    assert await held(harness) == []
    assert [exchange.last_user_message for exchange in backend.exchanges] == ["one", "three", "two"]


async def test_no_turn_begins_beside_one_that_does_not_end(boot, client, backend, stubborn):
    harness = await boot(**QUICK, **{"session.retry_base_s": 0.01, "server.keepalive_s": 0.1})
    api = Api(client, harness)
    backend.script(Hold("never"))
    first = asyncio.ensure_future(api.say("one", "c1"))
    await backend.request(0)
    (session,) = await harness.ask("/store", ListSessions())
    path = f"/sessions/{session.session_id}/turn"
    hang(harness.at(path), stubborn.work, StopGeneration)
    harness.at(path).tell(StopGeneration(by="user"))
    await stubborn.begun.wait()
    harness.system.kill(path)
    assert (await first)[0] == 500
    second = asyncio.ensure_future(api.say("two", "c1"))
    await until(lambda: harness.system.custody.is_quarantined(path))
    assert await until(lambda: held(harness)) == [path]
    turns = await harness.ask("/store", ListTurns())
    assert "running" not in [turn.state for turn in turns] and not second.done()
    # By force: two of them may run then.
    await harness.ask("/quarantine", ReleaseQuarantine(name=path, by="ann", forced=True))
    assert (await second)[0] == 200


async def test_a_lane_past_its_intensity_is_said_and_comes_back_with_its_release(boot, client):
    harness = await boot()
    api = Api(client, harness)
    ref = harness.at("/lanes/fake")
    async with AdminWire(harness.url, harness.admin_token) as wire:
        while await wire.ask("actors.stop", path="/lanes/fake") != "quarantined":
            await until(lambda: harness.system.info("/lanes/fake").state in ("running", "quarantined"))
        status, _, body = await api.say("one", "c1")
        assert (status, body["error"]["code"]) == (503, "backend_unavailable")
        status, _, body = await api.say("one", "c1", model="fake")
        assert (status, body["error"]["code"]) == (503, "backend_unavailable")
        assert "fake is quarantined" in body["error"]["message"]
        async with client.get(f"{harness.url}/readyz") as ready:
            assert (ready.status, (await ready.json())["failing"]) == (503, ["lanes"])
        with pytest.raises(ActorQuarantined):
            await ref.started(harness.within())
        assert await wire.ask("actors.restart", path="/lanes/fake") == "quarantined"
        released = await wire.ask("quarantine.release", name="/lanes/fake")
        assert released["quarantine"]["cause"] == "released"
        assert (await api.say("two", "c1"))[0] == 200
        assert harness.at("/lanes/fake") is ref
        assert await wire.ask("quarantine.release", name="/lanes/fake") == "not_found"


async def test_the_front_past_its_intensity_is_released_from_within(boot, client):
    harness = await boot()
    for _ in range(6):
        await until(lambda: harness.system.info("/front").state == "running")
        harness.system.kill("/front")
    await until(lambda: harness.system.info("/front").state == "quarantined")
    await harness.ask("/quarantine", ReleaseQuarantine(name="/front", by="ann"))
    await harness.at("/front").started(harness.within())
    assert (await Api(client, harness).say("one", "c1"))[0] == 200


def test_every_quarantine_verb_names_what_it_needs():
    needed = {type_of(request): str(request.scope) for request in QUARANTINE_VERBS}
    assert needed == {
        "quarantine.list": "observe",
        "quarantine.release": "operate",
        "quarantine.reconcile": "operate",
    }


# The daemon as a process


def config(backend):
    lane = f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n'
    return f"{lane}[supervision]\nlost_s = 0.2\nsweep_s = 0.02\n[shutdown]\nbudget_s = 3.0\n"


def here(daemon):
    return ("--data-dir", str(daemon.data_dir))


async def ask(client, daemon):
    headers = {"Authorization": f"Bearer {daemon.api_key}", "X-Session-Id": "c1"}
    body = {"messages": [{"role": "user", "content": "hello"}]}
    return await client.post(f"{daemon.url}/v1/chat/completions", json=body, headers=headers)


HANG = {"TURNKEEP_FAILPOINTS": "lane.request=hang"}


async def quarantine_the_lane(daemon, client, wire):
    """Let the lane's request hang for ever, and stop the lane."""
    asking = asyncio.ensure_future(ask(client, daemon))
    await until(lambda: busy(wire))
    await wire.ask("events.subscribe", kinds=["actor.quarantined"])
    assert await wire.ask("actors.stop", path="/lanes/fake") == {"status": "stopped"}
    event = await wire.event("actor.quarantined")
    assert time.time() - event["ts"] < 1 and event["data"]["child"] == "/lanes/fake"
    asking.cancel()


async def busy(wire):
    rows = (await wire.ask("actors.list", prefix="/sessions"))["actors"]
    return any(row["kind"] == "turn" for row in rows)


async def test_adm_2_what_does_not_end_is_shown_refused_and_released_by_force(tmp_path, backend, client):
    async with Daemon(tmp_path / "data", config=config(backend), env=HANG) as daemon:
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            await quarantine_the_lane(daemon, client, wire)
        assert "quarantined" in next(
            line for line in (await ctl("ps", *here(daemon))).out.splitlines() if "/lanes/fake" in line
        )
        assert "fake  lane, quarantined" in (await ctl("tree", *here(daemon))).out
        ran = await ctl("quarantine", "list", *here(daemon))
        assert ran.code == 0 and ran.out.splitlines()[1].split()[:5] == [
            "/lanes/fake", "actor", "0", "quarantined", "still_alive"
        ]  # fmt: skip
        ran = await ctl("quarantine", "show", "/lanes/fake", *here(daemon))
        assert ran.code == 0 and "asked by" in ran.out and "end proved" in ran.out
        ran = await ctl("actors", "stop", "/lanes/fake", *here(daemon))
        assert ran.code == 5 and "quarantine.release starts it" in ran.err
        ran = await ctl("quarantine", "reconcile", *here(daemon))
        assert ran.code == 0 and "last answer still_alive" in ran.out
        ran = await ctl("quarantine", "release", "/lanes/fake", *here(daemon))
        assert ran.code == 5 and "nothing proves that actor /lanes/fake (generation 0) on daemon" in ran.err
        assert (await ctl("quarantine", "release", "/lanes/nope", *here(daemon))).code == 4
        assert (await ctl("quarantine", "show", "/lanes/nope", *here(daemon))).code == 4
        ran = await ctl("quarantine", "release", "/lanes/fake", "--force", *here(daemon))
        assert ran.out == "/lanes/fake is forced; nothing proved that it had ended\n" and ran.code == 0
        assert (await ask(client, daemon)).status == 200
        listed = json.loads((await ctl("quarantine", "list", "--lifted", "--json", *here(daemon))).out)
        assert listed["quarantines"] == [] and listed["lifted"][0]["cause"] == "forced"
        assert listed["lifted"][0]["ended_by"] == "admin"
        # The released task still runs: it must not keep the daemon from ending.
        daemon.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await daemon.ended() == 1
        assert "which would not end" in daemon.log


async def test_after_a_kill_what_the_process_ran_is_lifted_and_what_others_run_is_not(
    tmp_path, backend, client
):
    daemon = Daemon(tmp_path / "data", config=config(backend), env=HANG)
    try:
        await daemon.start()
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            await quarantine_the_lane(daemon, client, wire)
            await until(lambda: stored(wire))
        await daemon.kill()
        with sqlite3.connect(daemon.data_dir / "turnkeep.db") as database:
            database.execute(
                "INSERT INTO quarantines (quarantine_id, version, kind, name, generation, host, boot_id, asked_by, why,"
                " reason, state, proved, since, attempts) VALUES ('5e55', 1, 'session', 's1', 4, 'machine-x', 'b0', 'ann',"
                " 'reopen', 'still_alive', 'quarantined', 0, 1000.0, 2)"
            )
        database.close()
        await daemon.start(env={"TURNKEEP_FAILPOINTS": ""})
        assert (await ask(client, daemon)).status == 200
        ran = await ctl("quarantine", "show", "/lanes/fake", *here(daemon))
        assert ran.code == 0 and "process_restarted" in ran.out
        listed = json.loads((await ctl("quarantine", "list", "--json", *here(daemon))).out)["quarantines"]
        assert [(row["name"], row["last_answer"]) for row in listed] == [("s1", "no_answer")]
        ran = await ctl("quarantine", "release", "s1", *here(daemon))
        assert ran.code == 5 and "on machine-x" in ran.err
        assert await daemon.stop() == 0
    finally:
        await daemon.close()


async def stored(wire):
    rows = (await wire.ask("quarantine.list"))["quarantines"]
    return rows and rows[0]["version"]


async def test_what_was_past_its_intensity_is_lifted_by_a_restart(tmp_path, backend, client):
    async with Daemon(tmp_path / "data", config=config(backend)) as daemon:
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            while await wire.ask("actors.stop", path="/lanes/fake") != "quarantined":
                pass
            await until(lambda: stored(wire))
        assert await daemon.stop() == 0
        await daemon.start()
        assert (await ask(client, daemon)).status == 200
        listed = json.loads((await ctl("quarantine", "list", "--lifted", "--json", *here(daemon))).out)
        assert [row["cause"] for row in listed["lifted"]] == ["process_restarted"]
        assert listed["lifted"][0]["reason"] == "restart_intensity" and listed["quarantines"] == []
