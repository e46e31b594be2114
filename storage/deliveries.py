"""Deliveries: one text for one chat, in order, and what became of it."""

import sqlite3

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
from storage.columns import Column, encode

ROUTE = Column.of(Route)

CLAIMABLE = """
SELECT d.* FROM deliveries d
WHERE d.peer = ? AND d.state = 'pending' AND NOT EXISTS (
    SELECT 1 FROM deliveries o
    WHERE o.peer = d.peer AND o.chat = d.chat AND o.state IN ('pending', 'attempting')
        AND (o.seq < d.seq OR o.state = 'attempting'))
ORDER BY d.seq LIMIT ?
"""


def chat_of(route: Route) -> str:
    """Return the chat in which a route's deliveries keep their order."""
    return "\x1f".join((route.platform, route.scope_id or "", route.chat_id, route.thread_id or ""))


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
    )


def insert(connection: sqlite3.Connection, delivery: NewDelivery, turn_id: str | None, at: float) -> None:
    """Add a pending delivery, unless it is there already."""
    connection.execute(
        "INSERT INTO deliveries (delivery_id, peer, chat, route, content, turn_id, state, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, 'pending', ?) ON CONFLICT (delivery_id) DO NOTHING",
        (
            delivery.delivery_id,
            delivery.peer,
            chat_of(delivery.route),
            encode(delivery.route),
            delivery.content,
            turn_id,
            at,
        ),
    )


def put_delivery(connection: sqlite3.Connection, request: PutDelivery) -> DeliveryRow:
    """See PutDelivery."""
    insert(connection, request.delivery, None, request.at)
    return _get(connection, request.delivery.delivery_id)


def claim_deliveries(connection: sqlite3.Connection, request: ClaimDeliveries) -> tuple[DeliveryRow, ...]:
    """See ClaimDeliveries."""
    rows = connection.execute(CLAIMABLE, (request.peer, request.limit + len(request.busy_chats))).fetchall()
    claimed = [row for row in rows if row["chat"] not in request.busy_chats][: request.limit]
    connection.executemany(
        "UPDATE deliveries SET state = 'attempting', attempts = attempts + 1 WHERE seq = ?",
        [(row["seq"],) for row in claimed],
    )
    return tuple(_get(connection, row["delivery_id"]) for row in claimed)


def advance_delivery(connection: sqlite3.Connection, request: AdvanceDelivery) -> None:
    """See AdvanceDelivery."""
    connection.execute(
        "UPDATE deliveries SET parts_done = ? WHERE delivery_id = ? AND state = 'attempting'",
        (request.parts_done, request.delivery_id),
    )


def settle_delivery(connection: sqlite3.Connection, request: SettleDelivery) -> DeliveryRow:
    """See SettleDelivery."""
    row = _get(connection, request.delivery_id)
    if row.state is not DeliveryState.ATTEMPTING:
        if row.state is request.state:
            return row
        raise Conflict(f"delivery {request.delivery_id} is {row.state}")
    settled = request.state is not DeliveryState.PENDING
    connection.execute(
        "UPDATE deliveries SET state = ?, reason = ?, message_id = ?, settled_at = ? WHERE delivery_id = ?",
        (
            request.state,
            request.reason,
            request.message_id,
            request.at if settled else None,
            request.delivery_id,
        ),
    )
    return _get(connection, request.delivery_id)


def lose_attempts(connection: sqlite3.Connection, request: LoseAttempts) -> int:
    """See LoseAttempts."""
    done = connection.execute(
        "UPDATE deliveries SET state = 'unknown', reason = 'restart', settled_at = ? WHERE state = 'attempting'",
        (request.at,),
    )
    return done.rowcount


def list_deliveries(connection: sqlite3.Connection, request: ListDeliveries) -> tuple[DeliveryRow, ...]:
    """See ListDeliveries."""
    conditions: list[str] = ["1"]
    values: list[str] = []
    if request.peer is not None:
        conditions.append("peer = ?")
        values.append(request.peer)
    if request.states:
        conditions.append(f"state IN ({', '.join('?' for _ in request.states)})")
        values += request.states
    rows = connection.execute(
        f"SELECT * FROM deliveries WHERE {' AND '.join(conditions)} ORDER BY seq DESC LIMIT ?",
        [*values, request.limit],
    )
    return tuple(delivery_row(row) for row in rows)


def peers_with_deliveries(connection: sqlite3.Connection, request: PeersWithDeliveries) -> tuple[str, ...]:
    """See PeersWithDeliveries."""
    rows = connection.execute("SELECT DISTINCT peer FROM deliveries WHERE state = 'pending' ORDER BY peer")
    return tuple(row["peer"] for row in rows)


def _get(connection: sqlite3.Connection, delivery_id: str) -> DeliveryRow:
    row = connection.execute("SELECT * FROM deliveries WHERE delivery_id = ?", (delivery_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    return delivery_row(row)
