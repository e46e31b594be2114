"""Where the lines of a text are, and which of them are within code fences."""

import enum
import re
from collections.abc import Iterator

import msgspec

from actors.messages.descriptor import LenUnit
from actors.relay.measure import length

_OPENING = re.compile(r"[^\S\n]*(`{3,}(?=[^`]*\Z)|~{3,})")

LEAST_CODE = 2
"""Units of code that a part has to have room for beside its fences: one character of any kind."""


class Fence(msgspec.Struct, frozen=True):
    """An open code fence, and how it is carried over a cut."""

    closing: str
    """The line that ends it."""
    reopening: str
    """The line that goes on with it: the opening one with its info string, or without if that takes too much room."""

    @property
    def marker(self) -> str:
        """The run of backticks or tildes."""
        return self.closing.strip()


class LineKind(enum.Enum):
    """What a line is to whoever looks for a border."""

    TEXT = "text"
    BLANK = "blank"
    OPENS = "opens"
    CODE = "code"
    CLOSES = "closes"


class Line(msgspec.Struct, frozen=True):
    """One line of a text."""

    start: int
    end: int
    """Where its newline is, or the text ends."""
    kind: LineKind
    fence: Fence | None
    """What is open after it."""


def read_lines(text: str, limit: int, unit: LenUnit) -> list[Line]:
    """
    Return all lines of ``text``.

    A fence whose lines leave no room for code in a part of ``limit`` is no fence: its lines are text like any other.
    """
    return list(_read_lines(text, limit, unit))


def _read_lines(text: str, limit: int, unit: LenUnit) -> Iterator[Line]:
    start = 0
    fence: Fence | None = None
    # The marker of a fence that is treated as text; its end must not be taken for the beginning of another one.
    ignored = ""
    for written in text.split("\n"):
        end = start + len(written)
        kind = LineKind.TEXT if written.strip() else LineKind.BLANK
        if fence is not None:
            closes = _closes(written, fence.marker)
            kind = LineKind.CLOSES if closes else LineKind.CODE
            fence = None if closes else fence
        elif ignored:
            ignored = "" if _closes(written, ignored) else ignored
        elif opening := _OPENING.match(written):
            fence = _carry(written.rstrip(), opening[0], limit, unit)
            if fence is None:
                ignored = opening[1]
            else:
                kind = LineKind.OPENS
        yield Line(start, end, kind, fence)
        start = end + 1


def _closes(line: str, marker: str) -> bool:
    run = line.strip()
    return len(run) >= len(marker) and not run.strip(marker[0])


def _carry(opening: str, bare: str, limit: int, unit: LenUnit) -> Fence | None:
    newlines = 2
    closing_cost = length(bare, unit) + newlines
    if length(opening, unit) + closing_cost + LEAST_CODE > limit:
        return None
    # Fences may take half of a part at most: what a hostile info string may cost is a bounded number of parts.
    if length(opening, unit) + closing_cost <= limit // 2:
        return Fence(closing=bare, reopening=opening)
    if length(bare, unit) + closing_cost <= limit // 2:
        return Fence(closing=bare, reopening=bare)
    return None
