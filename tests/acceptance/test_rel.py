"""REL: what fails comes back, and what cannot come back takes nothing else along."""

import asyncio

import pytest

from actors.messages.lifecycle import Resume, Status, Suspend
from actors.messages.quarantine import QuarantineReason
from actors.messages.rows import Entry, Origin, TurnState
from actors.messages.session import InboxReady, LiveSessions
from actors.messages.store import AcceptMessage, ListSessions, ListTurns
from actors.notifier.notice import Cause, notice
from tests.acceptance.conftest import Api
from tests.fakes.backend_script import Hold
from tests.fakes.connector import Connector, event
from tests.harness import until
from tests.peers import add_peer


async def test_the_sessions_come_back_with_what_ran_and_what_waited(boot, client, backend):
    harness = await boot(**{"server.keepalive_s": 0.1})
    api = Api(client, harness)
    backend.script(Hold("never"))
    running = asyncio.ensure_future(api.say("one", "c1"))
    await backend.request(0)
    waiting = asyncio.ensure_future(api.say("two", "c1"))
    await until(lambda: _admitted(harness))
    harness.at("/sessions")._cell.kill()
    assert (await running)[0] == 500
    assert (await waiting)[0] == 200
    assert (await api.say("three", "c1"))[0] == 200
    assert harness.at("/sessions")._cell.incarnation == 1


async def _admitted(harness):
    return await harness.ask("/store", ListTurns(states=(TurnState.ADMITTED,)))


@pytest.mark.parametrize("end", ["stopped", "killed", "stuck"])
async def test_a_session_that_is_lost_comes_back_and_turns_nothing_twice(boot, client, backend, end):
    harness = await boot(**{"server.keepalive_s": 0.1, "session.retry_base_s": 0.0})
    api = Api(client, harness)
    backend.script(Hold("never"))
    running = asyncio.ensure_future(api.say("one", "c1"))
    await backend.request(0)
    waiting = asyncio.ensure_future(api.say("two", "c1"))
    await until(lambda: _admitted(harness))
    (session,) = await harness.ask("/store", ListSessions())
    lost = harness.at(f"/sessions/{session.session_id}")
    if end == "killed":
        lost._cell.kill()
        await harness.ask("/sessions", LiveSessions())
    elif end == "stopped":
        await harness.system.stop(lost, harness.within())
    else:
        ended, stopping = asyncio.Event(), asyncio.Event()

        async def linger(reason):
            stopping.set()
            await ended.wait()

        lost._cell.behaviour.on_stop = linger
        stop = asyncio.ensure_future(harness.system.stop(lost, harness.within()))
        await stopping.wait()
        harness.sessions.tell(InboxReady(session_id=session.session_id))
        await harness.ask("/sessions", LiveSessions())
        ended.set()
        await stop
    assert (await running)[0] == 500
    assert (await waiting)[0] == 200
    assert (await api.say("three", "c1"))[0] == 200
    said = [exchange.last_user_message for exchange in backend.exchanges]
    assert said == ["one", "two", "three"]
    rows = await harness.ask("/store", ListTurns())
    assert [(row.state, row.reason) for row in rows][::-1] == [
        (TurnState.INTERRUPTED, "crash"),
        (TurnState.COMMITTED, "stop"),
        (TurnState.COMMITTED, "stop"),
    ]
    assert harness.at("/sessions")._cell.incarnation == 0


async def test_a_chat_is_told_of_a_turn_that_was_lost_with_its_session(boot, backend):
    harness = await boot()
    secret = await add_peer(harness, "bot", "discord:bot-1")
    connector = await Connector(harness.url, "bot", secret).dial()
    backend.script(Hold("never"))
    await connector.buffered("b1", event("hello"))
    await backend.request(0)
    (session,) = await harness.ask("/store", ListSessions())
    await harness.system.stop(harness.at(f"/sessions/{session.session_id}"), harness.within())
    await connector.frames("outbound")
    assert connector.contents() == [notice(Cause.CRASH)]
    await connector.close()


async def test_a_suspended_session_that_is_told_of_too_much_mail_takes_nobody_along(boot, client):
    harness = await boot()
    api = Api(client, harness)
    await api.say("one", "c1")
    (session,) = await harness.ask("/store", ListSessions())
    ref = harness.at(f"/sessions/{session.session_id}")
    await ref.ask(Suspend(), harness.within())
    for _ in range(ref._cell.mailbox.bound + 1):
        harness.sessions.tell(InboxReady(session_id=session.session_id))
    assert await harness.ask("/sessions", LiveSessions()) == (session.session_id,)
    await ref.ask(Resume(), harness.within())
    assert (await api.say("two", "c1"))[0] == 200


def _told_to_nobody(text):
    return AcceptMessage(
        at=1.0,
        inbox_id=f"inbox-{text}",
        origin=Origin.RELAY,
        peer="bot",
        scope=None,
        session_key="chat",
        new_session_id="s1",
        entries=(Entry(role="user", content=text),),
    )


async def test_a_message_that_is_kept_and_of_which_no_session_was_told_is_turned_all_the_same(boot, backend):
    harness = await boot(**{"session.rescan_s": 0.02})
    await harness.ask("/store", _told_to_nobody("one"))
    await until(lambda: _committed(harness, 1))
    # The session lives by now, and nobody tells it of this one either.
    await harness.ask("/store", _told_to_nobody("two"))
    await until(lambda: _committed(harness, 2))
    assert [exchange.last_user_message for exchange in backend.exchanges] == ["one", "two"]


async def _committed(harness, count):
    return len(await harness.ask("/store", ListTurns(states=(TurnState.COMMITTED,)))) == count


async def test_a_suspended_session_leaves_mail_that_is_found_where_it_is(boot):
    harness = await boot(**{"session.rescan_s": 0.01})
    await harness.ask("/store", _told_to_nobody("one"))
    await until(lambda: _committed(harness, 1))
    ref = harness.at("/sessions/s1")
    await ref.ask(Suspend(), harness.within())
    await harness.ask("/store", _told_to_nobody("two"))
    seen = harness.at("/sessions")._cell.handled
    await until(lambda: harness.at("/sessions")._cell.handled > seen + 10)
    assert not ref._cell.mailbox.ordinary and await _committed(harness, 1)
    await ref.ask(Resume(), harness.within())
    await until(lambda: _committed(harness, 2))


async def test_siblings_of_a_quarantined_actor_are_restarted_and_serve(boot, client):
    harness = await boot()
    harness.system.kill("/sessions")
    harness.system.custody.quarantine("/sessions", QuarantineReason.INTENSITY)
    for path in ("/relays", "/front"):
        cell = harness.at(path)._cell
        cell.kill()
        await until(lambda cell=cell: cell.incarnation == 1 and cell.status is Status.RUNNING)
    async with client.get(f"{harness.url}/livez") as response:
        assert response.status == 200
