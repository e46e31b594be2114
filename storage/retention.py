"""
How long rows are kept; enforced in steps so small that nobody waits for them.

Sessions, their bindings and history stay until somebody deletes them. So do peers and keys, revoked ones too: a new
peer must not inherit the chats of an old name, nor a revoked key come back with a file that somebody kept.
"""

import sqlite3

import msgspec

from actors.messages.rows import DeliveryRow
from actors.messages.store import Write
from storage import deliveries
from storage.settings import RetentionSettings

HOUR = 3600.0
DAY = 24 * HOUR
STEP_ROWS = 200

UNTIL_DELETED = frozenset(
    {"sessions", "bindings", "history", "peers", "peer_secrets", "peer_identities", "keys"}
)
"""Tables without a rule."""


class Retain(Write["Retained"], frozen=True, kw_only=True):
    """Look at the STEP_ROWS oldest rows of each rule and let the expired ones go."""


class Retained(msgspec.Struct, frozen=True):
    """What a step did."""

    gone: int
    died: tuple[DeliveryRow, ...]
    """Deliveries that are dead from now on."""
    more: bool
    """Another step may find more."""


class Rule(msgspec.Struct, frozen=True):
    """
    Rows of ``table`` for which ``condition`` holds go ``seconds`` after ``column``.

    The oldest are looked for by seq ``among`` rows that an index, or the table itself, has in that order.
    """

    table: str
    column: str
    seconds: float
    among: str = "1"
    condition: str = "1"


def rules(settings: RetentionSettings) -> tuple[Rule, ...]:
    """Return the rules, with the user's numbers."""

    def settled(state: str) -> str:
        return f"state = '{state}' AND settled_at IS NOT NULL"

    return (
        Rule("seen", "at", settings.dedupe_h * HOUR),
        # The newest event stays: its number is where the next start goes on.
        Rule("events", "at", settings.events_days * DAY, condition="seq < (SELECT max(seq) FROM events)"),
        Rule("deliveries", "settled_at", settings.delivered_days * DAY, among=settled("delivered")),
        Rule("deliveries", "settled_at", settings.dead_days * DAY, among=settled("dead")),
        # What makes a repetition a duplicate points to the message.
        Rule(
            "inbox",
            "accepted_at",
            max(settings.inbox_days * DAY, settings.dedupe_h * HOUR),
            condition="state <> 'accepted'",
        ),
        Rule("quarantines", "ended_at", settings.quarantines_days * DAY, among="ended_at IS NOT NULL"),
        Rule("turns", "admitted_at", settings.turns_days * DAY, condition="ended_at IS NOT NULL"),
    )


def retain(connection: sqlite3.Connection, request: Retain, settings: RetentionSettings) -> Retained:
    """See Retain."""
    gone = [_delete(connection, rule, request.at - rule.seconds) for rule in rules(settings)]
    died = deliveries.expire(
        connection,
        pending_before=request.at - settings.pending_h * HOUR,
        unknown_before=request.at - settings.unknown_h * HOUR,
        at=request.at,
        limit=STEP_ROWS,
    )
    return Retained(sum(gone), died, max(*gone, len(died)) >= STEP_ROWS)


def _delete(connection: sqlite3.Connection, rule: Rule, before: float) -> int:
    done = connection.execute(
        f"DELETE FROM {rule.table} WHERE seq IN"
        f" (SELECT seq FROM (SELECT * FROM {rule.table} WHERE {rule.among} ORDER BY seq LIMIT {STEP_ROWS})"
        f" WHERE {rule.column} < ? AND {rule.condition})",
        (before,),
    )
    return done.rowcount
