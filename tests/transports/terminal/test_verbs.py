"""Each verb shows what the daemon says, for people and for programs."""

import asyncio
import contextlib
import json

import pytest

from actors.messages.events import Publish, ReadBack
from actors.messages.rows import NewDelivery, Route
from actors.messages.secret import Secret
from actors.messages.store import FindPeerBySecret, PutDelivery
from tests.fakes.backend_script import Hold, Role, Text
from tests.harness import until
from transports.terminal import actors, chat, events, keys, peers, ps, relays, sessions, system
from transports.terminal.client import AdminClient
from transports.terminal.exits import ConnectionLost, Exit, Failure
from transports.terminal.place import Options
from transports.terminal.verb import Desk


async def shown(capsys, work):
    await work
    return capsys.readouterr().out


async def result(capsys, work):
    return json.loads(await shown(capsys, work))


async def test_ps(desk, json_desk, capsys):
    out = await shown(capsys, ps.ps(desk, "/"))
    lines = out.splitlines()
    assert lines[0].split() == [
        "PATH",
        "KIND",
        "STATE",
        "INC",
        "CONTROL",
        "ORDINARY",
        "OLDEST",
        "BUSY",
        "HANDLED",
        "RESTARTS",
        "ERROR",
        "AGE",
    ]
    store = next(line.split() for line in lines if line.startswith("/store "))
    assert store[1:6] == ["store", "running", "0", "0", "0"] and len(store) == 12
    listed = await result(capsys, ps.ps(json_desk, "/lanes"))
    assert [row["path"] for row in listed["actors"]] == ["/lanes", "/lanes/fake"]


async def test_tree(desk, json_desk, capsys):
    out = await shown(capsys, ps.tree(desk))
    assert out.startswith("/  supervisor, running\n├─ admin  admin, running\n")
    assert "├─ lanes  supervisor, running\n│  └─ fake  lane, running\n" in out
    assert "├─ store  store, running\n└─ sweeper  sweeper, running\n" in out
    assert (await result(capsys, ps.tree(json_desk)))["tree"][0]["path"] == "/"


async def test_ps_shows_what_is_asked_for(harness, desk, json_desk, capsys):
    await desk.call("actors.suspend", path="/sessions")
    await desk.call("sessions.send", chat="main", text="hello")
    listed = await result(capsys, ps.ps(json_desk, sort="depth", limit=1))
    assert [row["path"] for row in listed["actors"]] == ["/sessions"] and listed["total"] > 5
    out = await shown(capsys, ps.ps(desk, state=["suspended"], depth=1))
    assert out.splitlines()[1].startswith("/sessions  router  suspended")
    assert out.splitlines()[2] == f"1 of {listed['total']} actors"
    kinds = (await result(capsys, actors.ps(json_desk, kind=["lane", "store"])))["actors"]
    assert [row["path"] for row in kinds] == ["/lanes/fake", "/store"]
    await desk.call("actors.resume", path="/sessions")
    with pytest.raises(Failure, match="depth, oldest") as failed:
        await ps.ps(desk, sort="size")
    assert failed.value.exit_code is Exit.USAGE
    with pytest.raises(Failure, match=r"'asleep'; there are: created, .*suspended.* stopped$") as failed:
        await ps.ps(desk, state=["running", "asleep"])
    assert failed.value.exit_code is Exit.USAGE


async def test_an_actor_for_which_nothing_waits_has_no_oldest_message(harness, desk, capsys):
    def columns(out):
        line = next(line.split() for line in out.splitlines() if line.startswith("/sessions "))
        return dict(zip(ps.HEADS, line, strict=True))

    idle = columns(await shown(capsys, ps.ps(desk)))
    assert (idle["ORDINARY"], idle["OLDEST"], idle["BUSY"]) == ("0", "-", "-")
    assert "oldest       -\nbusy for     -\n" in await shown(capsys, actors.get(desk, "/sessions"))
    await desk.call("actors.suspend", path="/sessions")
    await desk.call("sessions.send", chat="main", text="hello")
    waiting = columns(await shown(capsys, ps.ps(desk)))
    assert waiting["ORDINARY"] == "1" and waiting["OLDEST"].endswith("s")
    await desk.call("actors.resume", path="/sessions")


