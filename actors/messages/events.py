"""What can be said to /events, the bounded bus, and what its subscribers hear."""

from typing import Any

from actors.messages.base import ControlMessage, Message, Request

EventData = dict[str, str | int | float | bool | None]


class Publish(Message, frozen=True, kw_only=True):
    """Something happened at ``path``. The bus gives it its number."""

    kind: str
    path: str
    data: EventData
    at: float
    """Unix seconds."""


class Event(Message, frozen=True, kw_only=True):
    """A numbered event, as subscribers and the store have it."""

    seq: int
    kind: str
    path: str
    at: float
    data: EventData


class Gap(Message, frozen=True, kw_only=True):
    """Events before ``next_seq`` are no longer held: the subscriber has missed some (ADM-3)."""

    next_seq: int


class Subscribe(Request[int], frozen=True, kw_only=True):
    """
    Send ``subscriber`` what comes, and first what is held from ``from_seq`` on.

    Answers the number of the last event so far. ``kinds`` are prefixes; empty means all.
    """

    subscriber: Any
    from_seq: int | None = None
    kinds: tuple[str, ...] = ()


class Unsubscribe(ControlMessage, frozen=True, kw_only=True):
    """Send it nothing more."""

    subscriber: Any


class ReadBack(Request["Page"], frozen=True, kw_only=True):
    """
    Read what has happened from ``from_seq`` on, a page at a time: how a subscriber catches up at its own pace.

    A negative ``from_seq`` counts events back from the newest one: numbers that were never given do not count.
    """

    from_seq: int
    kinds: tuple[str, ...] = ()
    limit: int = 500


class Page(Message, frozen=True, kw_only=True):
    """A part of the past. The next page starts at ``next_seq``; past ``last_seq`` there is none yet."""

    entries: tuple[Event | Gap, ...]
    next_seq: int
    last_seq: int
