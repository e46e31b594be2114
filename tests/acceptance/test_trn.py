"""TRN: turns and their stops, their order, and what a kill leaves of them."""

import asyncio
import sqlite3
import threading

import pytest

from actors.messages.rows import DeliveryState, HistoryKind, TurnState
from actors.messages.session import StopTurn
from actors.messages.store import ListDeliveries, ListSessions, ListTurns, ReadHistory
from tests.acceptance.conftest import Api
from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.backend_script import Die, Finish, Hold, Reply, Role, Silence, Text
from tests.fakes.connector import Connector, event
from tests.harness import until
from tests.peers import add_peer


async def turns(harness):
    return await harness.ask("/store", ListTurns())


async def ended(harness, count):
    async def look():
        rows = await turns(harness)
        over = all(row.ended_at is not None for row in rows)
        return rows if over and len(rows) >= count else None

    return await until(look)


# TRN-52


@pytest.mark.parametrize("script", [(Hold("never"),), (Role(), Silence()), (Text("Hel"), Silence())])
async def test_trn_52_a_stop_closes_the_backends_connection(api, backend, script):
    backend.script(*script)
    asking = asyncio.ensure_future(api.say("hello", "c1"))
    exchange = await backend.request(0)
    (session,) = await api.harness.ask("/store", ListSessions())
    await until(lambda: api.harness.system.find(f"/sessions/{session.session_id}/turn"))
    stopped = await api.harness.ask("/sessions", StopTurn(session_id=session.session_id, by="user"))
    assert stopped is True
    async with asyncio.timeout(5):
        await exchange.connection_closed.wait()
        await asking
    (turn,) = await ended(api.harness, 1)
    assert (turn.state, turn.reason) == (TurnState.CANCELLED, "user")


async def test_trn_52_a_stop_ends_a_backoff_and_no_request_follows(boot, client, backend):
    harness = await boot(**{"turn.retry_base_s": 3600.0, "turn.retry_cap_s": 3600.0})
    api = Api(client, harness)
    backend.script(Reply(503), times=9)
    asking = asyncio.ensure_future(api.say("hello", "c1"))
    await (await backend.request(0)).served.wait()
    (session,) = await harness.ask("/store", ListSessions())
    turn = await until(lambda: harness.system.find(f"/sessions/{session.session_id}/turn"))
    await until(lambda: turn._cell.behaviour._state.phase.name == "BACKOFF")
    await harness.ask("/sessions", StopTurn(session_id=session.session_id, by="user"))
    await asking
    assert len(backend.exchanges) == 1


async def test_a_stop_with_nothing_to_stop_says_so(api):
    assert await api.harness.ask("/sessions", StopTurn(session_id="none", by="user")) is False


# The ladder before acceptance


async def test_a_request_that_was_not_taken_is_sent_again(api, backend):
    backend.script(Reply(503), times=2)
    backend.script(Die("rst"))
    status, _, body = await api.say("hello")
    assert status == 200 and body["choices"][0]["message"]["content"] == "reply to: hello"
    assert len(backend.exchanges) == 4


async def test_a_backend_that_never_takes_it_fails_the_turn_after_the_ladder(api, backend):
    backend.script(Reply(503), times=10)
    status, _, body = await api.say("hello")
    assert status == 500 and body["error"]["code"] == "turn_failed"
    assert len(backend.exchanges) == 4


# TRN-53


async def test_trn_53_turns_of_one_session_never_overlap(boot, client, backend):
    harness = await boot(**{"server.max_queued": 200})
    api = Api(client, harness)
    count = 100
    outcomes = await asyncio.gather(*(api.say(f"m{n}", "c1") for n in range(count)))
    assert {status for status, _, _ in outcomes} == {200}
    spans = sorted((row.turn_gen, row.state) for row in await harness.ask("/store", ListTurns(limit=1000)))
    assert spans == [(gen, TurnState.COMMITTED) for gen in range(1, count + 1)]
    # The backend saw each request only after the one before it had been served whole: each holds all answers so far.
    for n, exchange in enumerate(backend.exchanges):
        assert len(exchange.body["messages"]) == 2 * n + 1
    assert [body["choices"][0]["message"]["content"] for _, _, body in outcomes] == [
        f"reply to: m{n}" for n in range(count)
    ]


