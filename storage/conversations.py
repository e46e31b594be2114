"""What models get of sessions: the messages, without notices and broken-off texts."""

import sqlite3
from collections import OrderedDict

from actors.messages.rows import Entry
from storage import entries

NEWEST = """
SELECT seq, role, content, beside, inbox_id FROM history
WHERE session_id = ? AND kind = 'message' AND seq > ? ORDER BY seq DESC LIMIT ?
"""

ENTRY_BYTES = 256
"""What an entry takes in memory besides its text, roughly."""


class Conversation:
    """The entries of one session up to ``seq``, and how much they hold."""

    __slots__ = ("entries", "seq", "size", "sizes")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.sizes: list[int] = []
        self.seq = 0
        self.size = 0

    def extend(self, rows: list[sqlite3.Row], limit: int) -> None:
        """Add rows, the newest first, and let go what is more than ``limit``."""
        for row in reversed(rows):
            self.entries.append(entries.entry(row))
            self.sizes.append(ENTRY_BYTES + entries.size(row))
            self.size += self.sizes[-1]
        if rows:
            self.seq = rows[0]["seq"]
        self.size -= sum(self.sizes[:-limit])
        del self.entries[:-limit], self.sizes[:-limit]


class Conversations:
    """
    Reads conversations, and keeps those that went on last, so that a turn costs what is new and not all that was said.

    The database is right, not this: when a transaction is undone, or a text edited, it has to forget.
    """

    def __init__(self, rows: int, size: int) -> None:
        self._rows = rows
        self._size = size
        self._kept: OrderedDict[str, Conversation] = OrderedDict()
        self._kept_size = 0

    def read(self, connection: sqlite3.Connection, session_id: str) -> tuple[Entry, ...]:
        """Return the newest messages of a session, at most ``rows``, oldest first."""
        conversation = self._kept.pop(session_id, None) or Conversation()
        self._kept_size -= conversation.size
        rows = connection.execute(NEWEST, (session_id, conversation.seq, self._rows)).fetchall()
        conversation.extend(rows, self._rows)
        self._kept[session_id] = conversation
        self._kept_size += conversation.size
        while self._kept_size > self._size:
            _, oldest = self._kept.popitem(last=False)
            self._kept_size -= oldest.size
        return tuple(conversation.entries)

    def read_again(
        self, connection: sqlite3.Connection, session_id: str, inbox_id: str, said: tuple[Entry, ...]
    ) -> tuple[Entry, ...]:
        """Return the same with ``said``, the messages of ``inbox_id``, last, although others have come since."""
        rows = connection.execute(NEWEST, (session_id, 0, self._rows)).fetchall()
        others = [row for row in reversed(rows) if row["inbox_id"] != inbox_id]
        return (*(entries.entry(row) for row in others), *said)

    def forget(self) -> None:
        """Read everything anew."""
        self._kept.clear()
        self._kept_size = 0
