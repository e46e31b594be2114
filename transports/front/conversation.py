"""The messages of a request: validated, and told apart into new input and history. Pure."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.lane import Capability
from actors.messages.rows import Entry, ToolCall
from transports.front.errors import ApiError, invalid

MAX_MESSAGES = 20_000
"""A body may hold more text than that needs, but not more work for the loop."""

SYSTEM_ROLES = ("system", "developer")
ROLES = ("user", "assistant", "tool", *SYSTEM_ROLES)

Places = dict[Capability, str]
"""What a lane has to take for a conversation, and the place of the first message that needs it."""


class ImageUrl(msgspec.Struct, frozen=True):
    """Where an image is, as a URL or as ``data:``."""

    url: str


class Part(msgspec.Struct, frozen=True):
    """One part of a content array."""

    type: str
    text: str | None = None
    image_url: ImageUrl | None = None
    file: dict[str, Any] | None = None


class SaidFunction(msgspec.Struct, frozen=True):
    """What is called."""

    name: str
    arguments: str = ""


class SaidCall(msgspec.Struct, frozen=True):
    """A tool call of the assistant."""

    id: str
    function: SaidFunction | None = None
    type: str = "function"


class Said(msgspec.Struct, frozen=True):
    """One message, as far as it is read."""

    role: str
    content: str | list[Part | str] | None = None
    tool_calls: list[SaidCall] | None = None
    tool_call_id: str | None = None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a request."""

    leading: dict[str, str]
    """The text that leads, by its role: system, developer."""
    seed: tuple[Entry, ...]
    """The history before the new input, which counts for a chat that has none yet."""
    new: tuple[Entry, ...]
    """The new input: what comes after the last assistant message. A user's message, or a tool's result, is among it."""
    needs: Places
    """What the lane has to take for all of it."""


_MESSAGES = msgspec.json.Decoder(list[Said])
_ANYTHING = msgspec.json.Decoder(list[dict[str, Any]])

# Wrong input is met by the first value that does not fit, so that refusing it costs no more than reading it.
BROKEN = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_PLACE = re.compile(r"(?P<what>.*) - at `\$(?P<where>.*)`", re.DOTALL)


def decode(name: str, decoder: "msgspec.json.Decoder[Any]", value: msgspec.Raw | None) -> Any:
    """Return a member's value, None if it is not there. Raises ApiError 400 that names the place."""
    if value is None:
        return None
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        raise _wrong(name, str(error)) from None
    except BROKEN:
        raise invalid("The body is not valid JSON.", code="invalid_json") from None


def _wrong(name: str, error: str) -> ApiError:
    found = _PLACE.fullmatch(error)
    where = name + found["where"] if found else name
    what = found["what"] if found else error
    code = "invalid_content" if ".content" in where else "invalid_request"
    return invalid(f"{where}: {what[:1].lower()}{what[1:]}.", where, code=code)


def read(value: msgspec.Raw | None) -> Conversation:
    """Read the messages. Raises ApiError 400 that names what is wrong."""
    messages = decode("messages", _MESSAGES, value)
    if not messages:
        raise invalid("messages must be an array with at least one message.", "messages")
    if len(messages) > MAX_MESSAGES:
        raise invalid(f"There are more than {MAX_MESSAGES} messages.", "messages")
    needs: Places = {}
    entries = [_entry(message, f"messages[{n}]", needs) for n, message in enumerate(messages)]
    if Capability.IMAGES in needs or Capability.FILES in needs:
        entries = _with_parts(entries, messages, value)
    lead = next((n for n, entry in enumerate(entries) if entry.role not in SYSTEM_ROLES), len(entries))
    last = max((n for n, entry in enumerate(entries) if entry.role == "assistant"), default=lead - 1)
    _check_new(entries, last)
    return Conversation(
        leading=_leading(entries[:lead]),
        seed=tuple(entries[lead : last + 1]),
        new=tuple(entries[last + 1 :]),
        needs=needs,
    )


def _leading(entries: Sequence[Entry]) -> dict[str, str]:
    texts = {role: [entry.content for entry in entries if entry.role == role] for role in SYSTEM_ROLES}
    return {role: "\n\n".join(said) for role, said in texts.items() if said}