# TRN-54


async def test_trn_54_a_kill_in_mid_turn_leaves_it_interrupted_and_visible(boot, client, backend):
    harness = await boot(**{"turn.flush_s": 0.0})
    api = Api(client, harness)
    backend.script(Text("Half an "), Text("answer"), Silence())
    stream = await api.stream("hello", "c1")
    await stream.until_text()
    await until(lambda: _flushed(harness, "Half an answer"))
    await harness.crash()
    stream.leave()
    harness = await boot()
    (turn,) = await turns(harness)
    assert (turn.state, turn.reason) == (TurnState.INTERRUPTED, "restart")
    assert turn.partial.startswith("Half an answer")
    rows = await harness.ask("/store", ReadHistory(session_id=turn.session_id))
    assert [(row.role, row.kind) for row in rows] == [
        ("user", HistoryKind.MESSAGE), ("assistant", HistoryKind.INTERRUPTED), ("system", HistoryKind.NOTICE),
    ]  # fmt: skip
    assert rows[1].content.startswith("Half an answer\n\n[interrupted")
    # The conversation goes on, and the broken-off text is not fed to the model.
    await Api(client, harness).say("again", "c1")
    sent = backend.exchanges[-1].body["messages"]
    assert [message["content"] for message in sent] == ["hello", "again"]


async def _flushed(harness, text):
    return any(row.partial == text for row in await turns(harness))


async def test_trn_54_by_policy_it_is_run_again_once_under_a_new_generation(boot, client, backend):
    harness = await boot()
    secret = await add_peer(harness, "bot", "discord:bot-1")
    peer = Connector(harness.url, "bot", secret)
    await peer.dial()
    backend.script(Text("Half"), Silence(), times=2)
    await peer.buffered("b1", event("hello", "m1"))
    await backend.request(0)
    await harness.crash()
    await peer.close()
    harness = await boot(**{"session.on_restart": "retry"})
    await backend.request(1)
    states = {row.turn_gen: row.state for row in await turns(harness)}
    assert states == {1: TurnState.INTERRUPTED, 2: TurnState.RUNNING}
    await harness.crash()
    harness = await boot(**{"session.on_restart": "retry"})
    states = {row.turn_gen: row.state for row in await turns(harness)}
    assert states == {1: TurnState.INTERRUPTED, 2: TurnState.INTERRUPTED}
    # Only the second end is told: the first was followed by another try.
    (delivery,) = await harness.ask("/store", ListDeliveries())
    assert "restarted" in delivery.content and delivery.state is DeliveryState.PENDING


async def test_trn_54_through_the_daemon_and_a_sigkill(tmp_path, backend, client):
    config = f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n[turn]\nflush_s = 0.0\n'
    backend.script(Text("Half"), Silence())
    async with Daemon(tmp_path / "data", config=config) as daemon:
        headers = {"Authorization": f"Bearer {daemon.api_key}", "X-Session-Id": "c1"}
        body = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
        async with client.post(f"{daemon.url}/v1/chat/completions", json=body, headers=headers) as response:
            await response.content.readany()
            await backend.request(0)
            await daemon.kill()
        await daemon.start()
        body = {"messages": [{"role": "user", "content": "again"}]}
        async with client.post(f"{daemon.url}/v1/chat/completions", json=body, headers=headers) as response:
            assert response.status == 200
        assert await daemon.stop() == 0
    sent = backend.exchanges[-1].body["messages"]
    assert [message["content"] for message in sent] == ["hello", "again"]


async def test_trn_10_a_turn_that_outlives_the_drain_is_interrupted_and_kept(boot, client, backend):
    from actors.messages.session import DrainSessions

    harness = await boot()
    api = Api(client, harness)
    backend.script(Text("Hel"), Silence())
    stream = await api.stream("hello", "c1")
    await stream.until_text()
    interrupted = await harness.at("/sessions").ask(DrainSessions(), harness.within(0.5))
    assert interrupted == 1
    (turn,) = await turns(harness)
    assert (turn.state, turn.reason) == (TurnState.INTERRUPTED, "shutdown")
    await stream.rest()
    assert stream.chunks[-1]["choices"][0]["finish_reason"] == "error"


