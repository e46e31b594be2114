"""Accepting, deduplicating, binding and queueing messages."""

import msgspec
import pytest

from actors.exceptions import Busy, Conflict
from actors.messages.inbound import InboundEvent, Source
from actors.messages.rows import Entry, InboxState, Origin, Route, RunState, TurnState
from actors.messages.store import (
    BuryMessage,
    FindBindings,
    GetSession,
    GetTurn,
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


async def test_rly_12_a_duplicate_is_known_after_a_restart(store):
    first = await store.accept(message_id="m1")
    await store.reopen()
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


async def test_a_message_that_waits_again_is_turned_once_more_and_has_no_second_user_row(store):
    accepted = await store.accept(inbox_id="I")
    taken = await store.take(accepted.session_id)
    ended = await store.end(taken, TurnState.INTERRUPTED, again=True)
    again = await store.take(accepted.session_id)
    assert again.turn_gen == taken.turn_gen + 1 and again.turn_id != taken.turn_id and again.tries == 2
    assert [entry.content for entry in again.history] == ["hi"]
    assert await store.end(taken, TurnState.INTERRUPTED, again=True) == ended
    await store.end(again, TurnState.INTERRUPTED)
    assert await store.take(accepted.session_id) is None


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


async def test_a_request_that_is_sent_again_is_its_own_duplicate(store):
    message = store.message()
    first, again = await store.ask(message), await store.ask(message)
    assert (first.duplicate, again.duplicate, again.inbox_id) == (False, True, first.inbox_id)


async def test_rly_12_a_message_id_counts_even_without_a_route(store):
    first = await store.accept(message_id="key", route=None, session_key="k1")
    again = await store.accept(message_id="key", route=None, session_key="k2")
    assert again.duplicate and again.session_id == first.session_id


async def test_rly_12_a_redelivery_with_both_ids_is_known_by_either(store):
    first = await store.accept(message_id="m1", buffer_id="b1", body_hash="h")
    for ids in ({"message_id": "m1", "buffer_id": "b2"}, {"message_id": "m2", "buffer_id": "b1"}):
        assert (await store.accept(body_hash="h", **ids)).inbox_id == first.inbox_id


async def test_rly_12_a_buffer_id_used_again_stands_for_the_newer_message(store):
    await store.accept(buffer_id="b1", body_hash="h1")
    newer = await store.accept(buffer_id="b1", body_hash="h2")
    assert (await store.accept(buffer_id="b1", body_hash="h2")).inbox_id == newer.inbox_id
    assert not (await store.accept(buffer_id="b1", body_hash="h1")).duplicate


async def test_rly_12_another_peers_buffer_id_is_another_message(store):
    await store.accept(buffer_id="b1", body_hash="h")
    assert not (await store.accept(peer="q", buffer_id="b1", body_hash="h")).duplicate


async def test_api_12_a_key_used_for_another_request_is_a_conflict(store):
    keyed = {"origin": Origin.API, "peer": "api:ann", "message_id": "key", "route": None, "detached": True}
    first = await store.accept(body_hash="h1", **keyed)
    await store.reopen()
    assert (await store.accept(body_hash="h1", **keyed)).inbox_id == first.inbox_id
    with pytest.raises(Conflict) as caught:
        await store.accept(body_hash="h2", **keyed)
    assert caught.value.code == "idempotency_key_conflict"
    assert not (await store.accept(body_hash="h2", **{**keyed, "peer": "api:bob"})).duplicate


async def test_key_6_an_empty_scope_is_none(store):
    one = await store.accept(scope="G1")
    assert (await store.accept(scope="")).session_id == one.session_id


async def test_key_6_a_scope_never_takes_the_session_of_a_chat_without_one(store):
    own = await store.accept(scope=None)
    assert (await store.accept(scope="G1")).session_id != own.session_id
    assert (await store.accept(scope=None)).session_id == own.session_id


async def test_a_rotated_session_ends_and_what_waits_in_it_with_it(store):
    old = await store.accept("one")
    waiting = await store.accept("two", message_id="m2", turn_id="T")
    taken = await store.take(old.session_id)
    fresh = await store.accept("three", rotate=True)
    assert (fresh.created, fresh.queued) == (True, 1)
    row = await store.ask(GetSession(session_id=old.session_id))
    assert (row.run_state, row.end_reason, row.queued) == (RunState.ENDED, "new_session", 0)
    assert (await store.accept(message_id="m2")).state is InboxState.UNDELIVERED
    turn = await store.ask(GetTurn(inbox_id=waiting.inbox_id))
    assert (turn.turn_id, turn.state, turn.reason) == ("T", TurnState.CANCELLED, "new_session")
    # What runs is stopped by whoever rotates, and still ends in the books.
    assert (await store.end(taken, TurnState.CANCELLED, text="one…")).state is TurnState.CANCELLED
    assert (await store.accept("four")).session_id == fresh.session_id


async def test_rotating_again_with_the_same_id_is_a_duplicate(store):
    await store.accept()
    rotate = RotateChat(peer="p", scope=None, session_key=KEY, new_session_id="fresh", at=1.0)
    first, again = await store.ask(rotate), await store.ask(rotate)
    assert (first.created, first.duplicate, first.inbox_id) == (True, False, "")
    assert (again.created, again.duplicate, again.session_id) == (False, True, "fresh")


async def test_a_chat_whose_session_has_ended_gets_a_fresh_one(store):
    old = await store.accept()
    end = "UPDATE sessions SET run_state = 'ended', end_reason = 'idle'"
    await store.raw(lambda raw: raw.execute(end))
    fresh = await store.accept()
    assert fresh.created and fresh.session_id != old.session_id
    (binding,) = await store.ask(FindBindings(peer="p", session_key=KEY))
    assert (binding.session_id, binding.version) == (fresh.session_id, 2)
    assert (await store.ask(GetSession(session_id=old.session_id))).end_reason == "idle"


async def test_seeds_of_messages_that_arrive_together_count_once(store):
    seed = (Entry(role="user", content="a"),)
    first = await store.accept("b", seed=seed)
    await store.accept("c", seed=seed)
    taken = await store.take(first.session_id)
    assert [entry.content for entry in taken.history] == ["a", "b"]


async def test_a_message_turned_again_comes_last_although_others_came_since(store):
    accepted = await store.accept("one", inbox_id="I")
    await store.end(await store.take(accepted.session_id), TurnState.FAILED, interrupted_text="o", again=True)
    await store.post("two")
    again = await store.take(accepted.session_id)
    assert [entry.content for entry in again.history] == ["two", "one"]


async def test_params_route_and_event_come_back_as_they_were(store):
    event = InboundEvent(source=Source(platform="discord", chat_id="C1"), text="hi")
    params = {"temperature": 0.5, "stop": ["x"], "nested": {"a": None}}
    accepted = await store.accept(params=params, event=event, detached=False)
    taken = await store.take(accepted.session_id)
    assert (taken.params, taken.route, taken.detached, taken.origin, taken.peer) == (
        params, Route(platform="discord", chat_id="C1"), False, Origin.RELAY, "p",
    )  # fmt: skip
    stored = await store.raw(lambda raw: raw.execute("SELECT event FROM inbox").fetchone()[0])
    assert msgspec.json.decode(stored, type=InboundEvent) == event
