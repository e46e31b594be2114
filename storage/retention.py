"""How long rows are kept; enforced in steps so small that nobody waits for them."""

import sqlite3

import msgspec

from actors.messages.store import Write

HOUR = 3600.0
DAY = 24 * HOUR
STEP_ROWS = 200


class Retain(Write[int], frozen=True, kw_only=True):
    """Delete up to STEP_ROWS expired rows a rule; answers how many went."""


class Rule(msgspec.Struct, frozen=True):
    """Rows of ``table`` for which ``condition`` holds go ``seconds`` after ``column``."""

    table: str
    column: str
    seconds: float
    condition: str = "1"


RULES = (
    Rule("seen_messages", "at", 48 * HOUR),
    Rule("seen_buffers", "at", 48 * HOUR),
    Rule("events", "at", 30 * DAY),
    Rule("deliveries", "settled_at", 7 * DAY, "state = 'delivered'"),
    Rule("deliveries", "settled_at", 90 * DAY, "state IN ('dead', 'unknown')"),
    # The text of a message lives on in its session's history; the row is there to turn it and to know it again.
    Rule("inbox", "settled_at", 30 * DAY, "state <> 'accepted'"),
    Rule("turns", "admitted_at", 90 * DAY, "state NOT IN ('admitted', 'running')"),
)
"""Sessions, their bindings and history, peers and keys stay until somebody deletes them."""


def retain(connection: sqlite3.Connection, request: Retain) -> int:
    """See Retain."""
    return sum(_delete(connection, rule, request.at - rule.seconds) for rule in RULES)


def _delete(connection: sqlite3.Connection, rule: Rule, before: float) -> int:
    done = connection.execute(
        f"DELETE FROM {rule.table} WHERE rowid IN (SELECT rowid FROM {rule.table}"
        f" WHERE {rule.column} < ? AND {rule.condition} ORDER BY {rule.column} LIMIT ?)",
        (before, STEP_ROWS),
    )
    return done.rowcount
