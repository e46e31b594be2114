"""Verbs about actors: what runs, and holding or ending one of them."""

from typing import Any

from actors.admin.edges import Call, Verb
from actors.exceptions import Conflict, NotFound
from actors.messages.admin import (
    AdminRequest,
    Answer,
    GetActor,
    ListActors,
    ResumeActor,
    ShowTree,
    StopActor,
    SuspendActor,
)
from actors.messages.lifecycle import ActorInfo, Resume, Suspend
from actors.runtime import Ref

ROOT = "/"

NEVER_HELD = frozenset({"/", "/admin", "/store"})
"""While one of these is suspended nobody could say resume."""


async def list_actors(request: ListActors, call: Call) -> Answer:
    """Return the rows of ``ps``."""
    system = call.edges.system
    inside = request.prefix.rstrip("/") + "/"
    rows = [row for row in system.actors() if row.path == request.prefix or row.path.startswith(inside)]
    return {"actors": rows, "dead_letters": dict(system.dead_letters.counts)}


async def show_tree(request: ShowTree, call: Call) -> Answer:
    """Return the hierarchy: each actor with those under it."""
    return {"tree": hierarchy(call.edges.system.actors())}


async def get_actor(request: GetActor, call: Call) -> Answer:
    """Return one row of ``ps`` with the paths of its children."""
    rows = call.edges.system.actors()
    for row in rows:
        if row.path == request.path:
            return {"actor": row, "children": [child.path for child in rows if child.parent == row.path]}
    raise NotFound(f"there is no actor {request.path}")


async def stop_actor(request: StopActor, call: Call) -> Answer:
    """Stop it, and kill it if it does not end in time."""
    if request.path == ROOT:
        raise Conflict("the root is stopped with the daemon; use system.shutdown")
    status = await call.edges.system.stop(_find(request.path, call), call.budget)
    return {"status": status}


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


def hierarchy(rows: list[ActorInfo]) -> list[dict[str, Any]]:
    """Return the actors without a parent, each with its children inside; siblings by path."""
    nodes: dict[str, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for row in rows:
        nodes[row.path] = {
            "path": row.path,
            "kind": row.kind,
            "state": row.state,
            "depth": row.control_depth + row.ordinary_depth,
            "restarts": row.restarts,
            "children": [],
        }
    for row in rows:
        above = nodes.get(row.parent) if row.parent is not None else None
        (roots if above is None else above["children"]).append(nodes[row.path])
    return roots


def _find(path: str, call: Call) -> Ref:
    ref = call.edges.system.find(path)
    if ref is None:
        raise NotFound(f"there is no actor {path}")
    return ref


ACTOR_VERBS: dict[type[AdminRequest], Verb] = {
    ListActors: list_actors,
    ShowTree: show_tree,
    GetActor: get_actor,
    StopActor: stop_actor,
    SuspendActor: suspend_actor,
    ResumeActor: resume_actor,
}
