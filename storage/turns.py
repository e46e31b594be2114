"""Turns: begun on a message, ended once."""

import sqlite3

from actors.exceptions import Conflict, NotFound
from actors.messages.rows import (
    Entry,
    HistoryKind,
    Origin,
    Route,
    TakenTurn,
    TurnRow,
    TurnState,
)
from actors.messages.store import EndTurn, FlushPartial, GetTurn, ListTurns, TakeTurn, Unfinished
from storage import deliveries, history
from storage.columns import Column, encode_or_none

ENTRIES = Column.of(tuple[Entry, ...])
PARAMS = Column.of(dict)
ROUTE = Column.of(Route)
USAGE = Column.of(dict[str, int])


def turn_row(row: sqlite3.Row) -> TurnRow:
    """Return a row as actors see it."""
    return TurnRow(
        turn_id=row["turn_id"],
        session_id=row["session_id"],
        inbox_id=row["inbox_id"],
        turn_gen=row["turn_gen"],
        state=TurnState(row["state"]),
        reason=row["reason"],
        partial=row["partial"],
        text=row["text"],
        usage=USAGE.read(row["usage"]),
        origin=Origin(row["origin"]),
        detached=bool(row["detached"]),
        tries=row["tries"],
        admitted_at=row["admitted_at"],
        ended_at=row["ended_at"],
    )


def take_turn(connection: sqlite3.Connection, request: TakeTurn) -> TakenTurn | None:
    """See TakeTurn."""
    row = connection.execute(
        "SELECT * FROM inbox WHERE session_id = ? AND state = 'accepted' ORDER BY seq LIMIT 1",
        (request.session_id,),
    ).fetchone()
    if row is None:
        return None
    running = connection.execute(
        "SELECT turn_id FROM turns WHERE session_id = ? AND state = 'running'", (request.session_id,)
    ).fetchone()
    if running is not None:
        raise Conflict(f"turn {running['turn_id']} of this session runs already")
    connection.execute(
        "UPDATE inbox SET state = 'turned', tries = tries + 1, settled_at = ? WHERE inbox_id = ?",
        (request.at, row["inbox_id"]),
    )
    connection.execute(
        "UPDATE sessions SET turn_gen = turn_gen + 1, version = version + 1 WHERE session_id = ?",
        (request.session_id,),
    )
    session = connection.execute(
        "SELECT turn_gen FROM sessions WHERE session_id = ?", (request.session_id,)
    ).fetchone()
    turn_id = _begin(connection, request, row, session["turn_gen"])
    if row["tries"] == 0:
        _write_entries(connection, request, row, turn_id)
    return TakenTurn(
        turn_id=turn_id,
        turn_gen=session["turn_gen"],
        session_id=request.session_id,
        inbox_id=row["inbox_id"],
        origin=Origin(row["origin"]),
        peer=row["peer"],
        route=ROUTE.read(row["route"]),
        history=history.conversation(connection, request.session_id),
        params=PARAMS.read(row["params"]),
        detached=bool(row["detached"]),
        tries=row["tries"] + 1,
    )


def _begin(connection: sqlite3.Connection, request: TakeTurn, row: sqlite3.Row, turn_gen: int) -> str:
    admitted = connection.execute(
        "SELECT turn_id FROM turns WHERE inbox_id = ? AND state = 'admitted'", (row["inbox_id"],)
    ).fetchone()
    if admitted is not None:
        connection.execute(
            "UPDATE turns SET state = 'running', turn_gen = ?, tries = ? WHERE turn_id = ?",
            (turn_gen, row["tries"] + 1, admitted["turn_id"]),
        )
        return str(admitted["turn_id"])
    connection.execute(
        "INSERT INTO turns (turn_id, session_id, inbox_id, turn_gen, state, origin, detached, tries, admitted_at)"
        " VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?)",
        (
            request.turn_id,
            request.session_id,
            row["inbox_id"],
            turn_gen,
            row["origin"],
            row["detached"],
            row["tries"] + 1,
            request.at,
        ),
    )
    return request.turn_id


