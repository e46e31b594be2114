"""Bodies of completions: whole, and in chunks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
