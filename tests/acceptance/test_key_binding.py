"""KEY-6, its other half: which chats share a session, as real connectors see it."""

import itertools

import pytest

from actors.messages.store import FindBindings, ListSessions
from tests.fakes.connector import Connector, event
from tests.harness import Harness
from tests.peers import add_peer

KEY = "agent:main:discord:group:C1:U1"
NUMBERS = itertools.count(1)


class Chat:
    """What somebody says through a connector, and the session that it has come to."""

    def __init__(self, harness: Harness, peer: Connector) -> None:
        self._harness = harness
        self._peer = peer

    @classmethod
    async def through(cls, harness: Harness, name: str = "bot", identity: str = "discord:b1") -> "Chat":
        peer = Connector(harness.url, name, await add_peer(harness, name, identity))
        return cls(harness, await peer.dial())

    async def say(self, scope: str | None = None, **source: str) -> str:
        """Send one message; return its session's id once it is acknowledged."""
        buffer_id = f"b{next(NUMBERS)}"
        where = source if scope is None else {**source, "scope_id": scope}
        await self._peer.buffered(buffer_id, event(buffer_id, buffer_id, **where))
        await self._peer.acknowledged()
        # Accepting makes a session the most recently active one.
        newest, *_ = await self._harness.ask("/store", ListSessions(limit=1))
        return str(newest.session_id)


@pytest.fixture
async def chat(turnkeep):
    return await Chat.through(turnkeep)


async def test_key_6_a_sessions_id_is_random_and_not_its_key(turnkeep, chat):
    session_id = await chat.say()
    [binding] = await turnkeep.ask("/store", FindBindings(peer="bot", session_key=KEY))
    assert binding.session_id == session_id
    assert KEY not in session_id and session_id != await chat.say(chat_id="C2")


async def test_key_6_the_same_chat_keeps_its_session(chat):
    assert await chat.say("G1") == await chat.say("G1")


async def test_key_6_a_different_scope_opens_its_own(turnkeep, chat):
    one, two = await chat.say("G1"), await chat.say("G2")
    assert one != two
    assert (await chat.say("G1"), await chat.say("G2")) == (one, two)
    bindings = await turnkeep.ask("/store", FindBindings(peer="bot", session_key=KEY))
    assert [(binding.scope, binding.session_id) for binding in bindings] == [("G1", one), ("G2", two)]


async def test_key_6_another_bot_opens_its_own(turnkeep, chat):
    other = await Chat.through(turnkeep, "other", "discord:b2")
    assert await chat.say("G1") != await other.say("G1")


async def test_key_6_an_absent_scope_matches_the_chats_only_one(chat):
    assert await chat.say("G1") == await chat.say()


async def test_key_6_an_absent_scope_with_several_opens_its_own(chat):
    one, two = await chat.say("G1"), await chat.say("G2")
    own = await chat.say()
    assert own not in (one, two)
    assert (await chat.say(), await chat.say("G1")) == (own, one)


async def test_key_6_a_scope_never_takes_the_session_of_a_chat_without_one(chat):
    own = await chat.say()
    assert await chat.say("G1") != own
    assert await chat.say() == own


async def test_key_6_bindings_outlive_a_restart(boot):
    first = await boot()
    one = await (await Chat.through(first)).say("G1")
    [binding] = await first.ask("/store", FindBindings(peer="bot", session_key=KEY))
    await first.stop()
    again = await boot()
    assert await again.ask("/store", FindBindings(peer="bot", session_key=KEY)) == (binding,)
    assert await (await Chat.through(again, "second", "discord:b9")).say("G1") != one
