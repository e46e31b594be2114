"""The bytes of OpenAI's streaming format, as a backend writes them."""

from typing import Any

import msgspec


def chunk(
    delta: dict[str, Any] | None, *, finish_reason: str | None = None, index: int = 0
) -> dict[str, Any]:
    """Return a ``chat.completion.chunk``; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish_reason}]
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "fake-model",
        "choices": choices,
    }


def event(data: Any) -> bytes:
    """Return one server-sent event."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
