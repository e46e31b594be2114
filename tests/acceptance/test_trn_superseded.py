"""TRN-15, 16, 21, 32, 35: turns whose row is another's by now, and that learn it from a write of theirs."""

import asyncio
import sqlite3

import pytest
import structlog

from actors.messages.lane import StreamDelta, StreamFinished
from actors.messages.rows import TurnState
from actors.messages.store import EndTurn, ListSessions, ListTurns
from tests.acceptance.watched import Watched
from tests.clock import StillClock
from tests.fakes.backend_script import Die, Done, Finish, Hold, Reply, Role, Text
from tests.harness import Harness, until


async def running(harness):
    (turn,) = await harness.ask("/store", ListTurns(states=(TurnState.RUNNING,)))
    return turn


async def take_over(harness):
    """End the running turn in the store and have its message turned again, as a recovery does."""
    turn = await running(harness)
    await harness.ask(
        "/store",
        EndTurn(
            turn_id=turn.turn_id, turn_gen=turn.turn_gen, state=TurnState.INTERRUPTED, again=True, at=1.0
        ),
    )


def of_first(chat):
    """What was told of the turn that was superseded."""
    return [
        event["event"].removeprefix("turn.") for event in chat.events if event["data"].get("turn_gen") == 1
    ]


async def ends_without_a_trace(harness, chat):
    """Hear the one that took over to its end, and see that the other has left nothing."""
    await chat.until("state", state="idle", turn_gen=2)
    assert await chat.rows() == ["reply to: hi"]
    (session,) = await harness.ask("/store", ListSessions())
    assert session.last_error is None
    turns = await harness.ask("/store", ListTurns())
    assert [(turn.turn_gen, turn.state) for turn in turns] == [
        (2, TurnState.COMMITTED), (1, TurnState.INTERRUPTED),
    ]  # fmt: skip
    assert turns[1].error is None and turns[1].text is None


async def test_trn_15_a_superseded_turn_takes_in_nothing_of_its_stream(boot, backend):
    harness = await boot(**{"turn.flush_s": 0.0})
    backend.script(Text("old "), Hold("on"), Text("known "), Hold("late"), Text("never"), Finish(), Done())
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("content")

        async def flushed():
            return (await running(harness)).partial == "old "

        await until(flushed)
        await take_over(harness)
        backend.release("on")
        await chat.until("turn_start", turn_gen=2)
        await backend.exchanges[0].connection_closed.wait()
        backend.release("late")
        await ends_without_a_trace(harness, chat)
        assert of_first(chat)[-1] == "content" and "never" not in str(chat.events)
        assert not {"stream_end", "cancelled", "error"} & set(of_first(chat))


async def test_trn_15_what_a_stream_of_an_older_generation_says_is_fenced(boot, backend):
    harness = await boot(**{"turn.flush_s": 0.0})
    backend.script(Text("old "), Hold("on"), Text("known"), Hold("late"))
    backend.script(Text("new"), Hold("go"), Finish(), Done())
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("content")
        first = await running(harness)
        await take_over(harness)
        backend.release("on")
        await chat.until("content", turn_gen=2)
        second = await running(harness)
        turn = harness.at(f"/sessions/{chat.session_id}/turn")
        for stream_id in (
            f"{first.turn_id}:{first.turn_gen}:1",
            f"{second.turn_id}:{first.turn_gen}:1",
            f"{second.turn_id}:{second.turn_gen}:0",
        ):
            turn.tell(StreamDelta(stream_id=stream_id, text="stale"))
            turn.tell(StreamFinished(stream_id=stream_id, finish_reason="stop", usage=None))
        backend.release("go")
        await chat.until("state", state="idle", turn_gen=2)
        assert "stale" not in str(chat.events) and await chat.rows() == ["new"]


async def test_trn_16_one_that_is_superseded_in_its_backoff_is_silent(boot, backend):
    clock = StillClock()
    harness = await boot(clock=clock, **{"turn.retry_base_s": 10.0, "turn.flush_s": 0.25})
    backend.script(Role(), Text("Hel"), Die("rst"))
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("retry")
        await take_over(harness)
        clock.advance(0.25)
        await ends_without_a_trace(harness, chat)
        assert of_first(chat)[-1] == "retry"
        # Its wait is no more.
        clock.advance(60.0)
        await harness.system.idle()
    assert len(backend.exchanges) == 2


# A row that becomes another's while the turn's write is on its way, and the turn hears it late.


