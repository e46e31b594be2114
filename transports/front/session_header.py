"""How a client names its chat (api.md, "Session binding"): pure."""

import re
from collections.abc import Iterable

from transports.front.errors import ApiError, invalid

NAMES = (b"x-session-id", b"x-hermes-session-id")
SHOWN = ("X-Session-Id", "X-Hermes-Session-Id")
MAX_LENGTH = 256
MINTED_PREFIX = "chat-"

_VISIBLE = re.compile(r"[\x21-\x7e]+\Z")
_DRIVE = re.compile(r"[A-Za-z]:")

Headers = Iterable[tuple[bytes, bytes]]


def supplied_token(headers: Headers) -> str | None:
    """
    Return the chat that a request names, None if it names none.

    Raises ApiError 400 for a name that is not allowed, or for two that differ.
    """
    values = {value.decode("latin-1") for name, value in headers if name in NAMES}
    if not values:
        return None
    if len(values) > 1:
        raise invalid(
            f"{SHOWN[0]} and {SHOWN[1]} name different sessions; send one of them.", code="invalid_session_id"
        )
    (token,) = values
    if not is_token(token):
        raise invalid(
            f"The session id must be 1 to {MAX_LENGTH} visible ASCII characters without .., / or \\,"
            " and must not begin like a drive (C:).",
            code="invalid_session_id",
        )
    return token


def echoed_token(headers: Headers) -> str | None:
    """Return what an answer may show of the chat before anybody knows who asks: its name, if it is a good one."""
    try:
        return supplied_token(headers)
    except ApiError:
        return None


def is_token(token: str) -> bool:
    """Say whether a chat may have that name."""
    return (
        0 < len(token) <= MAX_LENGTH
        and _VISIBLE.match(token) is not None
        and not any(part in token for part in ("..", "/", "\\"))
        and _DRIVE.match(token) is None
    )


def minted_token(random_bits: int) -> str:
    """Return a chat's name that nobody can guess, from 160 random bits."""
    return f"{MINTED_PREFIX}{random_bits:040x}"


def response_headers(token: str | None) -> tuple[tuple[str, str], ...]:
    """Return both session headers of a response, once the chat is known."""
    return () if token is None else tuple((name, token) for name in SHOWN)


def read_command(text: str) -> tuple[bool, str]:
    """Return whether a message begins a fresh session, and the text that is left of it."""
    trimmed = text.strip()
    if trimmed == "/new":
        return True, ""
    if trimmed.startswith("/new "):
        return True, trimmed.removeprefix("/new ").strip()
    return False, text
