"""Answers to relay messages as deliveries: their beginning while a turn runs, the whole at its end."""

import sqlite3

from actors.exceptions import Conflict
from actors.messages.rows import DeliveryRow, NewDelivery, TurnRow
from actors.messages.store import BeginAnswer, WithdrawBeginning
from storage import beginnings, deliveries


def begin_answer(connection: sqlite3.Connection, request: BeginAnswer) -> DeliveryRow:
    """See BeginAnswer."""
    turn = connection.execute(
        "SELECT inbox_id, turn_gen, state FROM turns WHERE turn_id = ?", (request.turn_id,)
    ).fetchone()
    if turn is None or turn["turn_gen"] != request.turn_gen or turn["state"] != "running":
        raise Conflict(f"turn {request.turn_id} is not running under generation {request.turn_gen}")
    shown = beginnings.newest_shown(connection, turn["inbox_id"])
    if shown is not None:
        return deliveries.delivery_row(shown)
    deliveries.insert(
        connection,
        request.delivery,
        request.at,
        turn_id=request.turn_id,
        inbox_id=turn["inbox_id"],
        begins=True,
    )
    return deliveries.get(connection, request.delivery.delivery_id)


def withdraw_beginning(connection: sqlite3.Connection, request: WithdrawBeginning) -> bool:
    """See WithdrawBeginning."""
    connection.execute(
        "DELETE FROM deliveries WHERE delivery_id = ? AND begins = 1 AND state = 'pending'",
        (request.delivery_id,),
    )
    left = connection.execute("SELECT 1 FROM deliveries WHERE delivery_id = ?", (request.delivery_id,))
    return left.fetchone() is None


def end_answer(
    connection: sqlite3.Connection, turn: TurnRow, delivery: NewDelivery | None, at: float
) -> None:
    """Put the whole answer in the place of its beginning: a beginning that was not sent will not be."""
    beginnings.forget_pending(connection, turn.inbox_id)
    if delivery is None:
        return
    deliveries.insert(connection, delivery, at, turn_id=turn.turn_id, inbox_id=turn.inbox_id)
    beginnings.review(connection, at, "delivery_id = ?", (delivery.delivery_id,))
