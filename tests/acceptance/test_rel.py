"""REL: what fails comes back, and what cannot come back takes nothing else along."""

import asyncio

from actors.messages.lifecycle import Status
from actors.messages.rows import TurnState
from actors.messages.store import ListTurns
from tests.acceptance.conftest import Api
from tests.fakes.backend_script import Hold
from tests.harness import until


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


async def test_siblings_of_a_quarantined_actor_are_restarted_and_serve(boot, client):
    harness = await boot()
    lost = harness.at("/sessions")._cell
    lost.kill()
    lost.discard()
    for path in ("/relays", "/front"):
        cell = harness.at(path)._cell
        cell.kill()
        await until(lambda cell=cell: cell.incarnation == 1 and cell.status is Status.RUNNING)
    async with client.get(f"{harness.url}/livez") as response:
        assert response.status == 200