async def test_one_actor(desk, json_desk, capsys):
    out = await shown(capsys, actors.get(desk, "/lanes"))
    assert "kind         supervisor\n" in out and "children     /lanes/fake\n" in out
    assert (await result(capsys, actors.get(json_desk, "/store")))["actor"]["since"] > 1_700_000_000
    out = await shown(capsys, actors.suspend(desk, "/sessions"))
    assert out == "/sessions is suspended; let it go on with: turnkeepctl actors resume /sessions\n"
    assert await shown(capsys, actors.resume(desk, "/sessions")) == "/sessions goes on\n"
    out = await shown(capsys, actors.restart(desk, "/lanes/fake"))
    assert out == "/lanes/fake runs again, incarnation 1\n"
    restarted = await result(capsys, actors.restart(json_desk, "/lanes/fake"))
    assert restarted == {"status": "restarted", "incarnation": 2}
    assert await shown(capsys, actors.stop(desk, "/lanes/fake")) == "/lanes/fake has stopped\n"
    for refused in ("/", "/admin"):
        with pytest.raises(Failure, match="is not stopped") as failed:
            await actors.stop(desk, refused)
        assert failed.value.exit_code is Exit.REFUSED
    for refused in ("/", "/admin", "/front"):
        with pytest.raises(Failure) as failed:
            await actors.restart(desk, refused)
        assert failed.value.exit_code is Exit.REFUSED
    with pytest.raises(Failure) as failed:
        await actors.get(desk, "/nobody")
    assert failed.value.exit_code is Exit.NOT_FOUND
    with pytest.raises(Failure, match=r"begins with a slash: /store$") as failed:
        await actors.get(desk, "store")
    assert failed.value.exit_code is Exit.NOT_FOUND


async def test_a_trace(harness, desk, json_desk, capsys):
    async def watched(work):
        task = asyncio.ensure_future(shown(capsys, work))
        await until(lambda: harness.at("/events")._cell.tracing is not None)
        for _ in range(2):
            harness.at("/events").tell(Publish(kind="a", path="/t", data={"n": "x y"}, at=1.0))
        return (await task).splitlines()

    lines = await watched(actors.trace(desk, "/events", count=2))
    assert len(lines) == 3 and "Publish from outside" in lines[0]
    assert lines[2] == "2 messages; the trace ended by its count"
    lines = await watched(actors.trace(desk, "/events", count=1, contents=True))
    assert json.loads(lines[1])["data"] == {"n": "x y"}
    lines = await watched(actors.trace(json_desk, "/events", count=1))
    assert [json.loads(line)["event"] for line in lines] == ["trace", "trace.ended"]


async def test_an_actor_that_outlives_its_stop_is_a_failure(boot, capsys):
    harness = await boot(**{"admin.stop_s": 0.1})
    desk = Desk(Options(url=harness.url, token=harness.admin_token))
    behaviour = harness.at("/lanes/fake")._cell.behaviour
    ended = asyncio.Event()

    async def never(reason):
        while not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()

    behaviour.on_stop = never
    with pytest.raises(Failure, match="did not end") as failed:
        await actors.restart(desk, "/lanes/fake")
    assert failed.value.exit_code is Exit.FAILED
    ended.set()


async def test_status(harness, desk, json_desk, capsys):
    out = await shown(capsys, system.status(desk))
    assert harness.url in out and str(harness.data_dir) in out and "schema" in out
    assert (await result(capsys, system.status(json_desk)))["url"] == harness.url


async def test_shutdown(harness, desk, capsys):
    assert "is shutting down" in await shown(capsys, system.shutdown(desk))
    assert (await harness.calls.receive(harness.within())).by == "admin"


async def test_sessions(harness, backend, desk, json_desk, capsys):
    backend.script(Role(), Text("Hel"), Hold("never"))
    opened = await desk.call("sessions.open", chat="main")
    session_id = opened["session"]["session_id"]
    assert "accepted as" in await shown(capsys, sessions.send(desk, session_id, "hello"))
    out = await shown(capsys, sessions.list_(desk, peer="console", limit=10))
    assert out.splitlines()[1].startswith(f"{session_id}  chat")
    assert "stopping" in await until(lambda: stopped(capsys, desk, session_id))
    await until(lambda: ended(desk, session_id))
    out = await shown(capsys, sessions.show(desk, session_id[:16]))
    assert "agent:main:console:dm:main" in out and "cancelled" in out
    out = await shown(capsys, sessions.history(desk, session_id, limit=10))
    assert "user\nhello\n" in out
    rows = await result(capsys, sessions.history(json_desk, session_id, limit=10))
    assert rows["history"][0]["content"] == "hello"
    assert (await result(capsys, sessions.stop(json_desk, session_id)))["stopped"] is False
    assert (await result(capsys, sessions.list_(json_desk, peer=None, limit=10)))["sessions"]
    assert (await result(capsys, sessions.show(json_desk, session_id)))["turns"]
    assert (await result(capsys, sessions.send(json_desk, session_id, "again")))["accepted"]["inbox_id"]


