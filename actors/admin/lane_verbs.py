"""Verbs about model lanes: what they are and how they do, and setting them anew."""

from typing import Any

from actors.admin.edges import Call, Verb
from actors.exceptions import TurnkeepError
from actors.messages.admin import AdminRequest, Answer, ListModelLanes, ReloadModelLanes
from actors.messages.lane import DescribeLane, LaneBinding, LaneInfo, ListLanes, ReloadLanes
from actors.runtime import Reply


async def list_lanes(request: ListModelLanes, call: Call) -> Answer:
    """Return the lanes. One that does not say in time what it carries is shown without that."""
    lanes = await call.edges.lanes.ask(ListLanes(), call.budget)
    budget = call.budget.at_most(call.settings.glance_s)
    asked = [lane.lane.ask(DescribeLane(), budget) for lane in lanes]
    return {"lanes": [await _view(lane, said, call) for lane, said in zip(lanes, asked, strict=True)]}


async def reload_lanes(request: ReloadModelLanes, call: Call) -> Answer:
    """Return the names of the lanes that are new, changed or gone."""
    return {"changed": await call.edges.lanes.ask(ReloadLanes(by=call.caller.name), call.budget)}


async def _view(lane: LaneBinding, said: Reply[LaneInfo], call: Call) -> dict[str, Any]:
    traits, row = lane.traits, call.edges.system.info(lane.lane.path)
    try:
        info = await said
    except TurnkeepError:
        info = None
    return {
        "name": traits.name,
        "kind": traits.kind,
        "model": traits.model,
        "backend": traits.backend,
        "order": traits.order,
        "capabilities": sorted(traits.capabilities),
        "context_window": traits.context_window,
        "gen": lane.gen,
        "state": row.state if row is not None else None,
        "health": "degraded" if lane.degraded else "healthy",
        "streams": info.streams if info is not None else None,
        "max_streams": info.max_streams if info is not None else None,
    }


LANE_VERBS: dict[type[AdminRequest], Verb] = {ListModelLanes: list_lanes, ReloadModelLanes: reload_lanes}
