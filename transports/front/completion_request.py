"""The body of POST /v1/chat/completions: validated, and told apart into new input and history."""

from typing import Any

import msgspec

from actors.messages.rows import Entry
from transports.front.errors import ApiError, invalid

SYSTEM_ROLES = ("system", "developer")
NOT_PASSED = frozenset(
    {"messages", "model", "stream", "stream_options", "n", "user", "store", "metadata", "system"}
)
"""Members that are ours to read, or that mean something to OpenAI's own service only."""


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for."""

    model: str | None
    stream: bool
    include_usage: bool
    entries: tuple[Entry, ...]
    """The new input: what comes after the last assistant message. Its last one is the user's."""
    seed: tuple[Entry, ...]
    """The history before it, which counts for a chat that has none yet."""
    params: dict[str, Any]
    """What is passed through to the backend, and the leading system text as ``system``."""


def parse(body: bytes) -> CompletionRequest:
    """Read a body. Raises ApiError 400 that names what is wrong."""
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise invalid("The body is not valid JSON.", code="invalid_json") from None
    if not isinstance(raw, dict):
        raise invalid("The body must be a JSON object.", code="invalid_json")
    messages = raw.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("messages must be an array with at least one message.", "messages")
    entries = tuple(_entry(message, f"messages[{n}]") for n, message in enumerate(messages))
    system, rest = _leading_system(entries)
    seed, new = _split(rest)
    if not new or new[-1].role != "user":
        raise invalid("The last message must be the user's.", "messages")
    params = {key: value for key, value in raw.items() if key not in NOT_PASSED and value is not None}
    if system:
        params["system"] = system
    return CompletionRequest(
        model=_optional(raw, "model", str, "a string"),
        stream=bool(_optional(raw, "stream", bool, "true or false")),
        include_usage=_include_usage(raw),
        entries=new,
        seed=seed,
        params=params if _one_choice(raw) else {},
    )


def _optional(raw: dict[str, Any], name: str, kind: type, shown: str) -> Any:
    value = raw.get(name)
    if value is not None and not isinstance(value, kind):
        raise invalid(f"{name} must be {shown}.", name)
    return value


def _include_usage(raw: dict[str, Any]) -> bool:
    options = _optional(raw, "stream_options", dict, "an object") or {}
    return options.get("include_usage") is True


def _one_choice(raw: dict[str, Any]) -> bool:
    n = raw.get("n")
    if n is not None and n != 1:
        raise invalid("n must be 1: a chat has one answer.", "n")
    return True


def _entry(message: Any, where: str) -> Entry:
    if not isinstance(message, dict):
        raise invalid(f"{where} must be an object.", where)
    role = message.get("role")
    if role == "tool" or message.get("tool_calls"):
        raise ApiError(400, "unsupported_content", f"{where}: tool calls are not supported.", param=where)
    if role not in ("user", "assistant", *SYSTEM_ROLES):
        raise invalid(f"{where}.role must be user, assistant, system or developer.", f"{where}.role")
    content = _text(message.get("content"), f"{where}.content")
    return Entry(role="system" if role in SYSTEM_ROLES else role, content=content)


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        return "\n".join(_part(part, f"{where}[{n}]") for n, part in enumerate(content))
    raise invalid(f"{where} must be a string or an array of text parts.", where, code="invalid_content")


def _part(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(kind, str) and kind != "text":
        raise invalid(
            f"{where}: parts of type {kind[:40]!r} are not supported, only text.",
            where,
            code="invalid_content",
        )
    raise invalid(f"{where} must be a text part.", where, code="invalid_content")


def _leading_system(entries: tuple[Entry, ...]) -> tuple[str, tuple[Entry, ...]]:
    count = 0
    while count < len(entries) and entries[count].role == "system":
        count += 1
    return "\n\n".join(entry.content for entry in entries[:count]), entries[count:]


def _split(entries: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """
    Tell history and new input apart.

    Only what comes after the last assistant message is new. Of what is new in a chat without any, the last message is
    the input and those before it are history.
    """
    last = max((n for n, entry in enumerate(entries) if entry.role == "assistant"), default=-1)
    return entries[: last + 1], entries[last + 1 :]
