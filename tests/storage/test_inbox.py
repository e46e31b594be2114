"""Accepting, deduplicating, binding and queueing messages."""

import pytest

from actors.exceptions import Busy
from actors.messages.rows import Entry, InboxState, Origin, Route, TurnState
from actors.messages.store import (
    BuryMessage,
    FindBindings,
    GetTurn,
    RequeueMessage,
    RotateChat,
    SessionsWithMail,
)

KEY = "agent:main:discord:group:C1"


async def test_a_message_makes_its_chats_session_and_the_next_finds_it(store):
    first = await store.accept()
    second = await store.accept()
    assert (first.created, second.created) == (True, False)
    assert first.session_id == second.session_id
    assert (first.queued, second.queued) == (1, 2)


async def test_rly_12_the_same_message_id_of_a_chat_is_a_duplicate(store):
    first = await store.accept(message_id="m1")
    again = await store.accept(message_id="m1")
    assert again.duplicate and again.inbox_id == first.inbox_id and again.queued == 1


async def test_rly_12_a_duplicate_is_known_after_a_restart(store, reopened):
    first = await store.accept(message_id="m1")
    store = await reopened()
    again = await store.accept(message_id="m1")
    assert again.duplicate and again.inbox_id == first.inbox_id


@pytest.mark.parametrize(
    "other",
    [
        {"peer": "q"},
        {"scope": "G2"},
        {"route": Route(platform="discord", chat_id="C2")},
        {"message_id": "m2"},
    ],
)
async def test_rly_12_another_peer_scope_chat_or_id_is_another_message(store, other):
    await store.accept(message_id="m1", scope="G1")
    assert not (await store.accept(**{"message_id": "m1", "scope": "G1", **other})).duplicate


async def test_rly_12_a_buffer_id_is_a_duplicate_only_with_the_same_body(store):
    first = await store.accept(buffer_id="b1", body_hash="h1")
    assert (await store.accept(buffer_id="b1", body_hash="h1")).inbox_id == first.inbox_id
    reused = await store.accept(buffer_id="b1", body_hash="h2")
    assert not reused.duplicate
    assert (await store.accept(buffer_id="b1", body_hash="h2")).duplicate


async def test_rly_12_without_either_id_every_message_is_new(store):
    assert not (await store.accept()).duplicate
    assert not (await store.accept()).duplicate


async def test_key_6_a_scope_of_its_own_opens_its_own_session(store):
    one = await store.accept(scope="G1")
    two = await store.accept(scope="G2")
    assert one.session_id != two.session_id
    assert (await store.accept(scope="G1")).session_id == one.session_id


async def test_key_6_another_peer_never_shares_a_session(store):
    one = await store.accept()
    assert (await store.accept(peer="q")).session_id != one.session_id


async def test_key_6_an_absent_scope_matches_the_chats_only_one(store):
    one = await store.accept(scope="G1")
    assert (await store.accept(scope=None)).session_id == one.session_id


async def test_key_6_an_absent_scope_with_several_opens_its_own(store):
    one = await store.accept(scope="G1")
    two = await store.accept(scope="G2")
    own = await store.accept(scope=None)
    assert own.session_id not in (one.session_id, two.session_id)
    assert (await store.accept(scope=None)).session_id == own.session_id


async def test_a_full_queue_refuses_and_keeps_nothing(store):
    await store.accept(max_queued=1)
    with pytest.raises(Busy) as caught:
        await store.accept(max_queued=1, message_id="m9")
    assert caught.value.code == "session_busy"
    assert not (await store.accept(message_id="m9")).duplicate


async def test_rotation_binds_the_chat_to_a_fresh_session(store):
    old = await store.accept()
    new = await store.ask(RotateChat(peer="p", scope=None, session_key=KEY, new_session_id="fresh", at=1.0))
    assert new.session_id == "fresh" and new.created
    assert (await store.accept()).session_id == "fresh"
    (binding,) = await store.ask(FindBindings(peer="p", session_key=KEY))
    assert (binding.session_id, binding.version) == ("fresh", 2)
    assert old.session_id != "fresh"


async def test_history_that_a_client_brings_counts_only_once(store):
    seed = (Entry(role="user", content="a"), Entry(role="assistant", content="b"))
    first = await store.accept("c", seed=seed)
    taken = await store.take(first.session_id)
    assert [entry.content for entry in taken.history] == ["a", "b", "c"]
    await store.end(taken, TurnState.COMMITTED, text="d")
    await store.accept("e", seed=seed)
    taken = await store.take(first.session_id)
    assert [entry.content for entry in taken.history] == ["a", "b", "c", "d", "e"]


async def test_an_admitted_message_has_its_turn_row_at_once(store):
    await store.accept(turn_id="T", inbox_id="I", origin=Origin.API, detached=False)
    turn = await store.ask(GetTurn(turn_id="T"))
    assert (turn.state, turn.detached, turn.inbox_id) == (TurnState.ADMITTED, False, "I")


async def test_burying_ends_a_waiting_message_and_its_admitted_turn(store):
    accepted = await store.accept(turn_id="T", inbox_id="I")
    assert await store.ask(BuryMessage(inbox_id="I", reason="client_gone", at=2.0))
    turn = await store.ask(GetTurn(turn_id="T"))
    assert (turn.state, turn.reason) == (TurnState.CANCELLED, "client_gone")
    assert await store.take(accepted.session_id) is None
    assert not await store.ask(BuryMessage(inbox_id="I", reason="again", at=3.0))


async def test_a_turned_message_cannot_be_buried(store):
    accepted = await store.accept(inbox_id="I")
    await store.take(accepted.session_id)
    assert not await store.ask(BuryMessage(inbox_id="I", reason="client_gone", at=2.0))


async def test_requeueing_happens_once_and_writes_no_second_user_row(store):
    accepted = await store.accept(inbox_id="I")
    taken = await store.take(accepted.session_id)
    await store.end(taken, TurnState.INTERRUPTED)
    assert await store.ask(RequeueMessage(inbox_id="I", max_tries=1, at=2.0))
    again = await store.take(accepted.session_id)
    assert again.turn_gen == taken.turn_gen + 1 and again.turn_id != taken.turn_id and again.tries == 2
    assert [entry.content for entry in again.history] == ["hi"]
    await store.end(again, TurnState.INTERRUPTED)
    assert not await store.ask(RequeueMessage(inbox_id="I", max_tries=1, at=3.0))


async def test_sessions_with_mail_come_oldest_first(store):
    one = await store.accept(session_key="k1")
    two = await store.accept(session_key="k2")
    await store.accept(session_key="k1")
    assert await store.ask(SessionsWithMail()) == (one.session_id, two.session_id)
    taken = await store.take(one.session_id)
    assert taken.inbox_id == one.inbox_id
    assert await store.ask(SessionsWithMail()) == (two.session_id, one.session_id)


async def test_the_state_of_a_duplicate_is_told(store):
    accepted = await store.accept(message_id="m1")
    await store.take(accepted.session_id)
    assert (await store.accept(message_id="m1")).state is InboxState.TURNED
