"""Takes secrets out of a backend's text before a debug log gets it (turns.md, section 3)."""

import re
from collections.abc import Iterable

from actors.messages.secret import Secret

MOST_CHARACTERS = 2000
"""What is kept of a text."""

_PATTERNS = (
    re.compile(r"(?<=://)[^\s/@]{1,256}(?=@)"),
    re.compile(r"(?i)(?<=bearer )\s*[^\s\"',;]+"),
    re.compile(r"(?i)(?<![a-z0-9])(?:sk|pk|rk)-[a-z0-9_\-]{6,}"),
    re.compile(
        r"(?i)(?:api[_-]?key|access[_-]?token|token|secret|password|key)(?:\"?\s?[=:]\s?\"?)[^\s&\"',;]+"
    ),
    re.compile(r"(?i)postgres(?:ql)?://[^\s\"']+"),
)


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Return at most 2,000 characters of ``text``, without known secrets and what looks like one."""
    for secret in secrets:
        if secret.value:
            text = text.replace(secret.value, "…")
    text = text[:MOST_CHARACTERS]
    for pattern in _PATTERNS:
        text = pattern.sub("…", text)
    return text
