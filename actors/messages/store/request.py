"""The two kinds of requests."""

from typing import TypeVar

from actors.messages.base import Request

R = TypeVar("R")


class Read(Request[R], frozen=True, kw_only=True):
    """Sees every write that was answered before it was sent."""


class Write(Request[R], frozen=True, kw_only=True):
    """Durable when it is answered. ``at`` is unix seconds, by the caller's clock."""

    at: float
