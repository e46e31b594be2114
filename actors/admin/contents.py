"""What a message holds, for an operator who looks at it: bounded, and without its secrets (REL-6). Pure."""

from typing import Any

import msgspec

from actors.messages.secret import Secret

LONGEST_TEXT = 1000
MOST_ITEMS = 50
DEEPEST = 6
"""What of a message is shown at most; the rest is left out with an ellipsis."""

HIDDEN = "(secret)"
MORE = "…"


def shown(value: Any, depth: int = 0) -> Any:
    """Return plain values that JSON can carry. What is no data, such as a ref, is told by its type."""
    if isinstance(value, Secret):
        return HIDDEN
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + MORE
    if depth >= DEEPEST:
        return MORE
    if isinstance(value, msgspec.Struct):
        return {name: shown(getattr(value, name), depth + 1) for name in value.__struct_fields__}
    if isinstance(value, dict):
        items = list(value.items())
        some = {str(shown(key)): shown(one, depth + 1) for key, one in items[:MOST_ITEMS]}
        return some if len(items) <= MOST_ITEMS else {**some, MORE: len(items) - MOST_ITEMS}
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)
        left = [f"{MORE} {len(items) - MOST_ITEMS} more"] if len(items) > MOST_ITEMS else []
        return [shown(one, depth + 1) for one in items[:MOST_ITEMS]] + left
    path = getattr(value, "path", None)
    return path if isinstance(path, str) else f"({type(value).__name__})"
