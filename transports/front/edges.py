"""What the server's routes reach."""

from typing import Any

import msgspec

from actors.messages.lane import LaneBinding, ListLanes
from actors.runtime import Budget, Ref, System
from transports.front.settings import FrontSettings


class Admission(msgspec.Struct):
    """Whether new turns are taken; only the front's actor closes it."""

    open: bool = True


class Edges(msgspec.Struct, frozen=True, kw_only=True):
    """The actors that requests become messages for, and the WebSocket endpoints that others wrote."""

    system: System
    store: Ref
    sessions: Ref
    metrics: Ref
    lanes: Ref
    relay_endpoint: Any
    admin_endpoint: Any
    settings: FrontSettings
    admission: Admission = msgspec.field(default_factory=Admission)

    def within(self, seconds: float) -> Budget:
        """Return a new budget."""
        return Budget.of(self.system.clock, seconds)

    async def bound_lanes(self, budget: Budget) -> tuple[LaneBinding, ...]:
        """Return the lanes as they are now. Raises RuntimeFault if /lanes does not say."""
        return await self.lanes.ask(ListLanes(), budget)
