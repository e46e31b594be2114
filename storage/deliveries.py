"""Deliveries: one text for one chat, in order, and what became of it."""

import sqlite3

import msgspec

from actors.exceptions import Conflict, NotFound
from actors.messages.rows import DeliveryRow, DeliveryState, NewDelivery, Route
from actors.messages.store import (
    AdvanceDelivery,
    ClaimDeliveries,
    ListDeliveries,
    LoseAttempts,
    PeersWithDeliveries,
    PutDelivery,
    SettleDelivery,
)
from storage import beginnings
from storage.columns import Column, encode

ROUTE = Column.of(Route)

CLAIMABLE = """
WITH RECURSIVE chats (chat) AS (
    SELECT min(chat) FROM deliveries WHERE settled_at IS NULL AND state = 'pending' AND peer = ?1
    UNION ALL
    SELECT (
        SELECT min(chat) FROM deliveries
        WHERE settled_at IS NULL AND state = 'pending' AND peer = ?1 AND chat > chats.chat
    )
    FROM chats WHERE chats.chat IS NOT NULL
)
SELECT chat, (
    SELECT min(seq) FROM deliveries
    WHERE settled_at IS NULL AND state = 'pending' AND peer = ?1 AND chat = chats.chat
) AS seq
FROM chats
WHERE chat IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM deliveries
    WHERE settled_at IS NULL AND state = 'attempting' AND peer = ?1 AND chat = chats.chat
)
ORDER BY seq
"""
"""
The oldest pending delivery of each chat. It jumps from chat to chat along the index, so that a chat with ten thousand
of them costs as much as one with a single one.
"""

LEAVES = {
    DeliveryState.PENDING: {DeliveryState.DEAD},
    DeliveryState.ATTEMPTING: {
        DeliveryState.PENDING,
        DeliveryState.UNKNOWN,
        DeliveryState.DELIVERED,
        DeliveryState.DEAD,
    },
    DeliveryState.UNKNOWN: {DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.DEAD},
    DeliveryState.DELIVERED: set(),
    DeliveryState.DEAD: set(),
}
"""Which states a settlement may lead to from each."""


def delivery_row(row: sqlite3.Row) -> DeliveryRow:
    """Return a row as actors see it."""
    return DeliveryRow(
        delivery_id=row["delivery_id"],
        peer=row["peer"],
        chat=row["chat"],
        route=ROUTE.read(row["route"]),
        content=row["content"],
        turn_id=row["turn_id"],
        state=DeliveryState(row["state"]),
        reason=row["reason"],
        attempts=row["attempts"],
        parts_done=row["parts_done"],
        message_id=row["message_id"],
        created_at=row["created_at"],
        settled_at=row["settled_at"],
        inbox_id=row["inbox_id"],
        begins=bool(row["begins"]),
        in_place=row["in_place"],
    )


def insert(
    connection: sqlite3.Connection,
    delivery: NewDelivery,
    at: float,
    *,
    turn_id: str | None = None,
    inbox_id: str | None = None,
    begins: bool = False,
) -> None:
    """Add a pending delivery, unless it is there already."""
    connection.execute(
        "INSERT INTO deliveries (delivery_id, peer, chat, route, content, turn_id, state, created_at, inbox_id,"
        " begins, in_place)"
        " VALUES (?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?) ON CONFLICT (delivery_id) DO NOTHING",
        (
            delivery.delivery_id,
            delivery.peer,
            delivery.route.chat,
            encode(delivery.route),
            delivery.content,
            turn_id,
            at,
            inbox_id,
            begins,
            delivery.in_place,
        ),
    )


def put_delivery(connection: sqlite3.Connection, request: PutDelivery) -> DeliveryRow:
    """See PutDelivery."""
    insert(connection, request.delivery, request.at)
    return get(connection, request.delivery.delivery_id)


def claim_deliveries(connection: sqlite3.Connection, request: ClaimDeliveries) -> tuple[DeliveryRow, ...]:
    """See ClaimDeliveries."""
    busy = frozenset(request.busy_chats)
    found = connection.execute(CLAIMABLE, (request.peer,)).fetchall()
    claimed = [row["seq"] for row in found if row["chat"] not in busy][: request.limit]
    return tuple(_claim(connection, seq) for seq in claimed)


def _claim(connection: sqlite3.Connection, seq: int) -> DeliveryRow:
    row = _by_seq(connection, seq)
    claimed = msgspec.structs.replace(
        row,
        state=DeliveryState.ATTEMPTING,
        attempts=row.attempts + 1,
        reason=None,
        edits=beginnings.shown_as(connection, row),
    )
    connection.execute(
        "UPDATE deliveries SET state = 'attempting', attempts = ?, reason = NULL WHERE seq = ?",
        (claimed.attempts, seq),
    )
    return claimed


def advance_delivery(connection: sqlite3.Connection, request: AdvanceDelivery) -> None:
    """See AdvanceDelivery."""
    connection.execute(
        "UPDATE deliveries SET parts_done = ? WHERE delivery_id = ? AND state = 'attempting' AND parts_done < ?",
        (request.parts_done, request.delivery_id, request.parts_done),
    )


