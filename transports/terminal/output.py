"""What is printed: tables and JSON, coloured only where somebody looks at a terminal that wants it."""

import datetime
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

BOLD = "\x1b[1m"
DIM = "\x1b[2m"
PLAIN = "\x1b[0m"

GAP = "  "
NOTHING = "-"


def styled(text: str, style: str) -> str:
    """Return the text with a style, if stdout shows it and NO_COLOR does not forbid it."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"{style}{text}{PLAIN}"


_STEERING = dict.fromkeys((*range(32), *range(127, 160)), "\ufffd") | {
    ord("\n"): "\n",
    ord("\t"): "\t",
    ord("\r"): "",
}


def printable(text: str) -> str:
    """Return foreign text without what could steer a terminal; newlines and tabs stay."""
    return text.translate(_STEERING)


def cell(value: Any) -> str:
    """Return a value as one line of a table."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        return ", ".join(cell(one) for one in value) or NOTHING
    return " ".join(printable(str(value)).split())


def show_json(value: Any) -> None:
    """Print a result for programs."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def show_json_line(value: Any) -> None:
    """Print one of many results for programs."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")), flush=True)


def show_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """
    Print rows in columns; numbers stand right.

    On a terminal that is too narrow each row is told in words instead: a wrapped line stands under no heading.
    """
    values = [list(row) for row in rows]
    texts = [[cell(value) for value in row] for row in values]
    widths = [
        max(len(head), *(len(row[n]) for row in texts)) if texts else len(head)
        for n, head in enumerate(heads)
    ]
    right = [
        bool(values)
        and all(isinstance(row[n], int | float) and not isinstance(row[n], bool) for row in values)
        for n in range(len(heads))
    ]
    room = shutil.get_terminal_size().columns
    if texts and sys.stdout.isatty() and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        for row in texts:
            _tell(heads, row, room)
        return
    print(styled(_line(heads, widths, right), BOLD))
    for row in texts:
        print(_line(row, widths, right))


def _tell(heads: Sequence[str], row: Sequence[str], room: int) -> None:
    """Print the row's first cell, and below it the others that say something, each after its heading."""
    print(styled(row[0], BOLD))
    line = ""
    for head, text in zip(heads[1:], row[1:], strict=True):
        if text in (NOTHING, "0"):
            continue
        told = f"{GAP}{head.lower()} {text}"
        if line and len(line) + len(told) > room:
            print(line)
            line = ""
        line += told
    if line:
        print(line)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    aligned = [
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return GAP.join(aligned).rstrip()


def show_facts(facts: Mapping[str, Any]) -> None:
    """Print names with values, one a line."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        print(f"{name.ljust(width)}  {cell(value)}")


def moment(unix: float | None) -> str:
    """Return a time as people here write it."""
    if unix is None:
        return "-"
    return datetime.datetime.fromtimestamp(unix).strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """Return a length of time in its largest fitting units."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 120:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 120:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"
