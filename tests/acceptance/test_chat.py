"""CHAT: what people in a chat get when there is no answer."""

import asyncio

import pytest

from actors.messages.rows import TurnState
from actors.messages.store import ListTurns
from tests.fakes.backend_script import Die, Event, Finish, Reply, Role, Silence, Text
from tests.fakes.chunks import chunk
from tests.fakes.connector import Connector, event
from tests.peers import add_peer


async def talk(harness, text="hello"):
    """Connect a connector, send one message, and return the peer."""
    peer = Connector(harness.url, "bot", await add_peer(harness, "bot", "discord:bot-1"))
    await peer.dial()
    await peer.buffered("b1", event(text, "m1"))
    return peer


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ((Reply(401, {"error": {"message": "secret-text"}}),), "refused our credentials"),
        ((Reply(400, {"error": {"message": "secret-text"}}),), "did not accept the request"),
        ((Text("Half"), Die("rst")), "broke off"),
        ((Role(), Finish()), "empty answer"),
        # Nobody in a chat runs tools.
        ((Event(chunk({"tool_calls": [{"index": 0, "id": "a"}]})), Finish("tool_calls")), "empty answer"),
    ],
)
async def test_chat_1_a_failed_turn_tells_its_chat_once_and_plainly(turnkeep, backend, script, said):
    # As often as the ladder asks at most.
    backend.script(*script, times=3 if Die("rst") in script else 1)
    peer = await talk(turnkeep)
    (outbound,) = await peer.frames("outbound")
    content = outbound["action"]["content"]
    assert said in content and content.endswith("send it again to have it answered.")
    assert "secret-text" not in content and "Error" not in content
    assert outbound["action"]["reply_to"] == "m1"
    # Once: the next thing that the chat gets is the answer to its next message.
    await peer.buffered("b2", event("more", "m2"))
    frames = await peer.frames("outbound", 2)
    assert [frame["action"]["content"] for frame in frames][1] == "reply to: more"
    await peer.close()


async def test_chat_1_a_backend_that_cannot_be_reached_is_told(boot, backend):
    harness = await boot(lane={"base_url": "http://127.0.0.1:9/v1"})
    peer = await talk(harness)
    (outbound,) = await peer.frames("outbound")
    assert "could not be reached" in outbound["action"]["content"]
    await peer.close()


async def test_chat_1_a_restart_in_mid_turn_is_told_after_it(boot, backend):
    harness = await boot()
    backend.script(Text("Half"), Silence())
    peer = await talk(harness)
    await backend.request(0)
    await harness.crash()
    await peer.close()
    harness = await boot()
    again = Connector(harness.url, "bot", "unused")
    again.bearer = peer.bearer
    await again.dial()
    (outbound,) = await again.frames("outbound")
    assert "restarted while it was answering" in outbound["action"]["content"]
    assert outbound["action"]["chat_id"] == "C1"
    await again.close()


async def test_chat_1_a_turn_whose_actor_crashes_is_ended_and_told(turnkeep, backend):
    backend.script(Text("Half"), Silence())
    peer = await talk(turnkeep)
    await backend.request(0)
    (row,) = await turnkeep.ask("/store", ListTurns())
    turnkeep.at(f"/sessions/{row.session_id}/turn")._cell.kill()
    (outbound,) = await peer.frames("outbound")
    assert "went wrong inside Turnkeep" in outbound["action"]["content"]
    (row,) = await turnkeep.ask("/store", ListTurns())
    assert (row.state, row.reason) == (TurnState.INTERRUPTED, "crash")
    await peer.close()


async def test_chat_1_a_session_that_crashes_comes_back_and_its_chat_is_told(turnkeep, backend):
    backend.script(Text("Half"), Silence())
    peer = await talk(turnkeep)
    await backend.request(0)
    (row,) = await turnkeep.ask("/store", ListTurns())
    await peer.buffered("b2", event("more", "m2"))
    turnkeep.at(f"/sessions/{row.session_id}")._cell.kill()
    frames = await asyncio.wait_for(peer.frames("outbound", 2), 10)
    contents = [frame["action"]["content"] for frame in frames]
    assert "went wrong inside Turnkeep" in contents[0] and contents[1] == "reply to: more"
    await peer.close()