def settle_delivery(connection: sqlite3.Connection, request: SettleDelivery) -> DeliveryRow:
    """See SettleDelivery."""
    row = get(connection, request.delivery_id)
    if request.attempt is not None and request.attempt != row.attempts:
        raise Conflict(f"delivery {request.delivery_id} has been claimed again")
    if row.state is request.state:
        return row
    if request.state not in LEAVES[row.state]:
        raise Conflict(f"delivery {request.delivery_id} is {row.state}")
    settled = msgspec.structs.replace(
        row,
        state=request.state,
        reason=request.reason,
        message_id=request.message_id,
        settled_at=None if request.state is DeliveryState.PENDING else request.at,
    )
    connection.execute(
        "UPDATE deliveries SET state = ?, reason = ?, message_id = ?, settled_at = ? WHERE delivery_id = ?",
        (settled.state, settled.reason, settled.message_id, settled.settled_at, settled.delivery_id),
    )
    if settled.begins:
        beginnings.settled(connection, settled, request.at)
    return settled


def lose_attempts(connection: sqlite3.Connection, request: LoseAttempts) -> int:
    """See LoseAttempts."""
    done = connection.execute(
        "UPDATE deliveries SET state = 'unknown', reason = 'restart', settled_at = ?"
        " WHERE state = 'attempting' AND settled_at IS NULL",
        (request.at,),
    )
    if done.rowcount:
        beginnings.review(connection, request.at)
        return done.rowcount
    # Nothing, or all of it the first time that this was asked.
    row = connection.execute(
        "SELECT count(*) FROM deliveries"
        " WHERE state = 'unknown' AND settled_at IS NOT NULL AND reason = 'restart' AND settled_at = ?",
        (request.at,),
    ).fetchone()
    return int(row[0])


def expire(
    connection: sqlite3.Connection, *, pending_before: float, unknown_before: float, at: float, limit: int
) -> tuple[DeliveryRow, ...]:
    """
    Give up what has waited for too long: of the oldest ``limit`` pending and unknown ones each. Return the dead.

    Nothing is dropped: a dead delivery stays to be seen, with its reason.
    """
    expired = _overdue(connection, "state = 'pending'", "created_at", pending_before, limit)
    unseen = _overdue(
        connection, "state = 'unknown' AND settled_at IS NOT NULL", "settled_at", unknown_before, limit
    )
    return tuple(
        _bury(connection, seq, reason, at)
        for seqs, reason in ((expired, "expired"), (unseen, "outcome_unknown"))
        for seq in seqs
    )


def _overdue(
    connection: sqlite3.Connection, condition: str, column: str, before: float, limit: int
) -> list[int]:
    rows = connection.execute(
        f"SELECT seq FROM (SELECT seq, {column} FROM deliveries WHERE {condition} ORDER BY seq LIMIT ?)"
        f" WHERE {column} < ?",
        (limit, before),
    )
    return [row["seq"] for row in rows]


def _bury(connection: sqlite3.Connection, seq: int, reason: str, at: float) -> DeliveryRow:
    connection.execute(
        "UPDATE deliveries SET state = 'dead', reason = ?, settled_at = ? WHERE seq = ?", (reason, at, seq)
    )
    return _by_seq(connection, seq)


def list_deliveries(connection: sqlite3.Connection, request: ListDeliveries) -> tuple[DeliveryRow, ...]:
    """See ListDeliveries."""
    rows = [
        row
        for state in request.states or DeliveryState
        for row in _of_state(connection, state, request.peer, request.limit)
    ]
    rows.sort(key=lambda row: -int(row["seq"]))
    return tuple(delivery_row(row) for row in rows[: request.limit])


def _of_state(
    connection: sqlite3.Connection, state: DeliveryState, peer: str | None, limit: int
) -> list[sqlite3.Row]:
    # Each condition is that of the index which serves.
    settled = "IS NULL" if state in (DeliveryState.PENDING, DeliveryState.ATTEMPTING) else "IS NOT NULL"
    of_peer, values = ("AND peer = ?", [peer]) if peer is not None else ("", [])
    return connection.execute(
        f"SELECT * FROM deliveries WHERE state = ? AND settled_at {settled} {of_peer} ORDER BY seq DESC LIMIT ?",
        [state, *values, limit],
    ).fetchall()


def peers_with_deliveries(connection: sqlite3.Connection, request: PeersWithDeliveries) -> tuple[str, ...]:
    """See PeersWithDeliveries."""
    rows = connection.execute(
        "SELECT DISTINCT peer FROM deliveries WHERE settled_at IS NULL AND state = 'pending' ORDER BY peer"
    )
    return tuple(row["peer"] for row in rows)


def get(connection: sqlite3.Connection, delivery_id: str) -> DeliveryRow:
    row = connection.execute("SELECT * FROM deliveries WHERE delivery_id = ?", (delivery_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    return delivery_row(row)


def _by_seq(connection: sqlite3.Connection, seq: int) -> DeliveryRow:
    return delivery_row(connection.execute("SELECT * FROM deliveries WHERE seq = ?", (seq,)).fetchone())
