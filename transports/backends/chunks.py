"""What an OpenAI-compatible backend says in one event: delta, finish, usage or an error in band. No I/O."""

from collections.abc import Mapping
from typing import Any

import msgspec

DONE = b"[DONE]"


class MalformedChunk(Exception):
    """An event is not what the protocol allows."""


class BackendError(msgspec.Struct, frozen=True):
    """An error object, as lenient as backends are with its shape. The message never leaves the adapter."""

    code: str = ""
    """Its code and its type, in lower case."""
    status: int | None = None
    """An HTTP status, where the code is one."""
    message: str = ""


class CallPiece(msgspec.Struct, frozen=True):
    """A piece of a tool call, as a backend numbers and names it, or does not."""

    index: int | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class Chunk(msgspec.Struct, frozen=True):
    """What one event means."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[CallPiece, ...] = ()
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    error: BackendError | None = None


class WireFunction(msgspec.Struct):
    """``tool_calls[].function``; some backends write its arguments out as an object."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class WireCall(msgspec.Struct):
    """``tool_calls[]``."""

    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None


class WireDelta(msgspec.Struct):
    """``choices[].delta``."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[WireCall] | None = None


class WireChoice(msgspec.Struct):
    """``choices[]``."""

    index: int = 0
    delta: WireDelta | None = None
    finish_reason: str | None = None


class WireChunk(msgspec.Struct):
    """A ``chat.completion.chunk``, or an error in its place."""

    choices: list[WireChoice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    object: Any = None
    code: Any = None
    type: Any = None
    message: Any = None


_DECODER = msgspec.json.Decoder(WireChunk)
_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")


def decode(data: bytes) -> Chunk:
    """Return what an event other than ``[DONE]`` means. Raises MalformedChunk."""
    try:
        wire = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedChunk from error
    if wire.error is not None or wire.object == "error":
        return Chunk(error=error_of(wire))
    usage = usage_of(wire.usage) if wire.usage else None
    for choice in wire.choices or ():
        # Only one answer was asked for.
        if choice.index == 0:
            delta = choice.delta or WireDelta()
            return Chunk(
                text=delta.content or "",
                reasoning=delta.reasoning_content or delta.reasoning or "",
                calls=tuple(map(call_piece, delta.tool_calls)) if delta.tool_calls else (),
                finish_reason=choice.finish_reason or None,
                usage=usage,
            )
    return Chunk(usage=usage)


def call_piece(wire: WireCall) -> CallPiece:
    """Return a piece of a tool call."""
    function = wire.function or WireFunction()
    arguments = function.arguments or ""
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    return CallPiece(wire.index, wire.id or "", function.name or "", arguments)


def decode_error(body: bytes) -> BackendError | None:
    """Return the error object that the body of a response is, if it is one."""
    try:
        return decode(body).error
    except MalformedChunk:
        return None


def error_of(wire: WireChunk) -> BackendError:
    """Return the error object of a chunk, wherever the backend puts it."""
    error = wire.error
    if isinstance(error, str):
        return BackendError(message=error)
    fields: Mapping[str, Any] = (
        error if isinstance(error, dict) else {"code": wire.code, "type": wire.type, "message": wire.message}
    )
    code, kind, message = fields.get("code"), fields.get("type"), fields.get("message")
    names = [name.lower() for name in (code, kind) if isinstance(name, str)]
    return BackendError(
        code=" ".join(names),
        status=_status(code),
        message=message if isinstance(message, str) else "",
    )


def usage_of(wire: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the three counts, the total made up where it is missing; None if there are none."""
    counts = {name: wire[name] for name in _USAGE if _is_count(wire.get(name))}
    if not counts:
        return None
    counts.setdefault("total_tokens", sum(counts.values()))
    return counts


def _status(code: Any) -> int | None:
    if isinstance(code, str) and len(code) == 3 and code.isdecimal():
        code = int(code)
    return code if isinstance(code, int) and 400 <= code <= 599 else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
