"""Turns: begun on a message, ended once. Everything of a turn is fenced by its turn_gen."""

import sqlite3

import msgspec

from actors.exceptions import Conflict, Invalid
from actors.messages.rows import (
    ENDED_TURNS,
    Entry,
    HistoryKind,
    InboxState,
    Origin,
    Route,
    TakenTurn,
    ToolCall,
    TurnRow,
    TurnState,
)
from actors.messages.store import (
    AcceptMessage,
    EndTurn,
    FlushPartial,
    GetTurn,
    ListTurns,
    TakeTurn,
    Unfinished,
)
from storage import answers, history, sessions
from storage.columns import Column, encode_or_none
from storage.conversations import Conversations

ENTRIES = Column.of(tuple[Entry, ...])
PARAMS = Column.of(dict)
ROUTE = Column.of(Route)
USAGE = Column.of(dict[str, int])
TOOL_CALLS = Column.of(tuple[ToolCall, ...])

NOT_WELL = "state NOT IN ('admitted', 'running', 'committed')"
"""The condition of an index, and therefore of the queries that it serves."""


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
        tool_calls=TOOL_CALLS.read(row["tool_calls"]) or (),
        usage=USAGE.read(row["usage"]),
        estimated=bool(row["estimated"]),
        origin=Origin(row["origin"]),
        detached=bool(row["detached"]),
        tries=row["tries"],
        admitted_at=row["admitted_at"],
        ended_at=row["ended_at"],
        error=row["error"],
    )


# Beginning


def admit(connection: sqlite3.Connection, request: AcceptMessage, session_id: str) -> None:
    """Add the receipt of a message: its turn, before it begins."""
    connection.execute(
        "INSERT INTO turns (turn_id, session_id, inbox_id, turn_gen, state, origin, detached, tries, admitted_at)"
        " VALUES (?, ?, ?, 0, 'admitted', ?, ?, 0, ?)",
        (request.turn_id, session_id, request.inbox_id, request.origin, request.detached, request.at),
    )


def take_turn(
    connection: sqlite3.Connection, request: TakeTurn, conversations: Conversations
) -> TakenTurn | None:
    """See TakeTurn."""
    message = connection.execute(
        "SELECT seq, inbox_id, origin, peer, entries, params, route, detached, tries, turn_id,"
        " accepted_at FROM inbox"
        " WHERE session_id = ? AND state = 'accepted' ORDER BY seq LIMIT 1",
        (request.session_id,),
    ).fetchone()
    if message is None:
        return None
    _refuse_while_one_runs(connection, request.session_id)
    turn_gen = sessions.next_turn_gen(connection, request.session_id)
    turn_id = _begin(connection, request, message, turn_gen)
    connection.execute(
        "UPDATE inbox SET state = ?, tries = tries + 1, turn_id = ?, settled_at = ? WHERE seq = ?",
        (InboxState.TURNED, turn_id, request.at, message["seq"]),
    )
    said = ENTRIES.read(message["entries"])
    if message["tries"] == 0:
        _write_entries(connection, said, message, request.session_id, turn_id)
        entries = conversations.read(connection, request.session_id)
    else:
        entries = conversations.read_again(connection, request.session_id, message["inbox_id"], said)
    return TakenTurn(
        turn_id=turn_id,
        turn_gen=turn_gen,
        session_id=request.session_id,
        inbox_id=message["inbox_id"],
        origin=Origin(message["origin"]),
        peer=message["peer"],
        route=ROUTE.read(message["route"]),
        history=entries,
        params=PARAMS.read(message["params"]),
        detached=bool(message["detached"]),
        tries=message["tries"] + 1,
    )


def _refuse_while_one_runs(connection: sqlite3.Connection, session_id: str) -> None:
    running = connection.execute(
        "SELECT turn_id FROM turns WHERE session_id = ? AND state = 'running'", (session_id,)
    ).fetchone()
    if running is not None:
        raise Conflict(f"turn {running['turn_id']} of this session is running", code="turn_running")


def _begin(connection: sqlite3.Connection, request: TakeTurn, message: sqlite3.Row, turn_gen: int) -> str:
    if message["turn_id"] is not None:
        admitted = connection.execute(
            "UPDATE turns SET state = 'running', turn_gen = ?, tries = ? WHERE turn_id = ? AND state = 'admitted'",
            (turn_gen, message["tries"] + 1, message["turn_id"]),
        )
        if admitted.rowcount == 1:
            return str(message["turn_id"])
    connection.execute(
        "INSERT INTO turns (turn_id, session_id, inbox_id, turn_gen, state, origin, detached, tries, admitted_at)"
        " VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?)",
        (
            request.turn_id,
            request.session_id,
            message["inbox_id"],
            turn_gen,
            message["origin"],
            message["detached"],
            message["tries"] + 1,
            request.at,
        ),
    )
    return request.turn_id


def _write_entries(
    connection: sqlite3.Connection,
    entries: tuple[Entry, ...],
    message: sqlite3.Row,
    session_id: str,
    turn_id: str,
) -> None:
    for entry in entries:
        history.append(
            connection,
            session_id=session_id,
            entry=entry,
            kind=HistoryKind.MESSAGE,
            turn_id=turn_id,
            inbox_id=message["inbox_id"],
            at=message["accepted_at"],
        )


def flush_partial(connection: sqlite3.Connection, request: FlushPartial) -> None:
    """See FlushPartial."""
    kept = connection.execute(
        "UPDATE turns SET partial = ? WHERE turn_id = ? AND turn_gen = ? AND state = 'running'",
        (request.text, request.turn_id, request.turn_gen),
    )
    if kept.rowcount != 1:
        raise Conflict(f"turn {request.turn_id} is not running under generation {request.turn_gen}")


# Ending


