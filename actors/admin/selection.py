"""Which actors a list shows, and in which order: pure."""

from collections.abc import Callable

from actors.messages.admin import ActorOrder, ListActors
from actors.messages.lifecycle import ActorInfo


def depth(row: ActorInfo) -> int:
    """Return how many messages wait for an actor, in all lanes."""
    return row.control_depth + row.ordinary_depth


_KEYS: dict[ActorOrder, Callable[[ActorInfo], float]] = {
    ActorOrder.DEPTH: depth,
    ActorOrder.OLDEST: lambda row: row.oldest_age,
    ActorOrder.BUSY: lambda row: row.busy_for,
    ActorOrder.HANDLED: lambda row: row.handled,
    ActorOrder.RESTARTS: lambda row: row.restarts,
    ActorOrder.AGE: lambda row: row.age,
}


def select(rows: list[ActorInfo], request: ListActors) -> list[ActorInfo]:
    """Return those that are asked for; equal ones stay in the order of their paths, in which they come."""
    inside = request.prefix.rstrip("/") + "/"
    chosen = [
        row
        for row in rows
        if (row.path == request.prefix or row.path.startswith(inside))
        and (not request.kinds or row.kind in request.kinds)
        and (not request.states or row.state in request.states)
        and depth(row) >= request.depth
    ]
    if request.sort is not ActorOrder.PATH:
        chosen.sort(key=_KEYS[request.sort], reverse=True)
    return chosen[: request.limit]
