"""Bodies of completions: whole, and in chunks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import ToolCallDelta
from actors.messages.rows import ToolCall
from transports.front.chunks import DONE, KEEPALIVE, Chunks, Head, usage_object, whole

HEAD = Head(id="chatcmpl-1", created=17, model='m"')
COMMON = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 17, "model": 'm"'}


def events(raw: bytes) -> list[Any]:
    assert raw.endswith(b"\n\n")
    lines = raw.decode().removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.fixture
def chunks() -> Chunks:
    return Chunks(HEAD)


def test_each_chunk_has_one_choice_and_the_same_head(chunks: Chunks) -> None:
    for raw, delta, reason in (
        (chunks.role(), {"role": "assistant", "content": ""}, None),
        (chunks.content('a"\n\x00\u2028é'), {"content": 'a"\n\x00\u2028é'}, None),
        (chunks.finish("length"), {}, "length"),
    ):
        (chunk,) = events(raw)
        assert chunk == {**COMMON, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def test_the_usage_chunk_has_no_choice(chunks: Chunks) -> None:
    (chunk,) = events(chunks.usage({"prompt_tokens": 1, "completion_tokens": 2}))
    assert chunk == {
        **COMMON,
        "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


def test_a_failure_ends_the_stream_in_band(chunks: Chunks) -> None:
    raw = chunks.failure("Broke off.", "turn_failed", "c1", status=500, partial=True, hermes=False)
    (chunk,) = events(raw)
    assert chunk == {
        **COMMON,
        "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
        "error": {
            "message": "Broke off.",
            "type": "server_error",
            "param": None,
            "code": "turn_failed",
            "session_id": "c1",
        },
    }


@pytest.mark.parametrize("partial", [True, False])
def test_hermes_own_client_is_told_what_its_parser_wants(chunks: Chunks, partial: bool) -> None:
    raw = chunks.failure("x", "turn_failed", "c1", status=500, partial=partial, hermes=True)
    assert events(raw)[0]["hermes"] == {
        "failed": True,
        "completed": False,
        "partial": partial,
        "error_code": "turn_failed",
    }


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50), st.integers(0, 3000))
def test_texts_come_through_whole_in_payloads_of_64_kib_at_most(text: str, times: int) -> None:
    text *= times
    raw = Chunks(HEAD).content(text)
    assert all(len(event) <= 65_536 for event in raw.split(b"\n\n"))
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in events(raw)) == text


def test_the_longest_escapes_fit_too() -> None:
    assert max(map(len, Chunks(HEAD).content("\x01" * 100_000).split(b"\n\n"))) <= 65_536


def test_marks_of_the_protocol() -> None:
    assert KEEPALIVE.startswith(b":") and KEEPALIVE.endswith(b"\n\n") and DONE == b"data: [DONE]\n\n"


def test_a_whole_answer() -> None:
    answer = json.loads(whole(HEAD, "yes", "stop", None))
    assert answer["object"] == "chat.completion" and answer["id"] == "chatcmpl-1"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "yes"},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ]
    assert answer["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_a_total_that_the_backend_told_is_kept() -> None:
    assert usage_object({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 9})["total_tokens"] == 9


def test_api_19_pieces_of_tool_calls_are_deltas(chunks: Chunks) -> None:
    raw = chunks.tool_calls(
        [
            ToolCallDelta(index=0, call_id="a", name="f", arguments=""),
            ToolCallDelta(index=0, arguments='{"n"'),
            ToolCallDelta(index=1, call_id="b"),
            ToolCallDelta(index=1, name="g", arguments="{}"),
        ]
    )
    assert [chunk["choices"][0]["delta"]["tool_calls"] for chunk in events(raw)] == [
        [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"n"'}}],
        [{"index": 1, "id": "b", "type": "function", "function": {"arguments": ""}}],
        [{"index": 1, "function": {"name": "g", "arguments": "{}"}}],
    ]
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in events(raw))


def test_long_arguments_come_in_several_chunks_that_are_small_enough(chunks: Chunks) -> None:
    arguments = '"\x01' * 20_000
    raw = chunks.tool_calls([ToolCallDelta(index=2, call_id="a" * 512, name="f" * 512, arguments=arguments)])
    pieces = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in events(raw)]
    assert "".join(piece["function"]["arguments"] for piece in pieces) == arguments
    assert [piece.get("id") for piece in pieces] == ["a" * 512, *[None] * (len(pieces) - 1)]
    assert {piece["index"] for piece in pieces} == {2}
    assert max(map(len, raw.split(b"\n\n"))) <= 64 << 10


@pytest.mark.parametrize(("text", "content"), [("so", "so"), ("", None)])
def test_api_19_a_whole_answer_has_its_tool_calls(text: str, content: str | None) -> None:
    calls = [ToolCall(call_id="a", name="f", arguments="{")]
    (choice,) = json.loads(whole(HEAD, text, "tool_calls", None, calls))["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}],
    }
