"""Takes secrets out of a text before a debug log gets it (turns.md, section 3)."""

import re
from collections.abc import Iterable

import msgspec

from actors.messages.secret import Secret

MOST_CHARACTERS = 2000
"""What is kept of a text."""
MARGIN = 1024
"""Characters behind these that are looked at too: a secret is not known by its beginning."""

# In JSON, and in JSON within JSON, a quotation mark has backslashes before it.
_PATTERNS = (
    re.compile(r"(?<=://)[^\s/@]{1,256}(?=@)"),
    re.compile(r"(?<=://)[^\s/@:\"']{0,64}:[^\s@\"']{1,256}(?=@)"),
    re.compile(r"(?i)\b(?:bearer|basic)[\s:=]+(?!realm)[^\s\"'\\,;]{6,}"),
    re.compile(r"(?i)(?<![a-z0-9])(?:sk|pk|rk)-[a-z0-9_\-]{6,}"),
    re.compile(
        r"(?i)(?:api[_-]?key|access[_-]?token|token|secret|password|passwd|authorization|key)"
        r"\\*[\"']?\s?[=:]\s?\\*[\"']?[^\s&\"'\\,;]+"
    ),
    re.compile(r"(?i)postgres(?:ql)?://[^\s\"'\\]+"),
)


def redact(text: str, secrets: Iterable[Secret], most: int = MOST_CHARACTERS) -> str:
    """Return at most ``most`` characters of ``text``, without known secrets and what looks like one."""
    values = {secret.value for secret in secrets}
    values |= {msgspec.json.encode(value).decode()[1:-1] for value in values}
    # The longest first: one may hold another.
    for value in sorted(values, key=len, reverse=True):
        if value:
            text = text.replace(value, "…")
    text = text[: most + MARGIN]
    for pattern in _PATTERNS:
        text = pattern.sub("…", text)
    return text[:most]
