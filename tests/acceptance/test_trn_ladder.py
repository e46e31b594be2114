"""TRN: streams that die and answers that begin again, through the real composition and a backend that does it for real."""

from typing import Any

import pytest
import structlog

from actors.messages.rows import HistoryKind, TurnState
from actors.messages.store import ReadHistory
from tests.acceptance.watched import Watched
from tests.fakes.backend_script import Die, Done, Event, Finish, Hold, Reply, Role, Silence, Text
from tests.harness import Harness

MARK = "[generation cancelled before completion]"
DEAD = "streaming from the dead attempt"
DYING = (Role(), Text(DEAD), Die("rst"))
GOOD = (Role(), Text("Hello "), Text("world"), Finish(), Done())
ANYWHERE = {"think_tags": "anywhere"}
LONG = {"turn.retry_base_s": 3600.0, "turn.retry_cap_s": 3600.0}


@pytest.mark.parametrize("how", ["rst", "fin"])
async def test_trn_1_a_stream_that_dies_begins_again(boot, backend, how):
    harness = await boot(lane=ANYWHERE)
    backend.script(Role(), Text(DEAD), Die(how))
    backend.script(*GOOD)
    with structlog.testing.capture_logs() as logged:
        async with Watched(harness) as chat:
            await chat.say()
            turn = await chat.over()
            assert chat.contents == [DEAD[:-12], "Hello world"]
            assert chat.life == [
                "thinking_start", "stream_end", "retry", "stream_discarded", "thinking_start", "stream_end",
                "turn_committed",
            ]  # fmt: skip
            (retry,) = chat.of("retry")
            assert (retry["error_class"], retry["n"], retry["of"]) == ("ReadError", 1, 2)
            assert await chat.rows() == ["Hello world"]
            assert chat.state == ("idle", "Hello world") and "error" not in chat.kinds
    assert (turn.state, turn.text) == (TurnState.COMMITTED, "Hello world")
    assert len(backend.exchanges) == 2
    assert [entry["log_level"] for entry in logged if entry["event"] == "stream.retry"] == ["warning"]
    # The dead text is no part of what the second request says.
    assert DEAD not in str(backend.exchanges[1].body)


async def test_trn_2_three_deaths_fail_the_turn(boot, backend):
    harness = await boot()
    backend.script(*DYING, times=3)
    with structlog.testing.capture_logs() as logged:
        async with Watched(harness) as chat:
            await chat.say()
            turn = await chat.over()
            (error,) = chat.of("error")
            assert [chat.kinds.count(kind) for kind in ("stream_end", "stream_discarded")] == [3, 3]
            assert chat.state[0] == "error" and "turn_committed" not in chat.kinds
    assert error["error_class"] == "IncompleteStream"
    for said in (error["text"], turn.error):
        assert "Backend stream died mid-response" in said and "ReadError" in said
        assert "retries did not recover it" in said
    assert len(backend.exchanges) == 3
    assert "error" in [entry["log_level"] for entry in logged if entry["event"] == "turn.failed"]
    # The last partial stays for people, and no model gets it.
    rows = await harness.ask("/store", ReadHistory(session_id=turn.session_id))
    assert [row.content.startswith(DEAD) for row in rows if row.kind is HistoryKind.INTERRUPTED] == [True]


async def test_trn_3_a_stop_ends_the_backoff(either, backend):
    harness = await either(**LONG)
    backend.script(Role(), Text("Hel"), Die("rst"))
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("retry")
        await chat.stop()
        turn = await chat.over()
        assert await chat.rows() == [f"Hel\n\n{MARK}"]
        assert chat.state == ("idle", "Hel") and "stream_discarded" not in chat.kinds
        assert chat.kinds[-2:] == ["cancelled", "state"]
    assert turn.state is TurnState.CANCELLED and len(backend.exchanges) == 1


async def test_trn_6_a_death_before_any_token(either, backend):
    harness = await either()
    backend.script(Role(), Die("rst"))
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        await chat.over()
        place = chat.kinds.index("retry")
        assert chat.kinds[place + 1 : place + 3] == ["stream_discarded", "thinking_start"]


async def test_trn_7_a_stop_after_a_death_before_any_token(either, backend):
    harness = await either(**LONG)
    backend.script(Role(), Die("rst"))
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("retry")
        await chat.stop()
        await chat.over()
        assert await chat.rows() == [MARK] and chat.state == ("idle", "")


@pytest.mark.parametrize("script", [(Hold("never"),), (Role(), Silence())])
async def test_trn_8_a_stop_before_the_second_streams_first_chunk(either, backend, script):
    harness = await either()
    backend.script(Role(), Text("Hel"), Die("rst"))
    backend.script(*script)
    async with Watched(harness) as chat:
        await chat.say()
        await backend.request(1)
        await chat.stop()
        await chat.over()
        assert await chat.rows() == [f"Hel\n\n{MARK}"]


async def test_trn_9_a_stop_after_the_finish_reason(either, backend):
    harness = await either(lane=ANYWHERE)
    backend.script(Role(), Text("done-ish"), Finish(), Silence())
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("state", state="running")
        await chat.stop()
        turn = await chat.over()
        assert await chat.rows() == [f"done-ish\n\n{MARK}"]
    assert turn.state is TurnState.CANCELLED


