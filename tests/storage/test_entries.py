"""Messages that are more than text: kept whole from acceptance to the model, across a reopening."""

import pytest

from actors.exceptions import Invalid
from actors.messages.rows import Entry, ToolCall, TurnState
from actors.messages.store import EndTurn, GetSession, GetTurn, ReadHistory
from storage.conversations import ENTRY_BYTES, Conversations

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SHOWN = Entry(role="user", content="look", parts=({"type": "text", "text": "look"}, IMAGE))
CALLS = (ToolCall(call_id="a", name="f", arguments="{bad"), ToolCall(call_id="b", name="g", arguments="{}"))
RESULTS = (
    Entry(role="tool", content="1", tool_call_id="a"),
    Entry(role="tool", content="2", tool_call_id="b"),
)


async def test_parts_and_tool_calls_reach_the_model_as_they_were_said(store):
    accepted = await store.accept(entries=(SHOWN,))
    first = await store.take(accepted.session_id)
    assert first.history == (SHOWN,)
    row = await store.end(first, TurnState.COMMITTED, reason="tool_calls", text="", tool_calls=CALLS)
    assert row.tool_calls == CALLS
    await store.accept(entries=RESULTS)
    await store.reopen()
    assert (await store.ask(GetTurn(turn_id=first.turn_id))).tool_calls == CALLS
    second = await store.take(accepted.session_id)
    asked = Entry(role="assistant", content="", tool_calls=CALLS)
    assert second.history == (SHOWN, asked, *RESULTS)
    rows = await store.ask(ReadHistory(session_id=accepted.session_id))
    assert [(row.role, row.tool_calls) for row in rows] == [
        ("user", ()), ("assistant", CALLS), ("tool", ()), ("tool", ()),
    ]  # fmt: skip


async def test_what_a_client_brings_of_its_history_is_kept_with_its_calls(store):
    asked = Entry(role="assistant", content="", tool_calls=CALLS)
    accepted = await store.accept(seed=(SHOWN, asked), entries=RESULTS)
    assert (await store.take(accepted.session_id)).history == (SHOWN, asked, *RESULTS)


async def test_a_message_that_is_turned_again_is_whole_too(store):
    accepted = await store.accept(entries=(SHOWN,))
    await store.end(await store.take(accepted.session_id), TurnState.INTERRUPTED, again=True)
    assert (await store.take(accepted.session_id)).history == (SHOWN,)


async def test_calls_are_of_a_committed_turn_only(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    row = await store.end(taken, TurnState.CANCELLED, reason="user", text="[stopped]")
    assert row.tool_calls == ()
    repeated = EndTurn(
        turn_id=taken.turn_id, turn_gen=taken.turn_gen, state=TurnState.CANCELLED, tool_calls=CALLS, at=1.0
    )
    assert (await store.ask(repeated)).tool_calls == ()


async def test_what_is_kept_in_memory_counts_what_lies_beside_the_text(store):
    accepted = await store.accept(entries=(SHOWN,))
    await store.end(await store.take(accepted.session_id), TurnState.COMMITTED, text="a picture")

    def read(connection):
        # Room for both texts, and not for the picture.
        conversations = Conversations(rows=10, size=2 * ENTRY_BYTES + len("looka picture"))
        conversations.read(connection, accepted.session_id)
        connection.execute("UPDATE history SET content = 'changed behind its back' WHERE role = 'user'")
        return conversations.read(connection, accepted.session_id)[0].content

    assert await store.raw(read) == "changed behind its back"


async def test_api_19_a_result_whose_call_the_session_does_not_know_is_refused_and_nothing_is_kept(store):
    accepted = await store.accept()
    taken = await store.take(accepted.session_id)
    await store.end(taken, TurnState.COMMITTED, text="", tool_calls=CALLS[:1])
    with pytest.raises(Invalid, match="has not called a tool under the id 'b'") as refused:
        await store.accept(entries=RESULTS)
    assert refused.value.code == "unknown_tool_call"
    assert await store.take(accepted.session_id) is None
    await store.accept(entries=RESULTS[:1])
    # A turn that was stopped over them lets them be sent again.
    await store.end(await store.take(accepted.session_id), TurnState.CANCELLED, text="[stopped]")
    await store.accept(entries=RESULTS[:1])
    assert (await store.take(accepted.session_id)).history[-1] == RESULTS[0]


async def test_api_19_a_history_that_does_not_count_has_no_calls_for_a_result(store):
    await store.accept()
    asked = Entry(role="assistant", content="", tool_calls=CALLS)
    with pytest.raises(Invalid):
        await store.accept(seed=(SHOWN, asked), entries=RESULTS)


async def test_a_session_that_begins_with_results_is_called_after_what_was_asked(store):
    asked = Entry(role="assistant", content="", tool_calls=CALLS)
    accepted = await store.accept(seed=(SHOWN, asked), entries=RESULTS)
    assert (await store.ask(GetSession(session_id=accepted.session_id))).title == "look"