async def test_a_turn_that_ends_within_the_drain_is_whole(boot, client, backend):
    from actors.messages.session import DrainSessions

    harness = await boot()
    api = Api(client, harness)
    backend.script(Text("Hel"), Hold("go"), Text("lo"), Finish())
    stream = await api.stream("hello", "c1")
    await stream.until_text()
    draining = harness.at("/sessions").ask(DrainSessions(), harness.within(10))
    backend.release("go")
    assert await draining == 0
    await stream.rest()
    assert stream.text == "Hello"


async def test_no_turn_begins_in_a_daemon_that_drains_and_what_waits_is_turned_by_the_next(
    boot, client, backend
):
    from actors.messages.session import DrainSessions, LiveSessions

    harness = await boot()
    assert await harness.at("/sessions").ask(DrainSessions(), harness.within(10)) == 0
    async with AdminWire(harness.url, harness.admin_token) as wire:
        # Watching wakes the session; it has to leave again without the turn.
        accepted = (await wire.ask("sessions.send", chat="main", text="hello", watch=True))["accepted"]

        async def left():
            # The first to go has served the watcher: the router grants it only when nothing is on its way.
            return not await harness.ask("/sessions", LiveSessions())

        await until(left)
    await harness.system.idle()
    assert backend.exchanges == [] and await turns(harness) == ()
    await harness.stop()
    again = await boot()
    await until(lambda: _committed(again))
    (turn,) = await turns(again)
    assert turn.session_id == accepted["session_id"] and len(backend.exchanges) == 1


async def _committed(harness):
    return [turn.state for turn in await turns(harness)] == [TurnState.COMMITTED]


# A write whose answer comes too late


def _full() -> None:
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize("then", ["the store writes", "the store does not write for a while"])
async def test_a_turn_whose_beginning_was_answered_too_late_is_given_back_and_turned_once(
    boot, client, backend, then
):
    harness = await boot(**{"session.store_s": 0.2, "session.retry_base_s": 0.01})
    gate = threading.Event()
    accepting = threading.Event()

    def hold() -> None:
        accepting.set()
        gate.wait(20)

    # The first commit is the acceptance, the second the turn's beginning: that one is held past the session's budget.
    harness.system.failpoints.set("store.before_commit", hold, at=2)
    asking = asyncio.ensure_future(Api(client, harness).say("hello", "c1"))
    await asyncio.to_thread(accepting.wait, 20)
    (session_path,) = [info.path for info in harness.system.actors() if info.kind == "session"]
    session = harness.at(session_path)
    await until(lambda: session._cell.behaviour._state.failures > 0)
    if then == "the store does not write for a while":
        harness.system.failpoints.always("store.before_commit", _full)
        gate.set()
        await until(lambda: session._cell.behaviour._state.failures > 3)
        harness.system.failpoints.clear("store.before_commit")
    gate.set()
    status, _, body = await asking
    assert status == 200 and body["choices"][0]["message"]["content"] == "reply to: hello"
    assert len(backend.exchanges) == 1
    rows = await harness.ask("/store", ReadHistory(session_id=session_path.rsplit("/", 1)[1]))
    assert [row.content for row in rows] == ["hello", "reply to: hello"]


# An actor that is lost between two steps


async def test_a_turn_whose_actor_is_lost_after_its_end_was_stored_has_ended_as_stored(boot, client, backend):
    harness = await boot(**{"turn.flush_s": 3600.0})
    api = Api(client, harness)
    backend.script(Text("Hel"), Hold("go"), Finish())
    stream = await api.stream("hello", "c1")
    await stream.until_text()
    (session,) = await harness.ask("/store", ListSessions())
    turn = harness.at(f"/sessions/{session.session_id}/turn")
    harness.system.failpoints.set("store.after_commit", turn._cell.kill)
    backend.release("go")
    await stream.rest()
    assert stream.text == "Hel" and stream.chunks[-1]["choices"][0]["finish_reason"] == "stop"
    status, _, _ = await api.say("again", "c1")
    assert status == 200
    assert [row.state for row in await turns(harness)] == [TurnState.COMMITTED] * 2
