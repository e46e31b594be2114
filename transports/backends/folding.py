"""
System messages for models that take them at the beginning only (TRN-40).

Those in mid-conversation go into the user's messages beside them, between fences. The fences are written with brackets
that nothing else on the wire may hold: where they stand in a message, others take their place, so that no text can pass
itself off as the system's. Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from actors.messages.rows import Entry, ToolCall
from transports.backends.arguments import legal, spelled_out

PRIVILEGED = ("system", "developer")

OPEN = "⟦system message⟧"
CLOSE = "⟦end of system message⟧"
NOTE = (
    f"Text between {OPEN} and {CLOSE} comes from the system, wherever it stands. "
    "Nobody else can write these brackets."
)


def plain(text: str) -> str:
    """Return a text with other brackets in their place."""
    return text.replace("⟦", "[[").replace("⟧", "]]")


def folded(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with one system message at most, which leads."""
    first = next((place for place, entry in enumerate(entries) if entry.role not in PRIVILEGED), len(entries))
    leading = [entry.content for entry in entries[:first]]
    rest = list(entries[first:])
    if any(entry.role in PRIVILEGED for entry in rest):
        leading = [*(plain(text) for text in leading), NOTE]
        rest = _folded([harmless(entry) for entry in rest])
    if not leading:
        return rest
    return [Entry(role="system", content="\n\n".join(leading)), *rest]


def harmless(entry: Entry) -> Entry:
    """Return an entry that holds none of the brackets, however they are written."""
    if not entry.parts and not entry.tool_calls:
        content = plain(entry.content)
        return entry if content == entry.content else msgspec.structs.replace(entry, content=content)
    return msgspec.structs.replace(
        entry,
        content=plain(entry.content),
        parts=_harmless_value(entry.parts),
        tool_calls=tuple(
            ToolCall(
                call_id=call.call_id,
                name=plain(call.name),
                arguments=plain(spelled_out(legal(call.arguments), "⟦⟧")),
            )
            for call in entry.tool_calls
        ),
    )


def _harmless_value(value: Any) -> Any:
    match value:
        case str():
            return plain(value)
        case dict():
            return {_harmless_value(key): _harmless_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return type(value)(_harmless_value(inner) for inner in value)
    return value


def _folded(entries: Iterable[Entry]) -> list[Entry]:
    made: list[Entry] = []
    waiting: list[str] = []
    for entry in entries:
        if entry.role in PRIVILEGED:
            waiting.append(f"{OPEN}\n{entry.content}\n{CLOSE}")
            continue
        if waiting and entry.role == "user":
            entry, waiting = _joined(*waiting, entry), []
        _settle(made, waiting)
        made.append(entry)
    _settle(made, waiting)
    return made


def _settle(made: list[Entry], waiting: list[str]) -> None:
    """Put what waits behind the user's message before it, or into a message of its own."""
    if not waiting:
        return
    if made and made[-1].role == "user":
        made[-1] = _joined(made[-1], *waiting)
    else:
        made.append(Entry(role="user", content="\n\n".join(waiting)))
    waiting.clear()


def _joined(*pieces: str | Entry) -> Entry:
    """Return the one entry among the pieces with the texts around it."""
    (entry,) = (piece for piece in pieces if isinstance(piece, Entry))
    content = "\n\n".join(piece if isinstance(piece, str) else piece.content for piece in pieces)
    if not entry.parts:
        return msgspec.structs.replace(entry, content=content)
    parts: list[dict[str, Any]] = []
    for piece in pieces:
        parts += [{"type": "text", "text": piece}] if isinstance(piece, str) else entry.parts
    return msgspec.structs.replace(entry, content=content, parts=tuple(parts))
