"""A write that is repeated is answered with what is stored: what actors.keep builds on."""

import msgspec
import pytest

from actors.messages import store as requests
from actors.messages.events import Event
from actors.messages.rows import (
    DeliveryState,
    Entry,
    KeyScope,
    NewDelivery,
    Origin,
    PeerRole,
    Route,
    TurnState,
)
from actors.messages.secret import Secret
from storage.info import tables

ROUTE = Route(platform="discord", chat_id="C1")
CHAT = {"peer": "p", "scope": None, "session_key": "k"}
NEW = {**CHAT, "new_session_id": "new"}
DELIVERY = NewDelivery(delivery_id="d2", peer="p", route=ROUTE, content="x")

WRITES = (
    requests.AcceptMessage(
        at=2.0,
        inbox_id="i",
        origin=Origin.API,
        entries=(Entry(role="user", content="x"),),
        turn_id="t2",
        **NEW,
    ),
    requests.RotateChat(at=2.0, **NEW),
    requests.BuryMessage(at=2.0, inbox_id="waiting", reason="user"),
    requests.FlushPartial(at=2.0, turn_id="running", turn_gen=1, text="x"),
    requests.EndTurn(
        at=2.0, turn_id="running", turn_gen=1, state=TurnState.COMMITTED, text="x", delivery=DELIVERY
    ),
    requests.CompactHistory(at=2.0, turn_id="now", turn_gen=1, upto=1, summary="x"),
    requests.OpenSession(at=2.0, **{**NEW, "session_key": "another"}),
    requests.PostToChat(at=2.0, post_id="o2", author="bot", content="x", **NEW),
    requests.EditPost(at=2.0, seq=1, author="bot", content="new"),
    requests.PutDelivery(at=2.0, delivery=DELIVERY),
    requests.BeginAnswer(
        at=2.0,
        turn_id="running",
        turn_gen=1,
        delivery=msgspec.structs.replace(DELIVERY, delivery_id="b2"),
    ),
    requests.WithdrawBeginning(at=2.0, delivery_id="b1"),
    requests.AdvanceDelivery(at=2.0, delivery_id="d1", parts_done=1),
    requests.SettleDelivery(at=2.0, delivery_id="d1", state=DeliveryState.DELIVERED, attempt=1),
    requests.LoseAttempts(at=2.0),
    requests.PutPeer(
        at=2.0, name="q", role=PeerRole.CONNECTOR, identities=("discord:b",), scopes=(), secret=Secret("s2")
    ),
    requests.RotatePeer(at=2.0, name="p", secret=Secret("s3")),
    requests.RevokePeer(at=2.0, name="p"),
    requests.PutKey(at=2.0, key_id="k2", name="n", owner="o", scopes=(KeyScope.API,), key_hash="h2"),
    requests.RevokeKey(at=2.0, key="k1"),
    requests.AppendEvents(at=2.0, events=(Event(seq=1, kind="k", path="/", at=1.0, data={}),)),
)

SEEN_TO_BY_THEIR_CALLERS = {
    # A session ends a turn that began unseen, and gives its message back.
    requests.TakeTurn,
    # An outbox gives back what was claimed unseen.
    requests.ClaimDeliveries,
    # A number that nobody uses is no loss.
    requests.NextLinkGen,
}

SAYS_SO = {
    # Says that it is a repetition.
    requests.AcceptMessage: {"duplicate": True, "created": False},
    requests.RotateChat: {"duplicate": True, "created": False},
}


def test_every_write_is_looked_at():
    theirs = {
        one for one in vars(requests).values() if isinstance(one, type) and issubclass(one, requests.Write)
    }
    assert {type(write) for write in WRITES} | SEEN_TO_BY_THEIR_CALLERS == theirs - {requests.Write}


@pytest.fixture
async def furnished(store):
    """A store in which each of the writes has something to do."""
    await store.ask(
        requests.PostToChat(
            at=1.0, **{**NEW, "new_session_id": "old"}, post_id="o1", author="bot", content="x"
        )
    )
    await store.accept(inbox_id="turned", session_key="a")
    turned = await store.take((await store.accept(inbox_id="other", session_key="b")).session_id)
    first = await store.ask(requests.SessionsWithMail())
    await store.end(await store.take(first[0]), TurnState.FAILED)
    await store.end(turned, TurnState.FAILED)
    await store.accept(inbox_id="now", session_key="c", turn_id="running")
    (running,) = await store.ask(requests.SessionsWithMail())
    await store.take(running)
    beginning = msgspec.structs.replace(DELIVERY, delivery_id="b1", peer="q")
    await store.ask(requests.BeginAnswer(at=1.0, turn_id="running", turn_gen=1, delivery=beginning))
    await store.accept(inbox_id="long", session_key="e", turn_id="now")
    (running,) = await store.ask(requests.SessionsWithMail())
    await store.take(running)
    await store.accept(inbox_id="waiting", session_key="d", turn_id="admitted")
    first_delivery = msgspec.structs.replace(DELIVERY, delivery_id="d1")
    await store.ask(requests.PutDelivery(at=1.0, delivery=first_delivery))
    await store.ask(requests.ClaimDeliveries(at=1.0, peer="p"))
    await store.ask(
        requests.PutPeer(
            at=1.0, name="p", role=PeerRole.CONNECTOR, identities=("x:y",), scopes=(), secret=Secret("s1")
        )
    )
    await store.ask(
        requests.PutKey(at=1.0, key_id="k1", name="m", owner="o", scopes=(KeyScope.API,), key_hash="h1")
    )
    return store


async def contents(store):
    def read(raw):
        return {
            table: [tuple(row) for row in raw.execute(f"SELECT * FROM {table}").fetchall()]
            for table in tables(raw)
        }

    return await store.raw(read)


@pytest.mark.parametrize("write", WRITES, ids=lambda write: type(write).__name__)
async def test_a_repetition_changes_nothing_and_is_answered_as_the_first_was(furnished, write):
    before = await contents(furnished)
    first = await furnished.ask(write)
    after = await contents(furnished)
    assert after != before
    again = await furnished.ask(write)
    assert await contents(furnished) == after
    changed = SAYS_SO.get(type(write), {})
    if changed is not None:
        assert again == (msgspec.structs.replace(first, **changed) if changed else first)


async def test_a_rotation_is_known_again_though_the_chat_has_gone_on(store):
    rotate = requests.RotateChat(at=1.0, **NEW)
    await store.ask(rotate)
    await store.ask(msgspec.structs.replace(rotate, new_session_id="newer"))
    assert (await store.ask(rotate)).session_id == "new"
    (binding,) = await store.ask(requests.FindBindings(peer="p", session_key="k"))
    assert binding.session_id == "newer"
