"""Verbs about actors: what runs, and holding or ending one of them."""

from typing import Any

from actors.admin.edges import Call, Verb
from actors.admin.selection import depth, select
from actors.exceptions import Conflict, Invalid, NotFound
from actors.messages.admin import (
    AdminRequest,
    Answer,
    GetActor,
    ListActors,
    RestartActor,
    ResumeActor,
    ShowTree,
    StopActor,
    SuspendActor,
    TraceActor,
)
from actors.messages.lifecycle import ActorInfo, DownReason, Resume, Status, StopStatus, Suspend
from actors.runtime import Ref

NEVER_HELD = frozenset({"/", "/admin", "/store"})
"""While one of these is suspended nobody could say resume."""

NEVER_STOPPED = {
    "/": "it has no supervisor, and ends with the daemon; use system.shutdown",
    "/admin": "it carries this request out, and would not be there to answer it",
}

NEVER_RESTARTED = NEVER_STOPPED | {
    "/front": "it carries this connection, and would not be there to answer on it; actors.stop does the same unanswered",
}
"""
Everything else is: what is sent to a supervised actor meanwhile waits in its mailbox, that of /store too, which first
finishes and answers the batch in hand.
"""

STATES = tuple(status.name.lower() for status in Status)
DOWN = Status.DOWN.name.lower()
QUARANTINED = Status.QUARANTINED.name.lower()


async def list_actors(request: ListActors, call: Call) -> Answer:
    """
    Return the rows of ``ps``, read in one pass, and how many there are besides those shown.

    Raises Invalid for a state that no actor can be in. A kind is as good as any other: that of a session is known only
    while one lives.
    """
    if unknown := [state for state in request.states if state not in STATES]:
        raise Invalid(f"there is no state {unknown[0]!r}; there are: {', '.join(STATES)}")
    system = call.edges.system
    rows = system.actors()
    return {
        "actors": select(rows, request),
        "total": len(rows),
        "dead_letters": dict(system.dead_letters.counts),
    }


async def show_tree(request: ShowTree, call: Call) -> Answer:
    """Return the hierarchy: each actor with those under it."""
    return {"tree": hierarchy(call.edges.system.actors())}


async def get_actor(request: GetActor, call: Call) -> Answer:
    """Return one row of ``ps`` with the paths of its children."""
    rows = call.edges.system.actors()
    for row in rows:
        if row.path == request.path:
            return {"actor": row, "children": [child.path for child in rows if child.parent == row.path]}
    raise _unknown(request.path)


async def stop_actor(request: StopActor, call: Call) -> Answer:
    """Stop it, and kill it if it does not end in time."""
    if request.path in NEVER_STOPPED:
        raise Conflict(f"{request.path} is not stopped: {NEVER_STOPPED[request.path]}")
    ref = _find(request.path, call)
    _refuse_quarantined(request.path, call)
    if _row(request.path, call).state == DOWN:
        raise Conflict(f"{request.path} has ended already; its supervisor is about to start it again")
    status = await call.edges.system.stop(ref, call.budget.at_most(call.settings.stop_s), by=call.caller.name)
    return {"status": status}


async def restart_actor(request: RestartActor, call: Call) -> Answer:
    """
    Stop it as ``actors.stop`` does, and answer when its supervisor has started it again.

    One whose end is not certain is not started beside itself: it is left to its supervisor, and the answer says so.
    """
    system = call.edges.system
    if request.path in NEVER_RESTARTED:
        raise Conflict(f"{request.path} is not restarted: {NEVER_RESTARTED[request.path]}")
    ref, row = _find(request.path, call), _row(request.path, call)
    _refuse_quarantined(request.path, call)
    if not system.supervised(request.path):
        raise Conflict(
            f"no supervisor would start {request.path} again; actors.stop ends it, and it is made anew when it is needed"
        )
    if row.state != DOWN:
        budget = call.budget.at_most(call.settings.stop_s)
        status = await system.stop(ref, budget, DownReason.RESTART, by=call.caller.name)
        if status is StopStatus.STILL_ALIVE:
            return {"status": status, "incarnation": row.incarnation}
    await ref.started(call.budget, after=row.incarnation)
    return {"status": "restarted", "incarnation": _row(request.path, call).incarnation}


async def suspend_actor(request: SuspendActor, call: Call) -> Answer:
    """Hold its ordinary lane."""
    if request.path in NEVER_HELD:
        raise Conflict(f"{request.path} is not suspended: it could not be told to go on")
    await _find(request.path, call).ask(Suspend(), call.budget)
    return {"state": "suspended"}


async def resume_actor(request: ResumeActor, call: Call) -> Answer:
    """Let it go on."""
    await _find(request.path, call).ask(Resume(), call.budget)
    return {"state": "running"}


async def trace_actor(request: TraceActor, call: Call) -> Answer:
    """Say that it may be traced: who asked carries it out, as it ends with the connection."""
    _find(request.path, call)
    return {"path": request.path, "count": request.count, "seconds": request.seconds}


def hierarchy(rows: list[ActorInfo]) -> list[dict[str, Any]]:
    """Return the actors without a parent, each with its children inside; siblings by path."""
    nodes: dict[str, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for row in rows:
        nodes[row.path] = {
            "path": row.path,
            "kind": row.kind,
            "state": row.state,
            "depth": depth(row),
            "restarts": row.restarts,
            "children": [],
        }
    for row in rows:
        above = nodes.get(row.parent) if row.parent is not None else None
        (roots if above is None else above["children"]).append(nodes[row.path])
    return roots


def _refuse_quarantined(path: str, call: Call) -> None:
    if _row(path, call).state == QUARANTINED:
        raise Conflict(
            f"{path} is quarantined and does not run: quarantine.list says why, quarantine.release starts it",
            code="quarantined",
        )


def _row(path: str, call: Call) -> ActorInfo:
    row = call.edges.system.info(path)
    if row is None:
        raise _unknown(path)
    return row


def _find(path: str, call: Call) -> Ref:
    ref = call.edges.system.find(path)
    if ref is None:
        raise _unknown(path)
    return ref


def _unknown(path: str) -> NotFound:
    hint = "" if path.startswith("/") else f"; a path begins with a slash: /{path}"
    return NotFound(f"there is no actor {path}{hint}")


ACTOR_VERBS: dict[type[AdminRequest], Verb] = {
    ListActors: list_actors,
    ShowTree: show_tree,
    GetActor: get_actor,
    StopActor: stop_actor,
    RestartActor: restart_actor,
    SuspendActor: suspend_actor,
    ResumeActor: resume_actor,
    TraceActor: trace_actor,
}
