"""Sessions, their history, and the chats of the console."""

import pytest

from actors.messages.rows import HistoryKind, RunState, SessionKind, TurnState
from actors.messages.store import (
    EditPost,
    FindBindings,
    GetSession,
    ListSessions,
    OpenSession,
    PostToChat,
    ReadHistory,
)


def opening(key="k", new_session_id="s1", at=1.0, **fields):
    return OpenSession(
        peer="console", scope=None, session_key=key, new_session_id=new_session_id, at=at, **fields
    )


def post(content, key="k", new_session_id="g1", at=1.0, post_id=None):
    return PostToChat(
        peer="console", scope=None, session_key=key, new_session_id=new_session_id, post_id=post_id or content,
        author="bot", content=content, at=at,
    )  # fmt: skip


async def test_opening_makes_a_session_once(store):
    row = await store.ask(opening(title="Plans\nfor later"))
    assert (row.session_id, row.kind, row.run_state, row.title) == (
        "s1", SessionKind.CHAT, RunState.ACTIVE, "Plans",
    )  # fmt: skip
    assert await store.ask(opening(new_session_id="s2")) == row


async def test_a_session_is_found_by_its_id_and_by_a_prefix_that_is_unique(store):
    for n, session_id in enumerate(("aa1", "aa2", "ab")):
        await store.ask(opening(f"k{n}", session_id))
    found = [await store.ask(GetSession(session_id=text)) for text in ("aa1", "ab", "a", "aa", "b", "", "%")]
    assert [row.session_id if row else None for row in found] == ["aa1", "ab", None, None, None, None, None]


async def test_sessions_are_listed_by_activity_with_their_last_turn_and_queue(store):
    for n in range(3):
        await store.accept(session_key=f"k{n}", peer=f"p{n % 2}", at=10.0 + n)
    oldest = (await store.accept(session_key="k0", peer="p0", at=20.0)).session_id
    taken = await store.take(oldest)
    await store.end(taken, TurnState.FAILED)
    rows = await store.ask(ListSessions())
    assert [(row.session_key, row.last_turn, row.queued) for row in rows] == [
        ("k0", TurnState.FAILED, 1), ("k2", None, 1), ("k1", None, 1),
    ]  # fmt: skip
    assert [row.session_key for row in await store.ask(ListSessions(peer="p0"))] == ["k0", "k2"]
    assert [row.session_key for row in await store.ask(ListSessions(limit=1, offset=1))] == ["k2"]


async def test_history_is_read_from_its_end(store):
    for text in ("one", "two", "three"):
        await store.ask(post(text))
    rows = await store.ask(ReadHistory(session_id="g1", limit=2))
    assert [row.content for row in rows] == ["two", "three"]
    older = await store.ask(ReadHistory(session_id="g1", before=rows[0].seq))
    assert [row.content for row in older] == ["one"]


async def test_a_post_opens_a_gateway_session_and_its_author_may_edit_it(store):
    first = await store.ask(post("hello"))
    assert (first.session_id, first.role, first.kind, first.author) == (
        "g1", "assistant", HistoryKind.MESSAGE, "bot",
    )  # fmt: skip
    assert (await store.ask(GetSession(session_id="g1"))).kind is SessionKind.GATEWAY
    assert (await store.ask(post("again", new_session_id="g2"))).session_id == "g1"
    edit = EditPost(seq=first.seq, author="bot", content="hello there", at=2.0)
    assert await store.ask(edit)
    assert not await store.ask(EditPost(seq=first.seq, author="other", content="no", at=2.0))
    assert not await store.ask(EditPost(seq=999, author="bot", content="no", at=2.0))
    texts = [row.content for row in await store.ask(ReadHistory(session_id="g1"))]
    assert texts == ["hello there", "again"]


async def test_a_model_gets_an_edited_post_as_it_is_now(store):
    chat = {"session_key": "k", "peer": "console"}
    first = await store.ask(post("hello"))
    accepted = await store.accept("one", **chat)
    await store.end(await store.take(accepted.session_id), TurnState.COMMITTED, text="1")
    assert await store.ask(EditPost(seq=first.seq, author="bot", content="hello there", at=2.0))
    await store.accept("two", **chat)
    taken = await store.take(accepted.session_id)
    assert [entry.content for entry in taken.history] == ["hello there", "one", "1", "two"]


@pytest.mark.parametrize(("scope", "found"), [(None, ["", "G1"]), ("G1", ["G1"]), ("", [""]), ("G2", [])])
async def test_bindings_are_found_in_all_scopes_or_in_one(store, scope, found):
    await store.accept(session_key="k")
    await store.accept(session_key="k", scope="G1")
    bindings = await store.ask(FindBindings(peer="p", session_key="k", scope=scope))
    assert [binding.scope for binding in bindings] == found
