"""TRN-12, 13, 20: a conversation that is too long gets a summary in place of its beginning, and goes on."""

import asyncio

import pytest

from actors.messages.metrics import ReadMeasures
from actors.messages.rows import HistoryKind, TurnState
from actors.messages.session import StopTurn
from actors.messages.store import EndTurn, ListSessions, ListTurns, ReadHistory
from tests.acceptance.conftest import Api
from tests.fakes.backend_script import Die, Finish, Hold, Raw, Reply, Silence, Text
from tests.harness import Harness, until

OVERFLOW = Reply(400, {"error": {"code": "context_length_exceeded", "message": "secret words"}})
SUMMARISING = "Messages:\n"


def is_summary(exchange):
    return SUMMARISING in exchange.last_user_message


def sent(exchange):
    return [(message["role"], message["content"]) for message in exchange.body["messages"]]


async def talk(api, *messages, chat="c1"):
    """Let messages be answered in order."""
    for message in messages:
        status, _, _ = await api.say(message, chat)
        assert status == 200


async def history(harness):
    (session,) = await harness.ask("/store", ListSessions())
    return await harness.ask("/store", ReadHistory(session_id=session.session_id))


async def last_turn(harness):
    return (await harness.ask("/store", ListTurns(limit=1)))[0]


def summary_of(exchange):
    role, content = sent(exchange)[0]
    return content.rpartition("\n\n")[2] if role == "system" else None


async def test_an_overflow_is_answered_with_a_summary_and_the_conversation_goes_on(boot, client, backend):
    api = Api(client, await boot())
    await talk(api, "one", "two")
    backend.script(OVERFLOW)
    backend.script(Text("They said one and two."), Finish(), when=SUMMARISING)
    status, _, body = await api.say("three", "c1")
    assert status == 200 and body["choices"][0]["message"]["content"] == "reply to: three"
    overflowed, summarised, answered = backend.exchanges[2:]
    assert "tools" not in summarised.body and is_summary(summarised)
    assert len(sent(answered)) < len(sent(overflowed))
    assert summary_of(answered) == "They said one and two." and sent(answered)[-1] == ("user", "three")
    # Nothing of it is lost for people, and everybody after gets the summary: also after a kill.
    rows = await history(api.harness)
    assert [row.content for row in rows if row.kind is HistoryKind.MESSAGE][:2] == ["one", "reply to: one"]
    assert [row.turn_id for row in rows if row.kind is HistoryKind.COMPACTION] == [
        (await last_turn(api.harness)).turn_id
    ]
    await api.harness.crash()
    again = Api(client, await boot())
    await talk(again, "four")
    assert sent(backend.exchanges[-1]) == [
        *sent(answered), ("assistant", "reply to: three"), ("user", "four")
    ]  # fmt: skip


async def test_trn_12_a_death_and_then_an_overflow_are_recovered_from(either, client, backend):
    api = Api(client, await either())
    await talk(api, "one", "two")
    backend.script(Text("dead"), Die("rst"), when="three")
    backend.script(OVERFLOW, when="three")
    backend.script(Text("recovered"), Finish(), when="three")
    backend.script(Text("Summary."), Finish(), when=SUMMARISING)
    status, _, body = await api.say("three", "c1")
    assert status == 200 and body["choices"][0]["message"]["content"] == "recovered"
    assert [is_summary(exchange) for exchange in backend.exchanges[2:]] == [False, False, True, False]


async def test_trn_13_what_fails_after_the_compaction_is_said_itself(either, client, backend):
    api = Api(client, await either())
    await talk(api, "one")
    backend.script(OVERFLOW, when="two")
    backend.script(Reply(403, "no"), when="two")
    backend.script(Text("Summary."), Finish(), when=SUMMARISING)
    status, _, body = await api.say("two", "c1")
    assert status != 200 and "refused" in body["error"]["message"]
    turn = await last_turn(api.harness)
    assert turn.state is TurnState.FAILED and "Context window exceeded" not in turn.error
    (session,) = await api.harness.ask("/store", ListSessions())
    assert session.last_error == turn.error


