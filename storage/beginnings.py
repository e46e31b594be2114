"""
Beginnings of answers among the deliveries: shown while the rest is being made, then edited into what the turn ended with.

A beginning is of use only as long as its message can be edited. One that was not sent is forgotten; so is an end that has
something to say only in its place. Where nobody knows whether a beginning is shown, the end follows it; unless the
beginning says all that the end does: then nobody knows of that either, and it is not said blindly a second time.
"""

import sqlite3

from actors.messages.rows import DeliveryRow, DeliveryState

SHOWN = "begins = 1 AND state = 'delivered' AND message_id IS NOT NULL"
"""The condition of a beginning whose message can be edited."""
VOID = """
begins = 0 AND in_place IS NOT NULL AND content = '' AND state = 'pending' AND settled_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM deliveries b WHERE b.inbox_id = deliveries.inbox_id AND b.begins = 1
    AND (b.state = 'attempting' OR (b.state = 'delivered' AND b.message_id IS NOT NULL))
)
"""
"""The condition of an end that has nothing to say any more."""
DOUBTFUL = """
begins = 0 AND state = 'pending' AND settled_at IS NULL AND EXISTS (
    SELECT 1 FROM deliveries b WHERE b.inbox_id = deliveries.inbox_id AND b.begins = 1 AND b.state = 'unknown'
    AND b.content = deliveries.content
)
"""
"""The condition of an end of which nobody knows whether it is shown, as a beginning that is the same."""


def shown_as(connection: sqlite3.Connection, delivery: DeliveryRow) -> str | None:
    """Return the message that a delivery edits: the newest one with a beginning of its answer."""
    if delivery.begins or delivery.inbox_id is None:
        return None
    row = newest_shown(connection, delivery.inbox_id)
    return str(row["message_id"]) if row is not None else None


def newest_shown(connection: sqlite3.Connection, inbox_id: str) -> sqlite3.Row | None:
    """Return the row of the newest beginning of an answer that can be edited."""
    found: sqlite3.Row | None = connection.execute(
        f"SELECT * FROM deliveries WHERE inbox_id = ? AND {SHOWN} ORDER BY seq DESC LIMIT 1", (inbox_id,)
    ).fetchone()
    return found


def forget_pending(connection: sqlite3.Connection, inbox_id: str) -> None:
    """Forget the beginnings of an answer that were not sent yet."""
    connection.execute(
        "DELETE FROM deliveries WHERE inbox_id = ? AND begins = 1 AND state = 'pending'", (inbox_id,)
    )


def settled(connection: sqlite3.Connection, row: DeliveryRow, at: float) -> None:
    """Follow up the outcome of a beginning."""
    if row.state is DeliveryState.PENDING:
        connection.execute("DELETE FROM deliveries WHERE delivery_id = ?", (row.delivery_id,))
    review(connection, at, "peer = ? AND chat = ?", (row.peer, row.chat))


def review(connection: sqlite3.Connection, at: float, among: str = "1", values: tuple[str, ...] = ()) -> None:
    """Forget the ends that have nothing to say any more, and give up those that may have been said."""
    connection.execute(f"DELETE FROM deliveries WHERE {among} AND {VOID}", values)
    connection.execute(
        "UPDATE deliveries SET state = 'unknown', reason = 'beginning_unknown', settled_at = ?"
        f" WHERE {among} AND {DOUBTFUL}",
        (at, *values),
    )
