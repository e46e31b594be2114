"""Verbs about quarantines: what is held and why, asking again, and letting go."""

from typing import Any

import msgspec

from actors.admin.edges import Call, Verb
from actors.messages.admin import (
    AdminRequest,
    Answer,
    ListAllQuarantines,
    ReconcileNow,
    ReleaseHeld,
)
from actors.messages.quarantine import (
    ListQuarantines,
    QuarantineRow,
    ReadQuarantines,
    ReconcileQuarantines,
    ReleaseQuarantine,
)


async def list_quarantines(request: ListAllQuarantines, call: Call) -> Answer:
    """Return what is held now, known to the store or not, and if wanted how others were lifted, newest first."""
    rows = await call.edges.quarantine.ask(ListQuarantines(), call.budget)
    held = [row for row in rows if request.name is None or _is_meant(row, request.name)]
    answer = {"quarantines": [_view(row) for row in held]}
    if request.lifted:
        wanted = ReadQuarantines(closed=True, name=request.name, limit=request.limit)
        closed = await call.edges.store.ask(wanted, call.budget)
        if not closed and request.name is not None:
            by_id = await call.edges.store.ask(ReadQuarantines(quarantine_id=request.name), call.budget)
            closed = tuple(row for row in by_id if not row.case.open)
        answer["lifted"] = [_view(row) for row in closed]
    return answer


async def release(request: ReleaseHeld, call: Call) -> Answer:
    """Lift one quarantine."""
    released = ReleaseQuarantine(name=request.name, by=call.caller.name, forced=request.force)
    return {"quarantine": _view(await call.edges.quarantine.ask(released, call.budget))}


async def reconcile(request: ReconcileNow, call: Call) -> Answer:
    """Ask the hosts now instead of when the timer says so."""
    rows = await call.edges.quarantine.ask(ReconcileQuarantines(name=request.name), call.budget)
    return {"quarantines": [_view(row) for row in rows]}


def _is_meant(row: QuarantineRow, name: str) -> bool:
    return row.case.subject.name == name or row.quarantine_id.startswith(name)


def _view(row: QuarantineRow) -> dict[str, Any]:
    case: dict[str, Any] = msgspec.to_builtins(row.case)
    subject = case.pop("subject")
    return {"quarantine_id": row.quarantine_id, "version": row.version, **subject, **case}


QUARANTINE_VERBS: dict[type[AdminRequest], Verb] = {
    ListAllQuarantines: list_quarantines,
    ReleaseHeld: release,
    ReconcileNow: reconcile,
}
