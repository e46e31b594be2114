"""What models get of sessions: the messages, without notices and broken-off texts."""

import sqlite3
from collections import OrderedDict

from actors.messages.rows import Entry
from storage import entries

NEWEST = """
SELECT seq, role, content, beside, inbox_id FROM history
WHERE session_id = ? AND kind = 'message' AND seq > ? ORDER BY seq DESC LIMIT ?
"""

COMPACTION = """
SELECT content, upto FROM history WHERE session_id = ? AND kind = 'compaction' ORDER BY seq DESC LIMIT 1
"""

ENTRY_BYTES = 256
"""What an entry takes in memory besides its text, roughly."""


class Conversation:
    """What goes before the entries of one session (a summary, or nothing), those up to ``seq``, and how much all holds."""

    __slots__ = ("before", "entries", "seq", "size", "sizes")

    def __init__(self, connection: sqlite3.Connection, session_id: str) -> None:
        compaction = connection.execute(COMPACTION, (session_id,)).fetchone()
        self.before: tuple[Entry, ...] = ()
        self.entries: list[Entry] = []
        self.sizes: list[int] = []
        self.seq = 0
        self.size = 0
        if compaction is not None:
            self.before = (Entry(role="system", content=compaction["content"]),)
            self.seq = compaction["upto"]
            self.size = ENTRY_BYTES + len(compaction["content"])

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
        self.rows = rows
        self._size = size
        self._kept: OrderedDict[str, Conversation] = OrderedDict()
        self._kept_size = 0

    def read(self, connection: sqlite3.Connection, session_id: str) -> tuple[Entry, ...]:
        """
        Return the newest messages of a session, at most ``rows``, oldest first.

        Those up to a compaction's ``upto`` have given way to its summary, which comes before all others.
        """
        conversation = self._drop(session_id) or Conversation(connection, session_id)
        rows = connection.execute(NEWEST, (session_id, conversation.seq, self.rows)).fetchall()
        conversation.extend(rows, self.rows)
        self._kept[session_id] = conversation
        self._kept_size += conversation.size
        while self._kept_size > self._size:
            _, oldest = self._kept.popitem(last=False)
            self._kept_size -= oldest.size
        return (*conversation.before, *conversation.entries)

    def read_again(
        self, connection: sqlite3.Connection, session_id: str, inbox_id: str, said: tuple[Entry, ...]
    ) -> tuple[Entry, ...]:
        """Return the same with ``said``, the messages of ``inbox_id``, last, although others have come since."""
        conversation = Conversation(connection, session_id)
        rows = connection.execute(NEWEST, (session_id, conversation.seq, self.rows)).fetchall()
        others = [row for row in reversed(rows) if row["inbox_id"] != inbox_id]
        return (*conversation.before, *(entries.entry(row) for row in others), *said)

    def compacted(self, session_id: str) -> None:
        """Read a session's conversation anew: a summary has taken the place of its beginning."""
        self._drop(session_id)

    def forget(self) -> None:
        """Read everything anew."""
        self._kept.clear()
        self._kept_size = 0

    def _drop(self, session_id: str) -> Conversation | None:
        conversation = self._kept.pop(session_id, None)
        if conversation is not None:
            self._kept_size -= conversation.size
        return conversation
