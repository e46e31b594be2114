"""
Long texts in parts that a platform takes (relay.md, section 2).

A part ends at the last border of the best kind within reach: paragraph, then line, then a line of code, then word, then
anywhere. White space at a border is dropped, except in code. A code fence that is cut is closed, and reopened in the
next part.
"""

import enum
import re
import sys
import unicodedata
from collections.abc import Iterator

import msgspec

from actors.messages.descriptor import Descriptor, LenUnit
from actors.relay.fence import Fence, LineKind, read_lines
from actors.relay.measure import Measure, length

LONGEST_CLUSTER = 32
"""Characters that are looked at in search of one that others do not join on to."""

_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)*")
_SPACES = re.compile(r"[^\S\n]*")
_WHITE = re.compile(r"\s*")
_JOINER = "\N{ZERO WIDTH JOINER}"


class Border(enum.IntEnum):
    """Kinds of places to cut at, the best one last."""

    CODE_LINE = 0
    LINE = 1
    PARAGRAPH = 2


class Cut(msgspec.Struct, frozen=True):
    """The end of a part."""

    end: int
    resume: int
    """Where the next part begins."""
    closed: Fence | None
    """The fence that has to be closed here."""
    open: Fence | None
    """The one that the next part has to open again."""


def split(text: str, descriptor: Descriptor) -> tuple[str, ...]:
    """Return ``text`` in parts that the platform takes."""
    return tuple(split_text(text, descriptor.max_message_length, descriptor.len_unit))


def split_text(text: str, limit: int, unit: LenUnit) -> list[str]:
    """
    Return ``text`` in parts of at most ``limit`` units; none of them is blank, and a blank text has none.

    Only a character of two units under a limit of 1 is a part that is too long. Under a limit that is too small to
    hold fences, code is cut like text. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError("a limit has to be 1 at least")
    if text.strip() and length(text, unit) <= limit:
        return [text]
    return list(_Splitter(text.rstrip(), limit, unit).parts())


class _Splitter:
    def __init__(self, text: str, limit: int, unit: LenUnit) -> None:
        self._text = text
        self._limit = limit
        self._unit = unit
        self._measure = Measure(text, unit)
        self._lines = read_lines(text, limit, unit)
        # Where the next part begins, and the number of that line.
        self._start = 0
        self._at = 0
        # The fence that is open there.
        self._fence: Fence | None = None

    def parts(self) -> Iterator[str]:
        self._skip_blanks()
        while self._start < len(self._text):
            opening = f"{self._fence.reopening}\n" if self._fence is not None else ""
            room = self._limit - length(opening, self._unit)
            if self._measure.between(self._start, len(self._text)) <= room:
                yield opening + self._text[self._start :]
                return
            cut = self._line_cut(room) or self._inner_cut(room)
            body = opening + self._text[self._start : cut.end]
            if cut.closed is not None:
                yield f"{body}\n{cut.closed.closing}"
            elif body := body.rstrip():
                yield body
            self._start, self._fence = cut.resume, cut.open
            self._skip_blanks()

    def _skip_blanks(self) -> None:
        """Go on to where the next part has something to say."""
        if self._fence is None:
            self._start = _end_of(_BLANK_LINES, self._text, self._start)
        while self._at + 1 < len(self._lines) and self._lines[self._at].end < self._start:
            self._at += 1
        if self._fence is not None and self._is_last_of_code(self._at):
            rest = self._text[self._start : self._lines[self._at].end]
            if not rest.strip():
                self._start, self._fence = self._behind_closing(self._at), None
                self._skip_blanks()

    def _line_cut(self, room: int) -> Cut | None:
        """Return the best border at the end of a line; None if not even the first line fits."""
        best: tuple[Border, Cut] | None = None
        blank = True
        for at in range(self._at, len(self._lines) - 1):
            line = self._lines[at]
            if self._measure.between(self._start, line.end) > room:
                break
            blank = blank and not self._text[max(self._start, line.start) : line.end].strip()
            found = self._border(at, blank)
            if found is None or (best is not None and found[0] < best[0]):
                continue
            closing = _closing_cost(found[1].closed)
            if self._measure.between(self._start, line.end) + closing <= room:
                best = found
        return best and best[1]

    def _border(self, at: int, blank: bool) -> tuple[Border, Cut] | None:
        """Return what the end of a line is; None where a cut would leave code without its opening line, or nothing."""
        line = self._lines[at]
        if line.fence is None:
            if line.kind is LineKind.BLANK:
                return None
            paragraph = self._lines[at + 1].kind is LineKind.BLANK
            return Border.PARAGRAPH if paragraph else Border.LINE, Cut(line.end, line.end + 1, None, None)
        if self._is_last_of_code(at):
            # Its own closing line may be longer than ours, so ours takes its place.
            return Border.CODE_LINE, Cut(line.end, self._behind_closing(at), line.fence, None)
        if blank or line.kind is LineKind.OPENS:
            return None
        return Border.CODE_LINE, Cut(line.end, line.end + 1, line.fence, line.fence)

    def _inner_cut(self, room: int) -> Cut:
        """Return a border within a line: a word's, else any."""
        first = self._lines[self._at]
        fence, floor = self._fence, self._start
        if first.kind is LineKind.OPENS:
            fence, floor = first.fence, first.end + 1
        end = self._measure.reach(self._start, room - _closing_cost(fence))
        if end <= floor:
            return Cut(floor + 1, floor + 1, fence, fence)
        # Outside of code a border's white space is dropped; in code it stays with the part that ends.
        kept = 0 if fence is None else 1
        first_word = _end_of(_WHITE, self._text, floor, end)
        for position in range(end - kept, first_word, -1):
            if self._text[position].isspace():
                resume = position + 1 if kept else _end_of(_SPACES, self._text, position)
                return Cut(position + kept, resume, fence, fence)
        if first_word == end and fence is None:
            return Cut(end, _end_of(_SPACES, self._text, end), None, None)
        end = self._between_clusters(end, floor)
        return Cut(end, end, fence, fence)

    def _between_clusters(self, end: int, floor: int) -> int:
        for position in range(end, max(floor, end - LONGEST_CLUSTER), -1):
            if not _joins(self._text[position - 1], self._text[position]):
                return position
        return end

    def _is_last_of_code(self, at: int) -> bool:
        return at + 1 < len(self._lines) and self._lines[at + 1].kind is LineKind.CLOSES

    def _behind_closing(self, at: int) -> int:
        return min(self._lines[at + 1].end + 1, len(self._text))


def _closing_cost(fence: Fence | None) -> int:
    # White space, backticks and tildes count one in every unit; so does the newline before them.
    return 0 if fence is None else len(fence.closing) + 1


def _joins(before: str, character: str) -> bool:
    """Say whether a character belongs to the one before it: an accent, a skin tone, what a joiner holds together."""
    if _JOINER in (before, character) or "\U0001f3fb" <= character <= "\U0001f3ff":
        return True
    return unicodedata.category(character).startswith("M")


def _end_of(pattern: re.Pattern[str], text: str, start: int, end: int = sys.maxsize) -> int:
    found = pattern.match(text, start, end)
    return found.end() if found is not None else start
