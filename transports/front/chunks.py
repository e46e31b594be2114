"""The bodies of chat completions, whole and in chunks (API-15): pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from actors.messages.lane import ToolCallDelta
from actors.messages.rows import ToolCall
from transports.front.errors import error_object

encode = msgspec.json.Encoder().encode

KEEPALIVE = b": keepalive\n\n"
DONE = b"data: [DONE]\n\n"
MAX_TEXT = 8192
"""Characters of one chunk: escaped to their longest form they stay under 64 KiB."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What every part of one completion says of it."""

    id: str
    created: int
    model: str


class Chunks:
    """The chunks of one stream: one id, one creation time, one model."""

    def __init__(self, head: Head) -> None:
        self._head = {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        }
        opened = encode({**self._head, "choices": []}).removesuffix(b"]}")
        # A content chunk is the hot one: all but its text is the same each time.
        self._before = b"data: " + opened + b'{"index":0,"delta":{"content":'
        self._after = b'},"finish_reason":null}]}\n\n'

    def role(self) -> bytes:
        """Return the first chunk."""
        return self._choice({"role": "assistant", "content": ""}, None)

    def content(self, text: str) -> bytes:
        """Return the chunks of a piece of text: one, unless it is long."""
        if len(text) <= MAX_TEXT:
            return self._before + encode(text) + self._after
        return b"".join(self.content(text[at : at + MAX_TEXT]) for at in range(0, len(text), MAX_TEXT))

    def tool_calls(self, deltas: Iterable[ToolCallDelta]) -> bytes:
        """Return the chunks of pieces of tool calls: one for each, unless its arguments are long."""
        return b"".join(
            self._choice({"tool_calls": [piece]}, None) for delta in deltas for piece in _call_pieces(delta)
        )

    def finish(self, reason: str) -> bytes:
        """Return the last chunk of a good stream."""
        return self._choice({}, reason)

    def usage(self, usage: dict[str, int] | None) -> bytes:
        """Return the chunk without choices that a client gets who asked for it."""
        return _event({**self._head, "choices": [], "usage": usage_object(usage)})

    def failure(
        self, message: str, code: str, session_id: str | None, *, status: int, partial: bool, hermes: bool
    ) -> bytes:
        """Return the last chunk of a stream that failed (API-14); ``status`` is what it would have been before."""
        chunk: dict[str, Any] = {
            **self._head,
            "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
            "error": error_object(message, status, code, session_id=session_id),
        }
        if hermes:
            chunk["hermes"] = {"failed": True, "completed": False, "partial": partial, "error_code": code}
        return _event(chunk)

    def _choice(self, delta: dict[str, Any], reason: str | None) -> bytes:
        return _event({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def _call_pieces(delta: ToolCallDelta) -> Iterator[dict[str, Any]]:
    """Return a piece of a tool call as clients expect it: what it is comes before any of its arguments."""
    arguments = delta.arguments
    begin: dict[str, Any] = {} if delta.call_id is None else {"id": delta.call_id, "type": "function"}
    name = {} if delta.name is None else {"name": delta.name}
    yield {"index": delta.index, **begin, "function": {**name, "arguments": arguments[:MAX_TEXT]}}
    for at in range(MAX_TEXT, len(arguments), MAX_TEXT):
        yield {"index": delta.index, "function": {"arguments": arguments[at : at + MAX_TEXT]}}


def whole(
    head: Head,
    text: str,
    reason: str,
    usage: dict[str, int] | None,
    tool_calls: Sequence[ToolCall] = (),
) -> bytes:
    """Return the body of a buffered answer."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["content"] = text or None
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in tool_calls
        ]
    return encode(
        {
            "id": head.id,
            "object": "chat.completion",
            "created": head.created,
            "model": head.model,
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": reason,
                    "logprobs": None,
                }
            ],
            "usage": usage_object(usage),
        }
    )


def usage_object(usage: dict[str, int] | None) -> dict[str, int]:
    """Return the three numbers that clients expect; 0 where the backend told none."""
    known = usage or {}
    prompt, completion = known.get("prompt_tokens", 0), known.get("completion_tokens", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": known.get("total_tokens", prompt + completion),
    }


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + encode(chunk) + b"\n\n"
