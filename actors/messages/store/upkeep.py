"""Events, and the store itself."""

from typing import Any

from actors.messages.base import Request
from actors.messages.events import Event
from actors.messages.rows import Row
from actors.messages.store.request import Read, Write


class AppendEvents(Write[None], frozen=True, kw_only=True):
    """Keep events; those that are there already are left alone."""

    events: tuple[Event, ...]


class LastEventSeq(Read[int], frozen=True, kw_only=True):
    """The number of the newest event kept, 0 if none."""


class ReadEvents(Read[tuple[Event, ...]], frozen=True, kw_only=True):
    """Events from ``from_seq`` on, oldest first."""

    from_seq: int
    limit: int = 1000


class ReadEventsBefore(Read[tuple[Event, ...]], frozen=True, kw_only=True):
    """The ``count`` newest events before ``seq``, oldest first, or fewer if there are not so many; of them ``limit``."""

    seq: int
    count: int
    limit: int = 1000


class BackUp(Request["BackedUp"], frozen=True, kw_only=True):
    """
    Copy the database to a new file (0600), as it is now, while writes go on.

    It takes as long as the asker's budget; then, and after any failure, nothing is left of it. Refused: Invalid for a path
    that is not absolute, Conflict for one that exists, Busy during another backup, Unavailable (``backup_failed``) if
    the file cannot be written.
    """

    path: str


class BackedUp(Row, frozen=True, kw_only=True):
    """A finished backup."""

    path: str
    bytes: int


class CheckStore(Read[None], frozen=True, kw_only=True):
    """Whether it can write: fails with StoreUnavailable, and the cause, from a fault until a write has succeeded."""


class StoreInfo(Read[dict[str, Any]], frozen=True, kw_only=True):
    """
    What the store is: schema (its version), path, bytes (of the file and its log), rows (of each table), commits and
    writes (since the actor started).
    """

    rows: bool = True
    """Whether rows are counted: that takes as long as there are many."""