async def stopped(capsys, desk, session_id):
    out = await shown(capsys, sessions.stop(desk, session_id))
    return out if "stopping" in out else None


async def ended(desk, session_id):
    turns = (await desk.call("sessions.get", session_id=session_id))["turns"]
    return turns and turns[0]["ended_at"]


async def test_peers(harness, desk, json_desk, capsys):
    out = await shown(capsys, peers.add(desk, "p", ["telegram:b"], "connector", ["g1"]))
    secret = out.splitlines()[1].split()[1]
    assert (await harness.ask("/store", FindPeerBySecret(secret=Secret(secret)))).name == "p"
    second = (await result(capsys, peers.rotate(json_desk, "p")))["secret"]
    assert second != secret
    out = await shown(capsys, peers.list_(desk))
    assert "telegram:b" in out and secret not in out and second not in out
    assert "refused" in await shown(capsys, peers.revoke(desk, "p"))
    assert (await result(capsys, peers.list_(json_desk)))["peers"][0]["revoked_at"]
    assert (await result(capsys, peers.revoke(json_desk, "p")))["peer"]["name"] == "p"
    with pytest.raises(Failure, match="platform:bot") as failed:
        await peers.add(desk, "q")
    assert failed.value.exit_code is Exit.USAGE


async def test_keys(desk, json_desk, harness, capsys):
    out = await shown(capsys, keys.add(desk, "k", ["observe"]))
    token = out.splitlines()[1].split()[1]
    observer = Desk(Options(url=harness.url, token=token))
    assert "/store" in await shown(capsys, ps.ps(observer, "/"))
    with pytest.raises(Failure, match="scope admin") as failed:
        await keys.list_(observer)
    assert failed.value.exit_code is Exit.REFUSED
    assert token not in await shown(capsys, keys.list_(desk))
    await shown(capsys, keys.revoke(desk, "k"))
    with pytest.raises(Failure) as failed:
        await ps.ps(observer, "/")
    assert failed.value.exit_code is Exit.REFUSED
    assert (await result(capsys, keys.add(json_desk, "k2")))["key"]["scopes"] == ["api"]
    assert len((await result(capsys, keys.list_(json_desk)))["keys"]) == 4
    assert (await result(capsys, keys.revoke(json_desk, "k2")))["key"]["name"] == "k2"


async def test_relays_and_deliveries(harness, desk, json_desk, capsys):
    assert (await shown(capsys, relays.relays(desk))).startswith("PEER")
    assert (await result(capsys, relays.relays(json_desk))) == {"relays": []}
    delivery = NewDelivery(
        delivery_id="d1",
        peer="p",
        route=Route(platform="telegram", chat_id="c"),
        content="canary",
        in_place="canary",
    )
    await harness.ask("/store", PutDelivery(at=1.0, delivery=delivery))
    out = await shown(capsys, relays.deliveries(desk, ["pending"], "p"))
    assert "d1" in out and "canary" not in out
    assert (await result(capsys, relays.deliveries(json_desk)))["deliveries"][0]["delivery_id"] == "d1"
    with pytest.raises(Failure) as failed:
        await relays.deliveries(desk, ["nonsense"])
    assert failed.value.exit_code is Exit.USAGE


async def test_events_end_at_the_present(harness, desk, json_desk, capsys):
    for n in range(3):
        harness.at("/events").tell(Publish(kind="a", path="/t", data={"n": n, "text": "x y"}, at=1.0))
    last = (await harness.ask("/events", ReadBack(from_seq=-1))).last_seq
    out = await shown(capsys, events.events(desk, False, None, ["a"]))
    assert [line.split()[0] for line in out.splitlines()] == [str(last - 2), str(last - 1), str(last)]
    assert "  a  /t  n=2  text=x y" in out
    out = await shown(capsys, events.events(json_desk, False, last, None))
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [last]


