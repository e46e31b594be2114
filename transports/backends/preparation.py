"""
A conversation as the request that a backend gets (turns.md: the wire copy).

What is stored is never changed by it: answers that are missing, arguments that are no JSON and messages whose role the
lane does not take are put right on this copy alone. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actors.messages.lane import Capability, LaneTraits
from actors.messages.rows import Entry
from transports.backends.answers import answered
from transports.backends.arguments import legal
from transports.backends.folding import folded

OWN_PARAMS = frozenset({"model", "stream", "stream_options", "messages", "n", "system", "developer"})
"""What a client's parameters never set: one stream of one answer of the lane's model is what a turn can use."""

UNNAMED = "unnamed"
"""The name of a call that its model gave none."""


class PreparationFault(Exception):
    """A conversation cannot be put together for its lane. Its class is all that is said of it (TRN-29)."""


class ImagesNotTaken(PreparationFault):
    """It holds an image, and the lane takes none."""


class FilesNotTaken(PreparationFault):
    """It holds a file, and the lane takes none."""


class ToolsNotTaken(PreparationFault):
    """It offers or calls tools, and the lane takes none."""


class UnknownPart(PreparationFault):
    """It holds a part of a kind that no lane is known to take."""


_PARTS: Mapping[str, tuple[Capability, type[PreparationFault]]] = {
    "image_url": (Capability.IMAGES, ImagesNotTaken),
    "file": (Capability.FILES, FilesNotTaken),
}


def prepare(entries: Sequence[Entry], params: Mapping[str, Any], traits: LaneTraits) -> bytes:
    """
    Return the body of a request.

    ``params["system"]`` and ``params["developer"]`` lead the messages. Raises PreparationFault for what the lane does not
    take; TypeError, ValueError or RecursionError for what JSON cannot carry.
    """
    if params.get("tools"):
        _require(Capability.TOOLS in traits.capabilities, ToolsNotTaken)
    body = {name: value for name, value in params.items() if name not in OWN_PARAMS}
    body |= {
        "model": traits.model,
        "messages": [_message(entry, traits) for entry in _entries(entries, params, traits)],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return msgspec.json.encode(body)


def _entries(entries: Sequence[Entry], params: Mapping[str, Any], traits: LaneTraits) -> Iterable[Entry]:
    leading = [
        Entry(role=role, content=_text(params[role]))
        for role in ("system", "developer")
        if params.get(role) is not None
    ]
    whole = [*leading, *answered(entries)]
    if Capability.DEVELOPER not in traits.capabilities:
        whole = [
            msgspec.structs.replace(entry, role="system") if entry.role == "developer" else entry
            for entry in whole
        ]
    if Capability.SYSTEM_ANYWHERE in traits.capabilities:
        return whole
    return folded(whole)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("the leading text is no text")
    return value


def _message(entry: Entry, traits: LaneTraits) -> dict[str, Any]:
    message: dict[str, Any] = {"role": entry.role, "content": entry.content}
    if entry.parts:
        for part in entry.parts:
            _check(part, traits)
        message["content"] = entry.parts
    if entry.role == "tool":
        message["tool_call_id"] = entry.tool_call_id
    elif entry.role == "assistant" and entry.tool_calls:
        _require(Capability.TOOLS in traits.capabilities, ToolsNotTaken)
        message["content"] = message["content"] or None
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name or UNNAMED, "arguments": legal(call.arguments)},
            }
            for call in entry.tool_calls
        ]
    return message


def _check(part: Mapping[str, Any], traits: LaneTraits) -> None:
    kind = part.get("type")
    if kind == "text":
        return
    known = _PARTS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise UnknownPart
    capability, fault = known
    _require(capability in traits.capabilities, fault)


def _require(holds: bool, fault: type[PreparationFault]) -> None:
    if not holds:
        raise fault
