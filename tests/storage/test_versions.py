"""Versioned rows: of two writers who have read the same, one is told so."""

import pytest

from actors.exceptions import Conflict
from actors.messages.rows import RunState
from actors.messages.store import FindBindings, GetSession, OpenSession
from storage import bindings, versions
from storage.versions import CODE

KEY = {"session_id": "s1"}


@pytest.fixture
async def opened(store):
    """A store with two sessions, the first one bound to a chat."""
    for number, key in ((1, "k"), (2, "l")):
        await store.ask(
            OpenSession(at=1.0, peer="p", scope=None, session_key=key, new_session_id=f"s{number}")
        )
    return store


def change(version, **changes):
    return lambda raw: versions.change(raw, "sessions", KEY, version, changes)


async def test_of_two_writers_who_have_read_the_same_the_second_is_refused(opened):
    read = [(await opened.ask(GetSession(session_id="s1"))).version for _ in range(2)]
    assert await opened.raw(change(read[0], title="first")) == read[0] + 1
    with pytest.raises(Conflict, match=r"version 1 was expected, version 2 is stored; read it") as refused:
        await opened.raw(change(read[1], title="second", run_state=RunState.INACTIVE))
    assert refused.value.code == CODE
    row = await opened.ask(GetSession(session_id="s1"))
    assert (row.title, row.run_state, row.version) == ("first", RunState.ACTIVE, 2)
    # Having read again, it may.
    assert await opened.raw(change(row.version, title="second")) == 3


async def test_a_row_that_is_gone_is_said_so(opened):
    with pytest.raises(Conflict, match="it is gone"):
        await opened.raw(lambda raw: versions.change(raw, "sessions", {"session_id": "x"}, 1, {"title": "t"}))


async def test_only_the_named_row_changes(opened):
    await opened.raw(change(1, title="mine"))
    other = await opened.ask(GetSession(session_id="s2"))
    assert (other.title, other.version) == ("", 1)


@pytest.mark.parametrize("bound", [True, False])
async def test_of_two_who_bind_a_chat_the_second_is_refused(opened, bound):
    key = "k" if bound else "new"

    def resolve(raw):
        return bindings.resolve(raw, "p", None, key)

    reads = [await opened.raw(resolve) for _ in range(2)]

    def bind(read, session_id):
        scope, old = read
        return opened.raw(lambda raw: bindings.bind(raw, "p", scope, key, session_id, old))

    await bind(reads[0], "s2")
    with pytest.raises(Conflict) as refused:
        await bind(reads[1], "s1")
    assert refused.value.code == CODE
    (binding,) = await opened.ask(FindBindings(peer="p", session_key=key))
    assert binding.session_id == "s2"


async def test_a_session_that_is_rotated_away_has_another_version(opened):
    await opened.accept(peer="p", session_key="k", new_session_id="fresh", rotate=True)
    row = await opened.ask(GetSession(session_id="s1"))
    assert (row.run_state, row.end_reason, row.version) == (RunState.ENDED, "new_session", 2)