async def test_trn_11_a_class_that_only_the_serving_lane_lists(either, backend):
    harness = await either(lane={"retryable": ["BadRequest"]})
    backend.script(Role(), Text("x"), Event({"error": {"message": "odd", "type": "odd"}}))
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        assert (await chat.over()).text == "Hello world"
    assert len(backend.exchanges) == 2


async def test_trn_22_a_death_that_is_not_worth_a_retry(either, backend):
    harness = await either()
    backend.script(Role(), Text("x"), Event({"error": {"message": "odd", "type": "odd"}}))
    async with Watched(harness) as chat:
        await chat.say()
        await chat.over()
        assert chat.life == ["thinking_start", "stream_end", "stream_discarded", "error"]
    assert len(backend.exchanges) == 1


async def test_trn_24_a_blip_after_the_finish_reason_is_a_clean_end(either, backend):
    harness = await either(lane={"chars_per_token": 1.0})
    backend.script(Role(), Text("whole"), Finish(), Die("rst"))
    async with Watched(harness) as chat:
        await chat.say()
        turn = await chat.over()
        (status,) = chat.of("status")
    assert (turn.state, turn.text) == (TurnState.COMMITTED, "whole")
    assert status["estimated"] is True and status["usage"]["completion_tokens"] == 5
    assert (turn.estimated, turn.usage) == (True, status["usage"])


async def test_trn_25_a_stop_in_the_window_before_the_answer_begins_again(either, backend):
    harness = await either(lane=ANYWHERE)
    backend.script(Role(), Text("Half an answer"), Die("rst"))
    backend.script(Hold("never"))
    async with Watched(harness) as chat:
        await chat.say()
        await backend.request(1)
        await chat.stop()
        await chat.over()
        assert chat.contents == ["Ha"] and chat.kinds.count("stream_end") == 1
        assert await chat.rows() == [f"Half an answer\n\n{MARK}"]


async def test_trn_26_23_an_answer_that_cannot_begin_again_fails_with_its_death(boot, backend):
    harness = await boot()
    backend.script(*DYING)
    backend.script(Reply(400, {"error": {"message": "canary"}}))
    with structlog.testing.capture_logs() as logged:
        async with Watched(harness) as chat:
            await chat.say()
            turn = await chat.over()
    assert "died mid-response (ReadError)" in turn.error and "canary" not in str(chat.events)
    assert "stream.retry.recreate_failed" in [entry["event"] for entry in logged]


async def test_trn_23_a_client_that_was_closed_is_not_what_an_answer_that_died_fails_with(boot, backend):
    harness = await boot()
    backend.script(*DYING)

    def closed():
        raise RuntimeError("client has been closed")

    harness.system.failpoints.set("lane.request", closed, at=2)
    with structlog.testing.capture_logs() as logged:
        async with Watched(harness) as chat:
            await chat.say()
            turn = await chat.over()
    assert "died mid-response (ReadError)" in turn.error and len(backend.exchanges) == 1
    assert "been closed" not in str(chat.events) + str(turn) + str(logged)
    assert [entry["error_class"] for entry in logged if entry["event"] == "stream.retry.recreate_failed"] == [
        "RuntimeError"
    ]


async def test_trn_27_a_refused_key_on_the_way_is_reported_itself(either, backend):
    harness = await either()
    backend.script(*DYING)
    backend.script(Reply(401, {}))
    async with Watched(harness) as chat:
        await chat.say()
        turn = await chat.over()
    assert "configured to mint a credential per call" in turn.error and "died" not in turn.error


async def test_trn_50_a_stream_that_stalls_is_begun_again(either, backend):
    harness = await either(lane={"idle_timeout_s": 0.2})
    backend.script(Role(), Text("x"), Silence())
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        assert (await chat.over()).text == "Hello world"
        assert [retry["error_class"] for retry in chat.of("retry")] == ["StreamStalled"]


# Other lanes


async def two_lanes(tmp_path: Any, backend: Any, **settings: Any) -> Harness:
    lanes = [
        {"name": "big", "base_url": backend.url, "model": "big-1"},
        {"name": "small", "base_url": f"{backend.url}/", "model": "small-1", "order": 1},
    ]
    return await Harness(tmp_path / "data", **{"lane": lanes, "turn.retry_base_s": 0.0, **settings}).start()


async def test_trn_51_a_backend_that_dies_five_times_comes_last(tmp_path, backend):
    harness = await two_lanes(tmp_path, backend)
    backend.script(*DYING, times=5)
    async with Watched(harness) as chat:
        await chat.say("one")
        await chat.over()
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["big-1"] * 3
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.wire.ask("sessions.send", chat="main", text="two")
        await chat.until("lane_fallback", to="small")
        await chat.until("state", state="idle")
    assert [exchange.body["model"] for exchange in backend.exchanges][3:] == ["big-1", "big-1", "small-1"]
    await harness.stop()


async def test_trn_35_a_fallback_that_fails_too_is_told_and_the_first_reason_stays(tmp_path, backend):
    harness = await two_lanes(tmp_path, backend)
    backend.script(Reply(401, {}))
    backend.script(Reply(400, {}))
    async with Watched(harness) as chat:
        await chat.say()
        turn = await chat.over()
        assert [(told["from"], told["to"]) for told in chat.of("lane_fallback")] == [("big", "small")]
        assert [told["lane"] for told in chat.of("lane_failed")] == ["small"]
    assert turn.reason == "auth_refused"
    await harness.stop()
