"""Quarantines: the open ones, and how the others were lifted."""

import sqlite3

from actors.exceptions import Conflict
from actors.messages.quarantine import (
    Case,
    CaseState,
    ExitCause,
    KeepQuarantine,
    QuarantineReason,
    QuarantineRow,
    ReadQuarantines,
    Subject,
    SubjectKind,
)
from storage import versions


def keep_quarantine(connection: sqlite3.Connection, request: KeepQuarantine) -> QuarantineRow:
    """See KeepQuarantine."""
    row = request.row
    stored = _find(connection, row.quarantine_id)
    if stored is not None and stored.version == row.version + 1 and stored.case == row.case:
        # The answer to the first of them was lost.
        return stored
    if row.version > 0:
        versions.change(
            connection, "quarantines", {"quarantine_id": row.quarantine_id}, row.version, _changing(row.case)
        )
    elif stored is not None:
        raise Conflict(f"the quarantine of {row.case.subject} is stored already", code=versions.CODE)
    else:
        _look_for_another(connection, row)
        _insert(connection, {"quarantine_id": row.quarantine_id, **_fixed(row.case), **_changing(row.case)})
    return QuarantineRow(quarantine_id=row.quarantine_id, version=row.version + 1, case=row.case)


def read_quarantines(connection: sqlite3.Connection, request: ReadQuarantines) -> tuple[QuarantineRow, ...]:
    """See ReadQuarantines."""
    if request.quarantine_id is not None:
        found = _find(connection, request.quarantine_id)
        return (found,) if found is not None else ()
    which = "NOT NULL" if request.closed else "NULL"
    of_name, values = ("AND name = ?", [request.name]) if request.name is not None else ("", [])
    rows = connection.execute(
        f"SELECT * FROM quarantines WHERE ended_at IS {which} {of_name} ORDER BY seq DESC LIMIT ?",
        [*values, request.limit],
    )
    return tuple(_row(row) for row in rows)


def _find(connection: sqlite3.Connection, quarantine_id: str) -> QuarantineRow | None:
    found = connection.execute(
        "SELECT * FROM quarantines WHERE quarantine_id = ?", (quarantine_id,)
    ).fetchone()
    return _row(found) if found is not None else None


def _look_for_another(connection: sqlite3.Connection, row: QuarantineRow) -> None:
    subject = row.case.subject
    found = connection.execute(
        "SELECT generation FROM quarantines WHERE kind = ? AND name = ? AND ended_at IS NULL",
        (subject.kind, subject.name),
    ).fetchone()
    if found is not None and row.case.open:
        raise Conflict(f"{subject.kind} {subject.name} is quarantined already, as generation {found[0]}")


def _insert(connection: sqlite3.Connection, columns: dict[str, object]) -> None:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    connection.execute(
        f"INSERT INTO quarantines (version, {names}) VALUES (1, {marks})", tuple(columns.values())
    )


def _fixed(case: Case) -> dict[str, object]:
    subject = case.subject
    return {
        "kind": subject.kind,
        "name": subject.name,
        "generation": subject.generation,
        "host": case.host,
        "boot_id": case.boot_id,
        "asked_by": case.by,
        "why": case.why,
    }


def _changing(case: Case) -> dict[str, object]:
    return {
        "reason": case.reason,
        "state": case.state,
        "proved": case.proved,
        "since": case.since,
        "attempts": case.attempts,
        "last_answer": case.last_answer,
        "last_try_at": case.last_try_at,
        "cause": case.cause,
        "ended_at": case.ended_at,
        "ended_by": case.ended_by,
    }


def _row(row: sqlite3.Row) -> QuarantineRow:
    subject = Subject(kind=SubjectKind(row["kind"]), name=row["name"], generation=row["generation"])
    return QuarantineRow(
        quarantine_id=row["quarantine_id"],
        version=row["version"],
        case=Case(
            subject=subject,
            host=row["host"],
            boot_id=row["boot_id"],
            by=row["asked_by"],
            why=row["why"],
            reason=QuarantineReason(row["reason"]),
            state=CaseState(row["state"]),
            proved=bool(row["proved"]),
            since=row["since"],
            attempts=row["attempts"],
            last_answer=row["last_answer"],
            last_try_at=row["last_try_at"],
            cause=ExitCause(row["cause"]) if row["cause"] is not None else None,
            ended_at=row["ended_at"],
            ended_by=row["ended_by"],
        ),
    )