async def test_what_is_wrong_has_an_exit_code(desk):
    with pytest.raises(Failure) as failed:
        await ps.ps(Desk(Options(url="http://127.0.0.1:1", token="x")), "/")
    assert failed.value.exit_code is Exit.NOT_RUNNING
    with pytest.raises(Failure) as failed:
        await sessions.show(desk, "nope")
    assert failed.value.exit_code is Exit.NOT_FOUND
    with pytest.raises(Failure) as failed:
        await desk.call("nonsense.verb")
    assert failed.value.exit_code is Exit.USAGE


async def test_an_answer_that_does_not_come_times_out(harness, desk):
    await desk.call("actors.suspend", path="/sessions")
    hasty = Desk(Options(url=harness.url, token=harness.admin_token, timeout=0.2))
    with pytest.raises(Failure, match="--timeout") as failed:
        await hasty.call("sessions.list")
    assert failed.value.exit_code is Exit.TIMED_OUT
    await desk.call("actors.resume", path="/sessions")


async def test_a_lost_connection_fails_what_waits_for_it(harness, desk):
    async with await AdminClient.open(desk.place) as client:
        await client.call("actors.suspend", path="/sessions")
        await client.call("events.subscribe")
        task = asyncio.create_task(client.call("sessions.list"))
        await until(lambda: harness.at("/admin")._cell.behaviour._under_way == 1)
        await harness.stop()
        with pytest.raises(ConnectionLost):
            await task
        with pytest.raises(ConnectionLost):
            await drain(client)
        with pytest.raises(ConnectionLost):
            await client.call("actors.list")


async def drain(client):
    while True:
        await client.event()


async def test_sessions_watch_shows_each_event_with_its_place(harness, desk, capsys):
    opened = await desk.call("sessions.open", chat="main")
    session_id = opened["session"]["session_id"]
    watching = asyncio.ensure_future(sessions.watch(desk, session_id, turns=2))
    # The one that follows wakes it.
    await until(lambda: harness.system.find(f"/sessions/{session_id}"))
    for text in ("one", "two"):
        await desk.call("sessions.send", chat="main", text=text)
    async with asyncio.timeout(20):
        await watching
    lines = capsys.readouterr().out.splitlines()
    places = [line.split()[0] for line in lines]
    ends = [places.index(place) for place in places if place.endswith(":1")]
    assert places[0] == "1:1" and ends == [0, places.index("2:1")]
    assert places == [f"1:{n}" for n in range(1, ends[1] + 1)] + [
        f"2:{n}" for n in range(1, len(places) - ends[1] + 1)
    ]
    assert any("content" in line and "text=reply to: one" in line for line in lines)


async def test_sessions_watch_goes_on_after_a_named_event(desk, json_desk, capsys):
    opened = await desk.call("sessions.open", chat="main")
    session_id = opened["session"]["session_id"]
    await converse(desk, "one")
    await converse(desk, "two")
    capsys.readouterr()
    async with asyncio.timeout(20):
        await sessions.watch(json_desk, session_id, after="1:3", turns=2)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in shown] == ["turn.outcome"] * 2
    assert [event["data"]["turn"]["turn_gen"] for event in shown] == [1, 2]


async def converse(desk, text):
    await chat.converse_once(desk, chat.Target(), text)


@pytest.mark.parametrize("after", ["3", "3:", ":4", "a:b", "-1:2"])
async def test_sessions_watch_says_how_an_event_is_named(desk, after):
    with pytest.raises(Failure, match="3:17") as failed:
        await sessions.watch(desk, "x", after=after)
    assert failed.value.exit_code is Exit.USAGE


async def test_sessions_watch_of_no_session_is_not_found(desk):
    with pytest.raises(Failure) as failed:
        await sessions.watch(desk, "nowhere")
    assert failed.value.exit_code is Exit.NOT_FOUND


async def test_sessions_watch_says_where_turns_are_left_out(desk, capsys, monkeypatch):
    monkeypatch.setattr("actors.session.followers.MAX_MISSED", 1)
    opened = await desk.call("sessions.open", chat="main")
    for text in ("one", "two", "three"):
        await converse(desk, text)
    capsys.readouterr()
    async with asyncio.timeout(20):
        await sessions.watch(desk, opened["session"]["session_id"], after="1:9", turns=1)
    gap, outcome = capsys.readouterr().out.splitlines()
    assert gap == "-- a gap: what ended after turn 1 and before 3 --"
    assert outcome.split()[0] == "3:-" and "reply to: three" in outcome