def end_turn(connection: sqlite3.Connection, request: EndTurn) -> TurnRow:
    """See EndTurn."""
    if request.state not in ENDED_TURNS:
        raise Invalid(f"{request.state} is no end of a turn")
    row = connection.execute("SELECT * FROM turns WHERE turn_id = ?", (request.turn_id,)).fetchone()
    if row is None:
        raise Conflict(f"there is no turn {request.turn_id}")
    if row["turn_gen"] != request.turn_gen or row["state"] != TurnState.RUNNING:
        if row["turn_gen"] == request.turn_gen and row["state"] == request.state:
            return turn_row(row)
        raise Conflict(f"turn {request.turn_id} is {row['state']} under generation {row['turn_gen']}")
    ended = _ended(turn_row(row), request)
    connection.execute(
        "UPDATE turns SET state = ?, reason = ?, text = ?, tool_calls = ?, partial = ?, usage = ?, ended_at = ?,"
        " error = ?, estimated = ? WHERE seq = ?",
        (
            ended.state,
            ended.reason,
            ended.text,
            encode_or_none(ended.tool_calls or None),
            ended.partial,
            encode_or_none(ended.usage),
            ended.ended_at,
            ended.error,
            ended.estimated,
            row["seq"],
        ),
    )
    _write_outcome(connection, request, ended.session_id)
    if request.again:
        connection.execute(
            "UPDATE inbox SET state = 'accepted', settled_at = NULL WHERE inbox_id = ? AND turn_id = ?",
            (ended.inbox_id, request.turn_id),
        )
    if ended.origin is Origin.RELAY or request.delivery is not None:
        answers.end_answer(connection, ended, request.delivery, request.at)
    return ended


def _ended(turn: TurnRow, request: EndTurn) -> TurnRow:
    committed = request.state is TurnState.COMMITTED
    return msgspec.structs.replace(
        turn,
        state=request.state,
        reason=request.reason,
        text=request.text if committed else None,
        tool_calls=request.tool_calls if committed else (),
        partial="" if committed else request.interrupted_text or request.text or turn.partial,
        usage=request.usage,
        estimated=request.estimated,
        ended_at=request.at,
        error=request.error,
    )


def _write_outcome(connection: sqlite3.Connection, request: EndTurn, session_id: str) -> None:
    for role, content, calls, kind in (
        ("assistant", request.text, request.tool_calls, HistoryKind.MESSAGE),
        ("assistant", request.interrupted_text, (), HistoryKind.INTERRUPTED),
        ("system", request.notice, (), HistoryKind.NOTICE),
    ):
        if content is not None:
            history.append(
                connection,
                session_id=session_id,
                entry=Entry(role=role, content=content, tool_calls=calls),
                kind=kind,
                turn_id=request.turn_id,
                at=request.at,
            )


def cancel_admitted(connection: sqlite3.Connection, turn_id: str | None, reason: str, at: float) -> None:
    """End the receipt, if there is one, of a message that no turn will take."""
    connection.execute(
        "UPDATE turns SET state = 'cancelled', reason = ?, ended_at = ? WHERE turn_id = ? AND state = 'admitted'",
        (reason, at, turn_id),
    )


# Reading


def get_turn(connection: sqlite3.Connection, request: GetTurn) -> TurnRow | None:
    """See GetTurn."""
    if request.turn_id is not None:
        row = connection.execute("SELECT * FROM turns WHERE turn_id = ?", (request.turn_id,)).fetchone()
    else:
        row = connection.execute(
            "SELECT turns.* FROM inbox JOIN turns ON turns.turn_id = inbox.turn_id WHERE inbox.inbox_id = ?",
            (request.inbox_id,),
        ).fetchone()
    return turn_row(row) if row is not None else None


def list_turns(connection: sqlite3.Connection, request: ListTurns) -> tuple[TurnRow, ...]:
    """See ListTurns."""
    if request.session_id is None and request.states:
        rows = [row for state in request.states for row in _of_state(connection, state, request.limit)]
        rows.sort(key=lambda row: -int(row["seq"]))
    else:
        conditions, values = ["1"], []
        if request.session_id is not None:
            conditions.append("session_id = ?")
            values.append(request.session_id)
        if request.states:
            conditions.append(f"state IN ({', '.join('?' for _ in request.states)})")
            values += request.states
        rows = connection.execute(
            f"SELECT * FROM turns WHERE {' AND '.join(conditions)} ORDER BY seq DESC LIMIT ?",
            [*values, request.limit],
        ).fetchall()
    return tuple(turn_row(row) for row in rows[: request.limit])


def _of_state(connection: sqlite3.Connection, state: TurnState, limit: int) -> list[sqlite3.Row]:
    # The state stands in the text, as only so SQLite sees that a partial index serves.
    well = state in (TurnState.ADMITTED, TurnState.RUNNING, TurnState.COMMITTED)
    condition = f"state = '{state}'" if well else f"state = '{state}' AND {NOT_WELL}"
    return connection.execute(
        f"SELECT * FROM turns WHERE {condition} ORDER BY seq DESC LIMIT ?", (limit,)
    ).fetchall()


def unfinished(
    connection: sqlite3.Connection, request: Unfinished
) -> tuple[tuple[TurnRow, str, Route | None], ...]:
    """See Unfinished."""
    rows = [
        row
        for state in ("admitted", "running")
        for row in connection.execute(
            "SELECT t.*, i.peer AS inbox_peer, i.route AS inbox_route FROM turns t"
            f" JOIN inbox i ON i.inbox_id = t.inbox_id WHERE t.state = '{state}'"
        )
    ]
    rows.sort(key=lambda row: int(row["seq"]))
    return tuple((turn_row(row), row["inbox_peer"], ROUTE.read(row["inbox_route"])) for row in rows)
