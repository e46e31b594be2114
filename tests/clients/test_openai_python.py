"""openai-python as it ships, with its own retries, against the front (API-21)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from actors.messages.rows import TurnState
from actors.messages.store import FindBindings, ListSessions, ListTurns
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import Die, Done, Event, Finish, Reply, Silence, Step, Text, Usage, answer
from tests.fakes.chunks import chunk as wire_chunk
from tests.harness import Harness, until

openai = pytest.importorskip("openai", reason="openai-python is not installed")

HELLO: Any = [{"role": "user", "content": "hello"}]
MODEL = "turnkeep"


@pytest.fixture
def sync(turnkeep: Harness) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{turnkeep.url}/v1", api_key=turnkeep.api_key) as client:
        yield client


@pytest.fixture
async def client(turnkeep: Harness) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI(base_url=f"{turnkeep.url}/v1", api_key=turnkeep.api_key) as client:
        yield client


async def test_api_21_sync_buffered(sync: Any, backend: FakeBackend) -> None:
    backend.script(*answer("hi there"))
    completion = await asyncio.to_thread(
        sync.chat.completions.create, model=MODEL, messages=HELLO, temperature=0.5
    )
    (choice,) = completion.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == (
        "assistant",
        "hi there",
        "stop",
    )
    assert completion.model == MODEL and completion.id.startswith("chatcmpl-")
    assert (
        completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    )
    assert (await backend.request(0)).body["temperature"] == 0.5


async def test_api_21_sync_stream(sync: Any, backend: FakeBackend) -> None:
    backend.script(*answer("one two three"))

    def talk() -> list[Any]:
        with sync.chat.completions.create(model=MODEL, messages=HELLO, stream=True) as stream:
            return list(stream)

    chunks = await asyncio.to_thread(talk)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "one two three"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert len({chunk.id for chunk in chunks}) == 1


async def test_api_21_async_buffered_goes_on_with_the_session_of_its_header(
    client: Any, backend: FakeBackend
) -> None:
    raw = await client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO)
    token = raw.headers["x-session-id"]
    assert raw.parse().choices[0].message.content == "reply to: hello"
    again = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "and now"}],
        extra_headers={"X-Session-Id": token},
    )
    assert again.choices[0].message.content == "reply to: and now"
    sent = (await backend.request(1)).body["messages"]
    assert [message["content"] for message in sent] == ["hello", "reply to: hello", "and now"]


async def test_api_21_async_stream_with_usage(client: Any, backend: FakeBackend) -> None:
    backend.script(*answer("one two", usage=False)[:-1], Usage(3, 5))
    stream = await client.chat.completions.create(
        model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 8
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_api_21_the_stream_helper_builds_the_whole_answer(client: Any, backend: FakeBackend) -> None:
    backend.script(*answer("one two three"))
    async with client.chat.completions.stream(model=MODEL, messages=HELLO) as stream:
        kinds = {event.type async for event in stream}
        final = await stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.content == "one two three"


TOOL: Any = {
    "type": "function",
    "function": {
        "name": "add",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}


def calling(*pieces: Any) -> tuple[Step, ...]:
    return (
        *(Event(wire_chunk({"tool_calls": [piece]})) for piece in pieces),
        Finish("tool_calls"),
        Usage(),
        Done(),
    )


TWO_CALLS = calling(
    {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": ""}},
    {"index": 0, "function": {"arguments": '{"a": 1,'}},
    {"index": 0, "function": {"arguments": ' "b": 2}'}},
    {
        "index": 1,
        "id": "c2",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": 3, "b": 4}'},
    },
)


@pytest.mark.parametrize("streamed", [True, False])
async def test_api_19_an_agents_loop_over_its_tools(
    client: Any, backend: FakeBackend, streamed: bool
) -> None:
    backend.script(*TWO_CALLS, when="hello")
    messages, request = (
        list(HELLO),
        {"model": MODEL, "tools": [TOOL], "extra_headers": {"X-Session-Id": "c1"}},
    )
    if streamed:
        async with client.chat.completions.stream(messages=messages, **request) as stream:
            done = [event async for event in stream if event.type == "tool_calls.function.arguments.done"]
            completion = await stream.get_final_completion()
        assert [event.arguments for event in done] == ['{"a": 1, "b": 2}', '{"a": 3, "b": 4}']
    else:
        completion = await client.chat.completions.create(messages=messages, **request)
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    messages.append(choice.message)
    for call in choice.message.tool_calls:
        numbers = json.loads(call.function.arguments)
        messages.append(
            {"role": "tool", "tool_call_id": call.id, "content": str(numbers["a"] + numbers["b"])}
        )
    backend.script(*answer("3 and 7"))
    final = await client.chat.completions.create(messages=messages, **request)
    assert final.choices[0].message.content == "3 and 7"
    sent = (await backend.request(1)).body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"]
    assert [(message["tool_call_id"], message["content"]) for message in sent[2:]] == [
        ("c1", "3"),
        ("c2", "7"),
    ]
    assert [call["id"] for call in sent[1]["tool_calls"]] == ["c1", "c2"]


async def test_api_21_models(client: Any) -> None:
    assert [model.id async for model in client.models.list()] == ["turnkeep", "fake"]
    assert (await client.models.retrieve("fake")).owned_by == "turnkeep"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nope")


async def test_api_13_one_call_with_its_default_retries_is_one_turn(
    client: Any, turnkeep: Harness, backend: FakeBackend
) -> None:
    backend.script(Reply(400), times=5)
    with pytest.raises(openai.InternalServerError) as raised:
        await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert raised.value.code == "turn_failed"
    (turn,) = await turnkeep.ask("/store", ListTurns())
    assert turn.state is TurnState.FAILED and len(backend.exchanges) == 1
    (session,) = await turnkeep.ask("/store", ListSessions())
    token = raised.value.response.headers["x-session-id"]
    (binding,) = await turnkeep.ask("/store", FindBindings(peer="api:default", session_key=token))
    assert binding.session_id == session.session_id == turn.session_id


async def test_api_13_a_turn_that_was_stopped_is_not_asked_for_again(
    client: Any, turnkeep: Harness, backend: FakeBackend
) -> None:
    backend.script(Text("Hel"), Silence())
    first = asyncio.ensure_future(
        client.chat.completions.create(model=MODEL, messages=HELLO, extra_headers={"X-Session-Id": "c1"})
    )
    await backend.request(0)
    await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "/new"}],
        extra_headers={"X-Session-Id": "c1"},
    )
    with pytest.raises(openai.ConflictError, match="new session"):
        await first
    assert len(await turnkeep.ask("/store", ListTurns())) == len(backend.exchanges) == 1


@pytest.mark.parametrize("hermes", [False, True])
async def test_api_14_a_stream_that_fails_raises(boot: Any, backend: FakeBackend, hermes: bool) -> None:
    harness = await boot(**{"server.compat_hermes": hermes})
    backend.script(Text("Half"), Die("rst"))
    async with openai.AsyncOpenAI(base_url=f"{harness.url}/v1", api_key=harness.api_key) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        texts: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                texts.append(chunk.choices[0].delta.content or "")

        with pytest.raises(openai.APIError) as raised:
            await read()
    assert "".join(texts) == "Half" and raised.value.code == "turn_failed"
    assert len(backend.exchanges) == 1


async def test_api_16_closing_a_stream_stops_its_turn(
    client: Any, turnkeep: Harness, backend: FakeBackend
) -> None:
    backend.script(Text("Hel"), Silence())
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    await stream.close()
    await asyncio.wait_for((await backend.request(0)).connection_closed.wait(), 10)

    async def cancelled() -> bool:
        (turn,) = await turnkeep.ask("/store", ListTurns())
        return bool(turn.state is TurnState.CANCELLED and turn.reason == "client_gone")

    await until(cancelled)


async def test_errors_are_the_classes_that_callers_know(client: Any, turnkeep: Harness) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": {"a": 1}}])
    assert (raised.value.code, raised.value.param) == ("invalid_content", "messages[0].content")
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(model="nope", messages=HELLO)
    assert missing.value.code == "model_not_found"
    stranger = client.with_options(api_key="wrong")
    with pytest.raises(openai.AuthenticationError):
        await stranger.chat.completions.create(model=MODEL, messages=HELLO)
