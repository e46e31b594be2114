"""TRN: preparation faults, fallbacks and what their texts say, through the real composition."""

import pytest
import structlog

from actors.messages.lane import ListLanes
from actors.messages.rows import TurnState
from tests.acceptance.watched import Watched
from tests.fakes.backend_script import Done, Finish, Reply, Role, Text
from tests.harness import Harness

GOOD = (Role(), Text("good"), Finish(), Done())


def lanes(backend, *names):
    """Lanes of one backend, each a fallback of the others."""
    return [
        {"name": name, "base_url": f"{backend.url}", "model": f"{name}-1", "order": place}
        for place, name in enumerate(names)
    ]


@pytest.fixture
def start(tmp_path):
    def make(lane, **settings):
        return Harness(tmp_path / "data", **{"lane": lane, "turn.retry_base_s": 0.0, **settings})

    return make


def fault():
    raise ValueError("canary of the stored history")


async def test_trn_29_39_a_preparation_fault_says_its_class_and_sends_nothing(start, backend):
    async with start(lanes(backend, "a", "b")) as harness:
        harness.system.failpoints.always("lane.prepare", fault)
        async with Watched(harness) as chat:
            await chat.say()
            turn = await chat.over()
            assert [(told["from"], told["to"]) for told in chat.of("lane_fallback")] == [("a", "b")]
            told = str(chat.events) + turn.error
    assert backend.exchanges == [] and turn.state is TurnState.FAILED
    assert "ValueError" in turn.error and "stored history" in turn.error and "/compact" in turn.error
    assert "canary" not in told


async def test_trn_30_31_a_fallback_that_can_prepare_it_answers(start, backend):
    async with start(lanes(backend, "a", "b", "c")) as harness:
        harness.system.failpoints.set("lane.prepare", fault, times=2)
        backend.script(*GOOD)
        async with Watched(harness) as chat:
            await chat.say()
            turn = await chat.over()
            assert [(told["lane"], told["error_class"]) for told in chat.of("lane_failed")] == [
                ("b", "ValueError")
            ]
    assert turn.text == "good" and [exchange.body["model"] for exchange in backend.exchanges] == ["c-1"]


async def test_trn_31_preparation_faults_and_refused_keys_say_nothing_of_a_backends_health(start, backend):
    async with start(lanes(backend, "a")) as harness:
        harness.system.failpoints.set("lane.prepare", fault, times=6)
        async with Watched(harness) as chat:
            for n in range(6):
                await chat.say(f"{n}")
                await chat.until("state", state="error")
            backend.script(Reply(401, {}), times=6)
            for n in range(6):
                await chat.say(f"{n}")
                await chat.until("state", state="error")
            (lane,) = await harness.ask("/lanes", ListLanes())
            assert lane.degraded is False


async def test_trn_38_a_fallbacks_url_shows_no_password(start, backend):
    lane = lanes(backend, "a")
    lane.append({"name": "b", "base_url": "http://user:canary@127.0.0.1:9/v1", "model": "m", "order": 1})
    with structlog.testing.capture_logs() as logged:
        async with start(lane, **{"turn.creation_tries": 1}) as harness:
            backend.script(Reply(401, {}))
            async with Watched(harness) as chat:
                await chat.say()
                turn = await chat.over()
                assert [told["error_class"] for told in chat.of("lane_failed")] == ["ConnectError"]
                told = str(chat.events) + str(turn) + str(logged)
    assert "canary" not in told


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_what_comes_and_goes_is_tried_again(start, backend, status):
    async with start(lanes(backend, "a")) as harness:
        backend.script(Reply(status, {}), times=3)
        backend.script(*GOOD)
        async with Watched(harness) as chat:
            await chat.say()
            assert (await chat.over()).text == "good"
            assert [told["n"] for told in chat.of("lane_retry")] == [1, 2, 3]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
async def test_what_stays_is_not_tried_again(start, backend, status):
    async with start(lanes(backend, "a")) as harness:
        backend.script(Reply(status, {"error": {"message": "canary"}}))
        async with Watched(harness) as chat:
            await chat.say()
            turn = await chat.over()
            assert turn.state is TurnState.FAILED and "canary" not in str(chat.events) + str(turn)
    assert len(backend.exchanges) == 1
