"""What clients and watchers see of an answer whose stream dies (API-14, turns.md sections 1 and 3)."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from actors.messages.rows import TurnRow
from actors.messages.store import ListTurns
from tests.acceptance.conftest import Api
from tests.admin_wire import AdminWire
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import Die, Done, Finish, Hold, Reply, Role, Text
from tests.harness import Harness, until
from tests.sse import Stream

Boot = Callable[..., Awaitable[Harness]]

DYING = (Role(), Text("streaming from the dead attempt"), Die("rst"))
GOOD = (Role(), Text("Hello "), Text("world"), Finish(), Done())
LIFECYCLE = ("thinking_start", "stream_end", "retry", "stream_discarded", "turn_committed")


async def stream(api: Api, **headers: str) -> Stream:
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    response = await api.session.post(
        f"{api.harness.url}/v1/chat/completions", json=body, headers={**api.headers, **headers}
    )
    return Stream(response)


async def ended(harness: Harness) -> TurnRow:
    async def over() -> TurnRow | None:
        (turn,) = await harness.ask("/store", ListTurns())
        return turn if turn.ended_at is not None else None

    turn: TurnRow = await until(over)
    return turn


@pytest.mark.parametrize("how", ["rst", "fin"])
async def test_api_14_a_death_after_text_is_the_end_of_the_stream_and_of_its_turn(
    either: Boot, client: aiohttp.ClientSession, backend: FakeBackend, how: Any
) -> None:
    harness = await either(**{"turn.retry_base_s": 30.0})
    backend.script(Role(), Text("Hel"), Die(how))
    answer = await stream(Api(client, harness))
    last = (await answer.rest())[-1]
    assert answer.status == 200 and answer.text == "Hel" and answer.done
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
    assert last["error"]["code"] == "turn_failed" and "died" in last["error"]["message"]
    turn = await ended(harness)
    assert (turn.state, turn.reason) == ("cancelled", "stream_died")
    # It was stopped in its backoff, and no other request came.
    assert len(backend.exchanges) == 1


async def test_a_detached_turn_goes_on_after_its_client_was_told_of_the_death(
    api: Api, backend: FakeBackend
) -> None:
    backend.script(*DYING)
    backend.script(*GOOD)
    answer = await stream(api, **{"X-Turnkeep-Detach": "1"})
    last = (await answer.rest())[-1]
    assert answer.text == "streaming from the dead attempt"
    assert "goes on" in last["error"]["message"]
    turn = await ended(api.harness)
    assert (turn.state, turn.text) == ("committed", "Hello world")


async def test_a_death_before_the_first_token_is_seen_by_no_client(api: Api, backend: FakeBackend) -> None:
    backend.script(Role(), Die("rst"), times=2)
    backend.script(*GOOD)
    answer = await stream(api)
    last = (await answer.rest())[-1]
    assert answer.text == "Hello world" and last["choices"][0]["finish_reason"] == "stop"
    assert len(backend.exchanges) == 3


async def test_a_buffered_client_gets_the_final_answer_only(api: Api, backend: FakeBackend) -> None:
    backend.script(*DYING, times=2)
    backend.script(*GOOD)
    status, _, body = await api.say("hi")
    assert status == 200 and body["choices"][0]["message"]["content"] == "Hello world"
    assert len(backend.exchanges) == 3


async def test_a_lane_that_holds_back_shows_no_client_a_death(
    either: Boot, client: aiohttp.ClientSession, backend: FakeBackend
) -> None:
    harness = await either(lane={"hold_back": True})
    backend.script(*DYING)
    backend.script(*GOOD)
    answer = await stream(Api(client, harness))
    last = (await answer.rest())[-1]
    assert answer.text == "Hello world" and last["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("streamed", [True, False])
async def test_another_lanes_answer_is_an_answer_like_any_other(
    tmp_path: Path, client: aiohttp.ClientSession, backend: FakeBackend, streamed: bool
) -> None:
    lanes = [
        {"name": "big", "base_url": backend.url, "model": "big-1"},
        {"name": "small", "base_url": backend.url, "model": "small-1", "order": 1},
    ]
    async with Harness(tmp_path / "data", lane=lanes) as harness:
        backend.script(Reply(401, {}))
        backend.script(*GOOD)
        api = Api(client, harness)
        if streamed:
            answer = await stream(api)
            await answer.rest()
            assert answer.text == "Hello world"
        else:
            _, _, body = await api.say("hi")
            assert body["choices"][0]["message"]["content"] == "Hello world"
        assert [exchange.body["model"] for exchange in backend.exchanges] == ["big-1", "small-1"]


async def test_a_watcher_sees_every_event_of_a_turn_that_dies_and_begins_again(
    api: Api, backend: FakeBackend
) -> None:
    backend.script(*DYING)
    backend.script(Role(), Text("Hel"), Hold("on"), Text("lo"), Finish(), Done())
    harness = api.harness
    async with AdminWire(harness.url, harness.admin_token) as watcher:
        opened = await watcher.ask("sessions.open", chat="main")
        await watcher.ask("sessions.follow", session_id=opened["session"]["session_id"])
        await watcher.ask("sessions.send", chat="main", text="hi")
        events: list[Any] = []
        while not events or events[-1]["data"].get("text") != "Hel":
            events.append(await watcher.event())
        # Somebody who comes now gets all of it, the death included.
        async with AdminWire(harness.url, harness.admin_token) as late:
            await late.ask("sessions.follow", session_id=opened["session"]["session_id"])
            again = [await late.event() for _ in events]
            assert [event["data"] for event in again] == [event["data"] for event in events]
        backend.release("on")
        while events[-1]["data"].get("state") != "idle":
            events.append(await watcher.event())
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["event"].removeprefix("turn.") for event in events]
    assert [kind for kind in kinds if kind in LIFECYCLE] == [
        "thinking_start",
        "stream_end",
        "retry",
        "stream_discarded",
        "thinking_start",
        "stream_end",
        "turn_committed",
    ]
    keep_upto = next(
        event["data"]["keep_upto"] for event in events if event["event"] == "turn.stream_discarded"
    )
    void = [event for event in events if event["event"] == "turn.content" and event["data"]["attempt"] == 1]
    assert void and all(event["seq"] > keep_upto for event in void)
    shown = "".join(
        event["data"]["text"]
        for event in events
        if event["event"] == "turn.content" and event["data"]["attempt"] == 2
    )
    assert shown == events[-1]["data"]["text"] == "Hello"
