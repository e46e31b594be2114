"""What events mean, in all the shapes that backends give them."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.backends.chunks import BackendError, CallPiece, Chunk, MalformedChunk, decode, decode_error


def meaning(wire: object) -> Chunk:
    return decode(msgspec.json.encode(wire))


def choice(delta: object, **fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, **fields}]}


@pytest.mark.parametrize(
    ("wire", "chunk"),
    [
        (choice({"role": "assistant", "content": ""}), Chunk()),
        (choice({"content": "a"}), Chunk(text="a")),
        (choice({"content": None}), Chunk()),
        (choice({"content": "a", "role": "assistant"}), Chunk(text="a")),
        (choice({"reasoning_content": "r"}), Chunk(reasoning="r")),
        (choice({"reasoning": "r"}), Chunk(reasoning="r")),
        (choice({"tool_calls": [{"index": 0}]}), Chunk(calls=(CallPiece(0),))),
        (choice({"tool_calls": None}), Chunk()),
        (choice({"tool_calls": []}), Chunk()),
        (
            choice({"tool_calls": [{"index": 1, "id": "a", "function": {"name": "f", "arguments": "{"}}]}),
            Chunk(calls=(CallPiece(1, "a", "f", "{"),)),
        ),
        (
            choice({"content": "x", "tool_calls": [{"function": {"arguments": {"n": 1}}}, {"id": None}]}),
            Chunk(text="x", calls=(CallPiece(arguments='{"n":1}'), CallPiece())),
        ),
        (choice({}, finish_reason="stop"), Chunk(finish_reason="stop")),
        (choice({}, finish_reason=""), Chunk()),
        (choice(None, finish_reason="stop"), Chunk(finish_reason="stop")),
        ({"choices": [{"finish_reason": "stop"}]}, Chunk(finish_reason="stop")),
        ({"choices": []}, Chunk()),
        ({"choices": None}, Chunk()),
        ({}, Chunk()),
        ({"choices": [{"index": 1, "delta": {"content": "other"}}]}, Chunk()),
        (
            {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
            Chunk(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
        ),
        (
            {"usage": {"prompt_tokens": 1, "completion_tokens": 2, "details": {"x": 1}}},
            Chunk(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
        ),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": True, "total_tokens": 1.5}}, Chunk()),
        ({"usage": None}, Chunk()),
    ],
)
def test_a_chunk_means(wire, chunk):
    assert meaning(wire) == chunk


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        (
            {"error": {"message": "M", "type": "Server_Error", "code": None}},
            BackendError(code="server_error", message="M"),
        ),
        (
            {"error": {"message": "M", "code": "rate_limit_exceeded", "type": "requests"}},
            BackendError(code="rate_limit_exceeded requests", message="M"),
        ),
        ({"error": {"message": "M", "code": 502}}, BackendError(status=502, message="M")),
        ({"error": {"code": "429"}}, BackendError(code="429", status=429)),
        ({"error": {"code": 7}}, BackendError()),
        ({"error": {"code": True, "message": 5}}, BackendError()),
        ({"error": "M"}, BackendError(message="M")),
        ({"error": ["what"]}, BackendError()),
        (
            {"object": "error", "message": "M", "type": "BadRequestError", "code": 400},
            BackendError(code="badrequesterror", status=400, message="M"),
        ),
        (
            {"choices": [{"delta": {"content": ""}, "finish_reason": "error"}], "error": {"message": "M"}},
            BackendError(message="M"),
        ),
    ],
)
def test_an_error_is_found_wherever_it_stands(wire, error):
    assert meaning(wire) == Chunk(error=error)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"nonsense",
        b"[]",
        b"null",
        b'{"choices": 5}',
        b'{"choices": [null]}',
        b'{"choices": [{"index": "0"}]}',
        b'{"choices": [{"delta": {"content": 5}}]}',
        b'{"choices": [{"delta": {"content": "\xff"}}]}',
        b'{"choices": [{"delta": {"content": "\\ud800"}}]}',
        b'{"usage": []}',
        b'{"usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}",
        b'{"error": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"skipped": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_chunk_is_malformed(data):
    with pytest.raises(MalformedChunk):
        decode(data)


@given(st.binary(max_size=100))
def test_any_bytes_mean_something_or_are_malformed(data):
    with contextlib.suppress(MalformedChunk):
        decode(data)


def test_a_body_is_an_error_or_is_none():
    assert decode_error(b'{"error": {"message": "M"}}') == BackendError(message="M")
    assert decode_error(b'{"detail": "M"}') is None
    assert decode_error(b"<html>") is None