async def test_trn_13_a_fault_of_our_own_after_the_compaction_is_named(boot, client, backend):
    harness = await boot()
    api = Api(client, harness)
    await talk(api, "one")
    backend.script(OVERFLOW, when="two")
    backend.script(Text("Summary."), Finish(), when=SUMMARISING)

    def fault():
        raise ValueError("canary")

    # The turn's first request, the summary's, and the one after it.
    harness.system.failpoints.set("lane.prepare", fault, at=3)
    assert (await api.say("two", "c1"))[0] != 200
    (session,) = await harness.ask("/store", ListSessions())
    assert "ValueError" in session.last_error and "canary" not in session.last_error
    assert "Context window exceeded" not in session.last_error
    assert [is_summary(exchange) for exchange in backend.exchanges[1:]] == [False, True]


async def test_trn_20_an_overflow_in_mid_stream_is_recovered_from(either, client, backend):
    api = Api(client, await either(lane={"hold_back": True}))
    await talk(api, "one")
    error = b'data: {"error": {"code": "context_length_exceeded", "message": "x"}}\n\n'
    backend.script(Text("dead"), Raw(error), when="two")
    backend.script(Text("recovered"), Finish(), when="two")
    backend.script(Text("Summary."), Finish(), when=SUMMARISING)
    status, _, body = await api.say("two", "c1")
    assert status == 200 and body["choices"][0]["message"]["content"] == "recovered"
    assert [is_summary(exchange) for exchange in backend.exchanges[1:]] == [False, True, False]
    assert (await history(api.harness))[-1].content == "recovered"


async def test_a_conversation_that_fills_most_of_the_window_is_compacted_first(either, client, backend):
    api = Api(client, await either(lane={"context_window": 50, "chars_per_token": 4.0}))
    await talk(api, "x" * 60)
    backend.script(Text("Summary."), Finish(), when=SUMMARISING)
    # 60 and 70 characters so far, and 40: more than 80 % of 200.
    status, _, body = await api.say("y" * 40, "c1")
    assert status == 200 and body["choices"][0]["message"]["content"] == f"reply to: {'y' * 40}"
    assert [is_summary(exchange) for exchange in backend.exchanges] == [False, True, False]
    assert summary_of(backend.exchanges[-1]) == "Summary."


async def test_a_history_that_the_model_cannot_take_at_once_is_summarised_in_pieces(either, client, backend):
    api = Api(client, await either())
    await talk(api, *(f"m{n} {'x' * 800}" for n in range(4)))
    before = len(backend.exchanges)
    backend.script(OVERFLOW, when="now")
    backend.script(OVERFLOW, when=SUMMARISING)
    backend.script(Text("Summary."), Finish(), times=9, when=SUMMARISING)
    await talk(api, "now")
    asked = [exchange for exchange in backend.exchanges[before:] if is_summary(exchange)]
    refused, *taken = asked
    assert len(taken) > 1
    assert all(len(exchange.raw) < len(refused.raw) for exchange in taken)
    assert all("before:\nSummary.\n" in exchange.last_user_message for exchange in taken[1:])
    assert summary_of(backend.exchanges[-1]) == "Summary."


async def test_a_summary_that_nobody_writes_fails_the_turn_with_what_to_do(either, client, backend):
    api = Api(client, await either())
    await talk(api, "one")
    backend.script(OVERFLOW, when="two")
    backend.script(Reply(403, "secret words"), when=SUMMARISING)
    status, _, body = await api.say("two", "c1")
    assert status >= 400 and "secret" not in str(body)
    error = (await last_turn(api.harness)).error
    assert "Context window exceeded" in error and "(AuthRefused)" in error
    assert "start a new one" in (await history(api.harness))[-1].content
    assert HistoryKind.COMPACTION not in {row.kind for row in await history(api.harness)}