def _check_new(entries: Sequence[Entry], last: int) -> None:
    new = entries[last + 1 :]
    if not any(entry.role in ("user", "tool") for entry in new):
        raise invalid(
            "There must be a user's message, or a tool's result, after the last message of the assistant.",
            "messages",
        )
    asker = entries[last] if last >= 0 and entries[last].role == "assistant" else None
    if asker is None:
        # Whether the chat waits for these results, only its stored history can say.
        return
    asked = {call.call_id for call in asker.tool_calls}
    for n, entry in enumerate(new, last + 1):
        if entry.role == "tool" and entry.tool_call_id not in asked:
            where = f"messages[{n}].tool_call_id"
            raise invalid(f"{where}: the last message of the assistant has no call of this id.", where)


# Messages


def _entry(message: Said, where: str, needs: Places) -> Entry:
    if message.role not in ROLES:
        raise invalid(f"{where}.role must be {', '.join(ROLES[:-1])} or {ROLES[-1]}.", f"{where}.role")
    calls = _calls(message, where, needs)
    tool_call_id = message.tool_call_id if message.role == "tool" else None
    if message.role == "tool":
        needs.setdefault(Capability.TOOLS, where)
        if not tool_call_id:
            place = f"{where}.tool_call_id"
            raise invalid(f"{place} must be the id of the call that the message answers.", place)
    content = "" if calls and not message.content else _text(message, f"{where}.content", needs)
    return Entry(role=message.role, content=content, tool_calls=calls, tool_call_id=tool_call_id)


def _calls(message: Said, where: str, needs: Places) -> tuple[ToolCall, ...]:
    if not message.tool_calls:
        return ()
    if message.role != "assistant":
        raise invalid(f"{where}.tool_calls: only the assistant calls tools.", f"{where}.tool_calls")
    needs.setdefault(Capability.TOOLS, f"{where}.tool_calls")
    known: set[str] = set()
    for n, call in enumerate(message.tool_calls):
        _check_call(call, f"{where}.tool_calls[{n}]", known)
        known.add(call.id)
    return tuple(
        ToolCall(call_id=call.id, name=call.function.name, arguments=call.function.arguments)
        for call in message.tool_calls
        if call.function is not None
    )


def _check_call(call: SaidCall, where: str, known: set[str]) -> None:
    if call.type != "function":
        raise invalid(f"{where}: calls of type {call.type[:40]!r} are not supported, only function.", where)
    if call.function is None or not call.function.name:
        raise invalid(f"{where}.function.name is missing.", f"{where}.function.name")
    if not call.id or call.id in known:
        raise invalid(f"{where}.id must be one that no other call of the message has.", f"{where}.id")


def _text(message: Said, where: str, needs: Places) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    if not content:
        raise invalid(f"{where} must be a string or an array of parts.", where, code="invalid_content")
    texts = [_part(part, message.role, f"{where}[{n}]", needs) for n, part in enumerate(content)]
    return "\n".join(text for text in texts if text is not None)


def _part(part: Part | str, role: str, where: str, needs: Places) -> str | None:
    """Return the text of a part, None for a part of another kind."""
    if isinstance(part, str):
        return part
    if part.type == "text":
        if part.text is None:
            raise invalid(f"{where}.text must be a string.", f"{where}.text", code="invalid_content")
        return part.text
    capability = _KINDS.get(part.type)
    if capability is None:
        shown = f"parts of type {part.type[:40]!r} are not supported, only text, {', '.join(_KINDS)}"
        raise invalid(f"{where}: {shown}.", where, code="invalid_content")
    if role != "user":
        raise invalid(
            f"{where}: only a user's message may have parts of type {part.type}.",
            where,
            code="invalid_content",
        )
    if getattr(part, part.type) is None:
        raise invalid(
            f"{where}.{part.type} must be an object.", f"{where}.{part.type}", code="invalid_content"
        )
    needs.setdefault(capability, where)
    return None


_KINDS = {"image_url": Capability.IMAGES, "file": Capability.FILES}


def _with_parts(entries: Sequence[Entry], messages: Sequence[Said], value: msgspec.Raw | None) -> list[Entry]:
    """Add the parts of messages that are not text alone, as their sender wrote them."""
    originals = decode("messages", _ANYTHING, value)
    return [
        msgspec.structs.replace(entry, parts=_written(original["content"]))
        if any(isinstance(part, Part) and part.type in _KINDS for part in message.content or ())
        else entry
        for entry, message, original in zip(entries, messages, originals, strict=True)
    ]


def _written(content: list[Any]) -> tuple[dict[str, Any], ...]:
    return tuple({"type": "text", "text": part} if isinstance(part, str) else part for part in content)
