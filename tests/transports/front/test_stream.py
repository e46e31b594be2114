"""Responses by the event: a test plays the session, so that each moment can be chosen."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from actors.messages.lane import ToolCallDelta
from actors.messages.rows import TurnState
from actors.messages.session import AttachWatcher, DetachWatcher, StopTurn, TurnOutcome
from actors.messages.store import EndTurn, ListTurns, TakeTurn
from actors.messages.turn import (
    Cancelled,
    Content,
    Overflow,
    Retry,
    Snapshot,
    StreamDiscarded,
    StreamEnd,
    ThinkingStart,
    ToolCalls,
    TurnCommitted,
    TurnError,
    TurnStart,
)
from tests.harness import until
from tests.sse import Stream
from tests.transports.front.box import HEADERS, FrontBox
from tests.transports.front.test_feed import RunPhase, StateChange, event, idle, row

LONG = 60.0


class Play:
    """One request under way, and the watcher that its turn would tell."""

    def __init__(
        self, box: FrontBox, client: aiohttp.ClientSession, headers: dict[str, str] | None = None, **body: Any
    ) -> None:
        self.box = box
        self.client = client
        self.headers = headers
        self.body = {"messages": [{"role": "user", "content": "hi"}], **body}

    async def __aenter__(self) -> "Play":
        before = len(self.box.told(AttachWatcher))
        self.posting = asyncio.ensure_future(
            self.client.post(f"{self.box.url}/v1/chat/completions", json=self.body, headers=self.headers)
        )
        await until(lambda: len(self.box.told(AttachWatcher)) > before)
        self.watcher = self.box.told(AttachWatcher)[before].watcher
        return self

    async def __aexit__(self, *_: object) -> None:
        self.posting.cancel()
        await asyncio.gather(self.posting, return_exceptions=True)

    def tell(self, *messages: Any) -> None:
        for message in messages:
            self.watcher.tell(message)

    async def stream(self) -> Stream:
        return Stream(await self.posting)

    async def answer(self) -> Any:
        response = await self.posting
        return response.status, response.headers, await response.json()


@pytest.fixture
async def client() -> Any:
    async with aiohttp.ClientSession(headers=HEADERS, timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


def said(text: str, gen: int = 1, **fields: Any) -> Any:
    return event(Content, gen, text=text, **fields)


def failed(category: str = "connect", text: str = "Sorry.") -> tuple[Any, ...]:
    return (
        event(TurnError, category=category, error_class="X", text=text),
        event(StateChange, state=RunPhase.ERROR, text=text),
    )


DONE = (event(TurnCommitted, finish_reason="stop"), idle())


def called(arguments: str, **fields: Any) -> Any:
    return event(ToolCalls, calls=(ToolCallDelta(index=0, arguments=arguments, **fields),))


CALLED = (called("{", call_id="a", name="f"), called("}"))
ASKED = (event(TurnCommitted, finish_reason="tool_calls"), idle(""))


async def test_api_19_tool_calls_come_as_deltas(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        play.tell(event(TurnStart), said("So"), *CALLED, *ASKED)
        stream = await play.stream()
        await stream.rest()
        deltas = [chunk["choices"][0]["delta"] for chunk in stream.chunks if chunk["choices"]]
        assert [delta["tool_calls"] for delta in deltas if "tool_calls" in delta] == [
            [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}],
            [{"index": 0, "function": {"arguments": "}"}}],
        ]
        assert stream.text == "So" and stream.done
        assert stream.chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("end", "asked"), [(ASKED, True), ((event(TurnCommitted, finish_reason="length"), idle("")), False)]
)
async def test_trn_55_a_whole_answer_has_its_calls_unless_they_were_cut_off(
    tmp_path: Path, client: Any, end: Any, asked: bool
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client) as play:
        play.tell(event(TurnStart), *CALLED, *end)
        status, _, body = await play.answer()
        (choice,) = body["choices"]
        call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        assert status == 200
        assert choice["message"].get("tool_calls") == ([call] if asked else None)
        assert choice["finish_reason"] == ("tool_calls" if asked else "length")


async def test_calls_of_a_dead_attempt_are_no_part_of_a_whole_answer(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client) as play:
        play.tell(event(TurnStart), *CALLED, event(StreamDiscarded, keep_upto=0), *CALLED[:1], *ASKED)
        _, _, body = await play.answer()
        (call,) = body["choices"][0]["message"]["tool_calls"]
        assert call["function"]["arguments"] == "{"


async def test_a_death_after_a_tool_call_was_sent_is_the_end_of_its_stream(
    tmp_path: Path, client: Any
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        play.tell(event(TurnStart), *CALLED, event(Retry, error_class="X", n=1, of=2, delay_s=0.0))
        stream = await play.stream()
        await stream.rest()
        assert stream.chunks[-1]["error"]["code"] == "turn_failed" and stream.done


async def test_what_was_shown_before_the_watcher_came_is_content(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        play.tell(event(Snapshot, text="Hel"), said("lo"), *DONE)
        stream = await play.stream()
        await stream.rest()
        assert stream.text == "Hello" and stream.done


@pytest.mark.parametrize(("category", "status"), [("connect", 500), ("timeout", 504), ("auth_refused", 500)])
@pytest.mark.parametrize("streamed", [True, False])
async def test_api_2_a_turn_that_fails_before_its_first_token_is_a_status(
    tmp_path: Path, client: Any, category: str, status: int, streamed: bool
) -> None:
    async with (
        FrontBox(tmp_path, early_error_s=LONG) as box,
        Play(box, client, stream=streamed) as play,
    ):
        play.tell(event(TurnStart), *failed(category))
        got, headers, body = await play.answer()
        assert (got, body["error"]["code"], body["error"]["message"]) == (status, "turn_failed", "Sorry.")
        assert headers["X-Session-Id"] == body["error"]["session_id"]
        assert headers["X-Should-Retry"] == "false" and "Retry-After" not in headers


async def test_api_3_a_partial_answer_of_a_buffered_turn_is_no_answer(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client) as play:
        play.tell(said("Hel"), *failed())
        status, _, body = await play.answer()
        assert (status, body["error"]["code"]) == (500, "turn_failed") and "choices" not in body


@pytest.mark.parametrize("hermes", [True, False])
async def test_api_14_a_failure_after_the_first_token_is_in_band(
    tmp_path: Path, client: Any, hermes: bool
) -> None:
    async with FrontBox(tmp_path, compat_hermes=hermes) as box, Play(box, client, stream=True) as play:
        play.tell(said("Hel"), *failed())
        stream = await play.stream()
        last = (await stream.rest())[-1]
        assert stream.status == 200 and stream.text == "Hel" and stream.done
        assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
        assert last["error"]["code"] == "turn_failed"
        assert last["error"]["session_id"] == stream.headers["X-Session-Id"]
        known = {"failed": True, "completed": False, "partial": True, "error_code": "turn_failed"}
        assert last.get("hermes") == (known if hermes else None)


async def test_api_14_a_late_failure_without_a_token_is_not_partial(tmp_path: Path, client: Any) -> None:
    async with (
        FrontBox(tmp_path, compat_hermes=True, early_error_s=0.01) as box,
        Play(box, client, stream=True) as play,
    ):
        stream = await play.stream()
        play.tell(*failed())
        assert (await stream.rest())[-1]["hermes"]["partial"] is False


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_turn_that_somebody_stopped_does_not_look_whole(
    tmp_path: Path, client: Any, streamed: bool
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=streamed) as play:
        play.tell(said("Hel"), event(Cancelled, by="user"), idle("Hel"))
        if streamed:
            error = (await (await play.stream()).rest())[-1]["error"]
        else:
            status, headers, body = await play.answer()
            error = body["error"]
            assert status == 409 and headers["X-Should-Retry"] == "false"
        assert error["code"] == "turn_cancelled"
        assert box.told(StopTurn) == []


RETRY = event(Retry, seq=5, error_class="ReadError", n=1, of=2, delay_s=30.0)
VOID = event(StreamDiscarded, seq=6, keep_upto=1)


@pytest.mark.parametrize(
    "death", [(RETRY,), (event(Overflow, seq=5),), (VOID, said("Hello", seq=7, attempt=2))]
)
@pytest.mark.parametrize("detached", [False, True])
async def test_api_14_a_death_ends_a_stream_that_has_sent_text_of_it(
    tmp_path: Path, client: Any, death: Any, detached: bool
) -> None:
    headers = {"X-Turnkeep-Detach": "1"} if detached else {}
    async with (
        FrontBox(tmp_path, compat_hermes=True) as box,
        Play(box, client, headers=headers, stream=True) as play,
    ):
        play.tell(said("Hel", seq=4), event(StreamEnd, seq=4), *death)
        stream = await play.stream()
        last = (await stream.rest())[-1]
        assert stream.text == "Hel" and stream.done
        assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
        assert last["error"]["code"] == "turn_failed" and last["hermes"]["partial"] is True
        assert ("goes on" in last["error"]["message"]) is detached
        await until(lambda: box.told(DetachWatcher))
        assert [stop.by for stop in box.told(StopTurn)] == ([] if detached else ["stream_died"])


async def test_a_death_before_the_first_text_is_no_matter_to_a_stream(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        play.tell(event(TurnStart), RETRY, VOID, event(ThinkingStart, seq=7), said("Hello", seq=8), *DONE)
        stream = await play.stream()
        last = (await stream.rest())[-1]
        assert stream.text == "Hello" and last["choices"][0]["finish_reason"] == "stop"
        assert box.told(StopTurn) == []


async def test_a_stream_whose_text_is_void_tells_the_failure_that_comes_of_it(
    tmp_path: Path, client: Any
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        play.tell(said("Hel", seq=4), VOID, *failed(text="Sorry."))
        stream = await play.stream()
        assert (await stream.rest())[-1]["error"]["message"] == "Sorry."
        await box.system.idle()
        assert box.told(StopTurn) == []


async def test_a_stream_whose_text_is_void_never_ends_well(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        play.tell(said("Hel", seq=4), VOID, *DONE)
        stream = await play.stream()
        assert (await stream.rest())[-1]["error"]["code"] == "turn_failed" and stream.done
        await box.system.idle()
        assert box.told(StopTurn) == []


@pytest.mark.parametrize("announced", [(RETRY, VOID), (event(Overflow, seq=5), VOID), (VOID,)])
async def test_a_buffered_answer_has_nothing_of_a_dead_attempt(
    tmp_path: Path, client: Any, announced: Any
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client) as play:
        play.tell(said("Hel", seq=4), *announced, said("Good", seq=8), said("bye", seq=9), *DONE)
        status, _, body = await play.answer()
        assert status == 200 and body["choices"][0]["message"]["content"] == "Goodbye"
        assert box.told(StopTurn) == []


async def test_a_stream_never_mixes_two_runs(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        play.tell(said("Hel"), said("Hello", gen=2))
        stream = await play.stream()
        last = (await stream.rest())[-1]
        assert stream.text == "Hel" and last["error"]["code"] == "turn_failed"
        assert box.told(StopTurn) == []


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_stored_answer_of_another_run_is_told_to_who_has_sent_nothing(
    tmp_path: Path, client: Any, streamed: bool
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=streamed) as play:
        turn = row(TurnState.COMMITTED, turn_gen=2, text="Hello")
        play.tell(said("Bye"), TurnOutcome(inbox_id="i", turn=turn))
        if streamed:
            stream = await play.stream()
            assert (await stream.rest())[-1]["error"]["code"] == "turn_failed" and stream.text == "Bye"
        else:
            _, _, body = await play.answer()
            assert body["choices"][0]["message"]["content"] == "Hello"


async def test_a_buffered_answer_is_that_of_the_last_run(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client) as play:
        play.tell(
            said("Hel"), said("Hello", gen=2), event(TurnCommitted, 2, finish_reason="stop"), idle(gen=2)
        )
        _, _, body = await play.answer()
        assert body["choices"][0]["message"]["content"] == "Hello"


async def test_the_outcome_of_a_turn_that_was_over_before_is_the_answer(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=True) as play:
        turn = row(TurnState.COMMITTED, text="Hello", reason="length")
        play.tell(TurnOutcome(inbox_id="i", turn=turn))
        stream = await play.stream()
        chunks = await stream.rest()
        assert stream.text == "Hello" and chunks[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("state", "reason", "text", "status"),
    [(TurnState.COMMITTED, "length", "Hello", 200), (TurnState.CANCELLED, "user", None, 409)],
)
async def test_an_end_whose_manner_was_missed_is_read_from_the_store(
    tmp_path: Path, client: Any, state: TurnState, reason: str, text: str | None, status: int
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client) as play:
        (turn,) = await box.ask("/store", ListTurns())
        taken = await box.ask("/store", TakeTurn(session_id=turn.session_id, turn_id="x", at=1.0))
        end = EndTurn(
            turn_id=turn.turn_id, turn_gen=taken.turn_gen, state=state, reason=reason, text=text, at=2.0
        )
        await box.ask("/store", end)
        play.tell(event(Snapshot, text="Hel"), idle("Hello"))
        got, _, body = await play.answer()
        assert got == status
        if status == 200:
            (choice,) = body["choices"]
            assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello", "length")


async def test_an_end_that_not_even_the_store_knows_is_a_failure(tmp_path: Path, client: Any) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client) as play:
        play.tell(idle("Hello"))
        status, _, body = await play.answer()
        assert (status, body["error"]["code"]) == (500, "turn_failed")


async def test_api_15_a_silent_stream_gets_comments_and_is_given_up_with_its_budget(
    tmp_path: Path, client: Any
) -> None:
    async with (
        FrontBox(tmp_path, early_error_s=0.01, keepalive_s=0.02, request_s=0.5) as box,
        Play(box, client, stream=True) as play,
    ):
        stream = await play.stream()
        last = (await stream.rest())[-1]
        assert stream.comments > 2 and last["error"]["code"] == "turn_failed"
        await until(lambda: box.told(StopTurn))


async def test_no_comment_comes_before_its_time(tmp_path: Path, client: Any) -> None:
    async with (
        FrontBox(tmp_path, early_error_s=0.01, keepalive_s=LONG) as box,
        Play(box, client, stream=True) as play,
    ):
        stream = await play.stream()
        play.tell(said("Hi"), *DONE)
        await stream.rest()
        assert stream.comments == 0 and stream.text == "Hi"


async def test_api_17_who_reads_too_slowly_loses_the_stream_and_not_the_turn(
    tmp_path: Path, client: Any
) -> None:
    async with FrontBox(tmp_path, stream_queue=8) as box, Play(box, client, stream=True) as play:
        # Nobody gets to run between these: more than the queue holds is there at once.
        play.tell(*[said(f"{n} ") for n in range(9)], *DONE)
        stream = await play.stream()
        last = (await stream.rest())[-1]
        assert stream.text == "".join(f"{n} " for n in range(8))
        assert last["error"]["code"] == "slow_reader" and stream.done
        assert box.told(StopTurn) == []


async def test_api_17_a_client_that_does_not_read_at_all_is_let_go_after_its_budget(
    tmp_path: Path,
) -> None:
    async with FrontBox(tmp_path, request_s=0.3, linger_s=0.1) as box:
        one = await box.connect()
        one.writer.transport.pause_reading()
        one.post(messages=[{"role": "user", "content": "hi"}], stream=True)
        await until(lambda: box.told(AttachWatcher))
        watcher = box.told(AttachWatcher)[0].watcher
        # More than the buffers of both sockets take.
        watcher.tell(said("x" * 32_000_000))
        await until(lambda: box.told(StopTurn))
        assert len(box.told(DetachWatcher)) == 1
        other = await box.connect()
        other.begin(path="/nope", Content_Length=0)
        assert (await other.answer())[0] == 404


@pytest.mark.parametrize("streamed", [True, False])
async def test_nothing_is_asked_of_the_session_once_its_turn_is_over(
    tmp_path: Path, client: Any, streamed: bool
) -> None:
    async with FrontBox(tmp_path) as box, Play(box, client, stream=streamed) as play:
        play.tell(said("Hi"), *DONE)
        response = await play.posting
        await response.read()
        await box.system.idle()
        assert [type(message) for message in box.heard] == [AttachWatcher]
