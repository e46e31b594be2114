"""What the server's routes reach."""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.messages.lane import Capability
from actors.runtime import Budget, Ref, System
from transports.front.settings import FrontSettings


class LaneRef(msgspec.Struct, frozen=True, kw_only=True):
    """A model lane as clients choose it: by its name, or by its backend's name of the model."""

    name: str
    ref: Ref | None
    """None while its supervisor is down."""
    model: str
    capabilities: frozenset[Capability]

    @property
    def live(self) -> bool:
        """Whether it takes turns, or will in a moment; a quarantined one does not."""
        return self.ref is not None and self.ref.is_alive()


class Admission(msgspec.Struct):
    """Whether new turns are taken; only the front's actor closes it."""

    open: bool = True


class Edges(msgspec.Struct, frozen=True, kw_only=True):
    """The actors that requests become messages for, and the WebSocket endpoints that others wrote."""

    system: System
    store: Ref
    sessions: Ref
    metrics: Ref
    lanes: Callable[[], tuple[LaneRef, ...]]
    """The lanes as they are now, the default first."""
    relay_endpoint: Any
    admin_endpoint: Any
    settings: FrontSettings
    admission: Admission = msgspec.field(default_factory=Admission)

    def live_lanes(self) -> tuple[LaneRef, ...]:
        """Return those that take turns."""
        return tuple(lane for lane in self.lanes() if lane.live)

    def within(self, seconds: float) -> Budget:
        """Return a new budget."""
        return Budget.of(self.system.clock, seconds)
