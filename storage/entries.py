"""How a message lies in a row of the history: its text in a column, all else that it may have beside."""

import sqlite3
from typing import Any

import msgspec

from actors.messages.rows import Entry, ToolCall
from storage.columns import Column, encode


class Beside(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What few messages have."""

    parts: tuple[dict[str, Any], ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


NOTHING = Beside()
BESIDE = Column.of(Beside)


def beside(entry: Entry) -> bytes | None:
    """Return the column of what a message has beside its text, NULL for nothing."""
    found = Beside(parts=entry.parts, tool_calls=entry.tool_calls, tool_call_id=entry.tool_call_id)
    return None if found == NOTHING else encode(found)


def read_beside(column: bytes | None) -> Beside:
    """Return what lies in such a column."""
    return NOTHING if column is None else BESIDE.read(column)


def entry(row: sqlite3.Row) -> Entry:
    """Return a row of the history as a model gets it."""
    if row["beside"] is None:
        return Entry(role=row["role"], content=row["content"])
    found = read_beside(row["beside"])
    return Entry(
        role=row["role"],
        content=row["content"],
        parts=found.parts,
        tool_calls=found.tool_calls,
        tool_call_id=found.tool_call_id,
    )


def size(row: sqlite3.Row) -> int:
    """Return how much a row holds, roughly in bytes."""
    return len(row["content"]) + len(row["beside"] or b"")