async def test_another_lane_writes_the_summary_that_the_first_one_does_not(tmp_path, client, backend):
    lanes = [
        {"name": "a", "base_url": backend.url, "model": "m-a"},
        {"name": "b", "base_url": backend.url, "model": "m-b", "order": 1},
    ]
    async with Harness(tmp_path / "data", lane=lanes, **{"turn.retry_base_s": 0.0}) as harness:
        api = Api(client, harness)
        await talk(api, "one")
        backend.script(OVERFLOW, when="two")
        backend.script(Reply(503), times=4, when=SUMMARISING)
        backend.script(Text("Summary."), Finish(), when=SUMMARISING)
        await talk(api, "two")
        models = [exchange.body["model"] for exchange in backend.exchanges if is_summary(exchange)]
        assert models == ["m-a"] * 4 + ["m-b"]
        measures = {lane.lane: lane for lane in await harness.ask("/metrics", ReadMeasures())}
        assert measures["a"].attempts["server_error"] == 4 and measures["b"].attempts["completed"] == 1


@pytest.mark.parametrize("script", [(Hold("never"),), (Text("Sum"), Silence())])
async def test_a_stop_ends_the_compaction_and_closes_its_connection(boot, client, backend, script):
    harness = await boot()
    api = Api(client, harness)
    await talk(api, "one")
    backend.script(OVERFLOW, when="two")
    backend.script(*script, when=SUMMARISING)
    asking = asyncio.ensure_future(api.say("two", "c1"))
    exchange = await backend.request(2)
    assert is_summary(exchange)
    (session,) = await harness.ask("/store", ListSessions())
    assert await harness.ask("/sessions", StopTurn(session_id=session.session_id, by="user")) is True
    async with asyncio.timeout(5):
        await exchange.connection_closed.wait()
        await asking
    turn = await last_turn(harness)
    assert (turn.state, turn.reason) == (TurnState.CANCELLED, "user")
    assert len(backend.exchanges) == 3
    await talk(api, "three")


async def test_a_compaction_that_crashes_fails_the_turn_and_nothing_else(boot, client, backend):
    harness = await boot()
    api = Api(client, harness)
    await talk(api, "one")
    backend.script(OVERFLOW, when="two")

    def crash():
        raise ZeroDivisionError

    harness.system.failpoints.set("compaction.stream", crash)
    status, _, _ = await api.say("two", "c1")
    assert status >= 400 and "(ZeroDivisionError)" in (await last_turn(harness)).error
    await talk(api, "three")


async def test_a_kill_in_mid_compaction_leaves_the_conversation_as_it_was(boot, client, backend):
    harness = await boot()
    api = Api(client, harness)
    await talk(api, "one")
    backend.script(OVERFLOW, when="two")
    backend.script(Text("Sum"), Silence(), when=SUMMARISING)
    asking = asyncio.ensure_future(api.say("two", "c1"))
    await backend.request(2)
    await harness.crash()
    await asyncio.wait([asking])
    harness = await boot()
    await talk(Api(client, harness), "three")
    assert [content for _, content in sent(backend.exchanges[-1])] == [
        "one", "reply to: one", "two", "three",
    ]  # fmt: skip


async def test_a_turn_that_is_not_the_running_one_any_more_keeps_no_summary(boot, client, backend):
    harness = await boot()
    api = Api(client, harness)
    await talk(api, "one")
    backend.script(OVERFLOW, when="two")
    backend.script(Hold("go"), Text("Summary."), Finish(), when=SUMMARISING)
    asking = asyncio.ensure_future(api.say("two", "c1"))
    await backend.request(2)
    turn = await last_turn(harness)
    path = f"/sessions/{turn.session_id}/turn"
    await harness.ask(
        "/store",
        EndTurn(turn_id=turn.turn_id, turn_gen=turn.turn_gen, state=TurnState.INTERRUPTED, at=1.0),
    )
    backend.release("go")
    await until(lambda: harness.system.find(path) is None)
    assert HistoryKind.COMPACTION not in {row.kind for row in await history(harness)}
    assert len(backend.exchanges) == 3
    await asyncio.wait([asking])