def _write_entries(connection: sqlite3.Connection, request: TakeTurn, row: sqlite3.Row, turn_id: str) -> None:
    for entry in ENTRIES.read(row["entries"]):
        history.append(
            connection,
            session_id=request.session_id,
            role=entry.role,
            content=entry.content,
            kind=HistoryKind.MESSAGE,
            turn_id=turn_id,
            inbox_id=row["inbox_id"],
            at=row["accepted_at"],
        )


def flush_partial(connection: sqlite3.Connection, request: FlushPartial) -> None:
    """See FlushPartial."""
    connection.execute(
        "UPDATE turns SET partial = ? WHERE turn_id = ? AND turn_gen = ? AND state = 'running'",
        (request.text, request.turn_id, request.turn_gen),
    )


def end_turn(connection: sqlite3.Connection, request: EndTurn) -> TurnRow:
    """See EndTurn."""
    row = connection.execute("SELECT * FROM turns WHERE turn_id = ?", (request.turn_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no turn {request.turn_id}")
    if row["turn_gen"] != request.turn_gen or row["state"] != TurnState.RUNNING:
        if row["turn_gen"] == request.turn_gen and row["state"] == request.state:
            return turn_row(row)
        raise Conflict(f"turn {request.turn_id} is {row['state']} under generation {row['turn_gen']}")
    connection.execute(
        "UPDATE turns SET state = ?, reason = ?, text = ?, usage = ?, ended_at = ? WHERE turn_id = ?",
        (
            request.state,
            request.reason,
            request.text,
            encode_or_none(request.usage),
            request.at,
            request.turn_id,
        ),
    )
    for role, content, kind in (
        ("assistant", request.text, HistoryKind.MESSAGE),
        ("assistant", request.interrupted_text, HistoryKind.INTERRUPTED),
        ("system", request.notice, HistoryKind.NOTICE),
    ):
        if content is not None:
            history.append(
                connection,
                session_id=row["session_id"],
                role=role,
                content=content,
                kind=kind,
                turn_id=request.turn_id,
                at=request.at,
            )
    if request.delivery is not None:
        deliveries.insert(connection, request.delivery, request.turn_id, request.at)
    connection.execute(
        "UPDATE sessions SET active_at = ?, version = version + 1 WHERE session_id = ?",
        (request.at, row["session_id"]),
    )
    return turn_row(
        connection.execute("SELECT * FROM turns WHERE turn_id = ?", (request.turn_id,)).fetchone()
    )


def get_turn(connection: sqlite3.Connection, request: GetTurn) -> TurnRow | None:
    """See GetTurn."""
    if request.turn_id is not None:
        row = connection.execute("SELECT * FROM turns WHERE turn_id = ?", (request.turn_id,)).fetchone()
    else:
        row = connection.execute(
            "SELECT * FROM turns WHERE inbox_id = ? ORDER BY turn_gen DESC LIMIT 1", (request.inbox_id,)
        ).fetchone()
    return turn_row(row) if row is not None else None


def list_turns(connection: sqlite3.Connection, request: ListTurns) -> tuple[TurnRow, ...]:
    """See ListTurns."""
    conditions, values = ["1"], []
    if request.session_id is not None:
        conditions.append("session_id = ?")
        values.append(request.session_id)
    if request.states:
        conditions.append(f"state IN ({', '.join('?' for _ in request.states)})")
        values += request.states
    rows = connection.execute(
        f"SELECT * FROM turns WHERE {' AND '.join(conditions)} ORDER BY admitted_at DESC, turn_gen DESC LIMIT ?",
        [*values, request.limit],
    )
    return tuple(turn_row(row) for row in rows)


def unfinished(
    connection: sqlite3.Connection, request: Unfinished
) -> tuple[tuple[TurnRow, str, Route | None], ...]:
    """See Unfinished."""
    rows = connection.execute(
        "SELECT t.*, i.peer AS inbox_peer, i.route AS inbox_route FROM turns t JOIN inbox i ON i.inbox_id = t.inbox_id"
        " WHERE t.state IN ('admitted', 'running') ORDER BY t.admitted_at"
    )
    return tuple((turn_row(row), row["inbox_peer"], ROUTE.read(row["inbox_route"])) for row in rows)