class Unheard:
    """From the next flush on the running turn is another's, and the store's answers wait for ``release``."""

    def __init__(self, harness):
        self._harness = harness
        self._answers = asyncio.Event()
        self._told = 0
        harness.system.failpoints.set("turn.flush", self._flush)

    def _flush(self):
        connection = sqlite3.connect(self._harness.database.path)
        with connection:
            connection.execute("UPDATE turns SET turn_gen = turn_gen + 1 WHERE state = 'running'")
        connection.close()
        self._harness.system.failpoints.always("store.after_commit", self._answers.wait)

    async def flushed(self, chat):
        """Wait until the flush is on its way."""
        await chat.wire.ask("events.subscribe", kinds=["turn.superseded"])
        await until(lambda: self._harness.system.failpoints.passed.get("turn.flush"))

    async def heard(self, chat, exchange=None):
        """Let the store answer and the turn hear it; return what is told from here on."""
        told = len(chat.events)
        self._harness.system.failpoints.clear("store.after_commit")
        self._answers.set()
        await chat.until("superseded")
        if exchange is not None:
            await exchange.connection_closed.wait()

        async def more():
            await self._harness.system.idle()
            await chat.wire.ask("lanes.list")
            return [*chat.events[told:], *chat.wire.events]

        return more


def quiet(events):
    """Say whether nothing of a turn is among the events."""
    return [event["event"] for event in events if "attempt" in event["data"]] == []


FALLBACKS = (("big", None), ("small", 1))


@pytest.fixture
async def two_lanes(tmp_path, backend):
    lanes = [
        {
            "name": name,
            "base_url": backend.url,
            "model": f"{name}-1",
            **({"order": order} if order is not None else {}),
        }
        for name, order in FALLBACKS
    ]
    settings = {"turn.retry_base_s": 0.0, "turn.flush_s": 0.0}
    async with Harness(tmp_path / "data", lane=lanes, **settings) as harness:
        yield harness


DYING_LATER = (Role(), Text("Hel"), Hold("die"), Die("rst"))


async def test_trn_32_one_that_is_superseded_before_its_lane_refuses_does_not_try_again(boot, backend):
    harness = await boot(**{"turn.flush_s": 0.0, "turn.retry_base_s": 0.0})
    unheard = Unheard(harness)
    backend.script(*DYING_LATER)
    backend.script(Hold("refuse"), Reply(503, {}))
    async with Watched(harness) as chat:
        await chat.say()
        await unheard.flushed(chat)
        backend.release("die")
        exchange = await backend.request(1)
        await chat.until("state", state="thinking", attempt=2)
        more = await unheard.heard(chat, exchange)
        backend.release("refuse")
        assert quiet(await more())
    assert [exchange.last_user_message for exchange in backend.exchanges] == ["hi", "hi"]


async def test_trn_35_a_fallback_that_is_superseded_is_shown_and_its_failure_is_not(two_lanes, backend):
    unheard = Unheard(two_lanes)
    backend.script(*DYING_LATER)
    backend.script(Reply(401, {}))
    backend.script(Hold("refuse"), Reply(400, {}))
    async with Watched(two_lanes) as chat:
        await chat.say()
        await unheard.flushed(chat)
        backend.release("die")
        exchange = await backend.request(2)
        await chat.until("lane_fallback", to="small")
        more = await unheard.heard(chat, exchange)
        backend.release("refuse")
        assert quiet(await more())
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["big-1", "big-1", "small-1"]


async def test_trn_21_what_fails_in_a_superseded_turn_is_no_error_of_anything(boot, backend):
    harness = await boot(**{"turn.flush_s": 0.0})
    unheard = Unheard(harness)
    failed = asyncio.Event()

    async def fail():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            failed.set()
            raise ValueError("canary")

    backend.script(*DYING_LATER)
    with structlog.testing.capture_logs() as logged:
        async with Watched(harness) as chat:
            await chat.say()
            await unheard.flushed(chat)
            harness.system.failpoints.set("lane.request", fail)
            backend.release("die")
            await chat.until("state", state="thinking", attempt=2)
            more = await unheard.heard(chat)
            await failed.wait()
            assert quiet(await more()) and await chat.rows() == []
            (session,) = await harness.ask("/store", ListSessions())
            assert session.last_error is None
    loud = [entry for entry in logged if entry["log_level"] != "debug"]
    assert "canary" not in str(loud) and "turn.failed" not in str(loud)
    assert len(backend.exchanges) == 1
