"""The body of POST /v1/chat/completions: validated, and told apart into new input and history. Pure."""

import re
from typing import Any

import msgspec

from actors.messages.rows import Entry
from transports.front.errors import ApiError, invalid

MAX_MESSAGES = 20_000
"""A body may hold more text than that needs, but not more work for the loop."""
MAX_PARAMS_BYTES = 1 << 20
"""The members that are passed through, together."""

SYSTEM_ROLES = ("system", "developer")
ROLES = ("user", "assistant", *SYSTEM_ROLES)
NOT_PASSED = frozenset(
    {"messages", "model", "stream", "stream_options", "n", "user", "store", "metadata", "system"}
)
"""Members that are ours to read, or that mean something to OpenAI's own service only."""


class Part(msgspec.Struct, frozen=True):
    """One part of a content array."""

    type: str
    text: str | None = None


class Said(msgspec.Struct, frozen=True):
    """One message, as far as it is read."""

    role: str
    content: str | list[Part | str] | None = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"")


class StreamOptions(msgspec.Struct, frozen=True):
    """What a client may choose about a stream."""

    include_usage: bool | None = None


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for."""

    model: str | None
    stream: bool
    include_usage: bool
    entries: tuple[Entry, ...]
    """The new input: what comes after the last assistant message. One of them at least is the user's."""
    seed: tuple[Entry, ...]
    """The history before it, which counts for a chat that has none yet."""
    params: dict[str, Any]
    """What is passed through to the backend, and the leading system text as ``system``."""

    @property
    def said(self) -> str:
        """The user's last message."""
        return next(entry.content for entry in reversed(self.entries) if entry.role == "user")

    def afresh(self, text: str) -> "CompletionRequest":
        """Return the request of somebody who begins anew with ``text``."""
        return msgspec.structs.replace(self, entries=(Entry(role="user", content=text),), seed=())


_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MESSAGES = msgspec.json.Decoder(list[Said])
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "model": msgspec.json.Decoder(str | None),
    "stream": msgspec.json.Decoder(bool | None),
    "stream_options": msgspec.json.Decoder(StreamOptions | None),
    "n": msgspec.json.Decoder(int | None),
}
_ANYTHING = msgspec.json.Decoder()

# Wrong input is met by the first value that does not fit, so that refusing it costs no more than reading it.
_BROKEN = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_PLACE = re.compile(r"(?P<what>.*) - at `\$(?P<where>.*)`", re.DOTALL)


def parse(body: bytes) -> CompletionRequest:
    """Read a body. Raises ApiError 400 that names what is wrong."""
    try:
        members = _MEMBERS.decode(body)
    except msgspec.ValidationError:
        raise invalid("The body must be a JSON object.", code="invalid_json") from None
    except _BROKEN:
        raise invalid("The body is not valid JSON.", code="invalid_json") from None
    known = {name: _decode(name, decoder, members.get(name)) for name, decoder in _DECODERS.items()}
    if known["n"] not in (None, 1):
        raise invalid("n must be 1: a chat has one answer.", "n")
    system, rest = _leading_system(_entries(members.get("messages")))
    seed, new = _split(rest)
    if not any(entry.role == "user" for entry in new):
        raise invalid("There must be a user's message after the last one of the assistant.", "messages")
    params = _params(members)
    if system:
        params["system"] = system
    options = known["stream_options"]
    return CompletionRequest(
        model=known["model"],
        stream=bool(known["stream"]),
        include_usage=options is not None and options.include_usage is True,
        entries=new,
        seed=seed,
        params=params,
    )


def _decode(name: str, decoder: "msgspec.json.Decoder[Any]", value: msgspec.Raw | None) -> Any:
    if value is None:
        return None
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        raise _wrong(name, str(error)) from None
    except _BROKEN:
        raise invalid("The body is not valid JSON.", code="invalid_json") from None


def _wrong(name: str, error: str) -> ApiError:
    found = _PLACE.fullmatch(error)
    where = name + found["where"] if found else name
    what = found["what"] if found else error
    code = "invalid_content" if ".content" in where else "invalid_request"
    return invalid(f"{where}: {what[:1].lower()}{what[1:]}.", where, code=code)


def _params(members: dict[str, msgspec.Raw]) -> dict[str, Any]:
    passed = {name: value for name, value in members.items() if name not in NOT_PASSED}
    if sum(len(memoryview(value)) for value in passed.values()) > MAX_PARAMS_BYTES:
        raise invalid(f"The members beside messages are over {MAX_PARAMS_BYTES} bytes together.")
    decoded = {name: _decode(name, _ANYTHING, value) for name, value in passed.items()}
    return {name: value for name, value in decoded.items() if value is not None}


# Messages


def _entries(value: msgspec.Raw | None) -> tuple[Entry, ...]:
    messages = _decode("messages", _MESSAGES, value)
    if not messages:
        raise invalid("messages must be an array with at least one message.", "messages")
    if len(messages) > MAX_MESSAGES:
        raise invalid(f"There are more than {MAX_MESSAGES} messages.", "messages")
    return tuple(_entry(message, f"messages[{n}]") for n, message in enumerate(messages))


def _entry(message: Said, where: str) -> Entry:
    if message.role == "tool" or _has_calls(message):
        raise ApiError(400, "unsupported_content", f"{where}: tool calls are not supported.", param=where)
    if message.role not in ROLES:
        raise invalid(f"{where}.role must be user, assistant, system or developer.", f"{where}.role")
    role = "system" if message.role in SYSTEM_ROLES else message.role
    return Entry(role=role, content=_text(message.content, f"{where}.content"))


def _has_calls(message: Said) -> bool:
    return bytes(memoryview(message.tool_calls)) not in (b"", b"null", b"[]")


def _text(content: str | list[Part | str] | None, where: str) -> str:
    if isinstance(content, str):
        return content
    if not content:
        raise invalid(f"{where} must be a string or an array of text parts.", where, code="invalid_content")
    return "\n".join(_part(part, f"{where}[{n}]") for n, part in enumerate(content))


def _part(part: Part | str, where: str) -> str:
    if isinstance(part, str):
        return part
    if part.type != "text":
        shown = f"parts of type {part.type[:40]!r} are not supported, only text"
        raise invalid(f"{where}: {shown}.", where, code="invalid_content")
    if part.text is None:
        raise invalid(f"{where}.text must be a string.", f"{where}.text", code="invalid_content")
    return part.text


def _leading_system(entries: tuple[Entry, ...]) -> tuple[str, tuple[Entry, ...]]:
    count = 0
    while count < len(entries) and entries[count].role == "system":
        count += 1
    return "\n\n".join(entry.content for entry in entries[:count]), entries[count:]


def _split(entries: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """Tell history and new input apart: new is what comes after the last assistant message."""
    last = max((n for n, entry in enumerate(entries) if entry.role == "assistant"), default=-1)
    return entries[: last + 1], entries[last + 1 :]
