"""/lanes: the parent of all model lanes. It knows which serve, and how their backends do."""

from typing import Any

import structlog

from actors.exceptions import Invalid
from actors.lane.health import Health, ladder
from actors.messages.lane import BackendHealth, LaneBinding, LaneSpec, ListLanes, ResolveLanes
from actors.messages.lifecycle import Down
from actors.messages.quarantine import PlaceFree
from actors.runtime import Actor, Ref
from actors.supervision import Restart
from actors.supervision.nursery import Nursery, RestartChild

log = structlog.get_logger("turnkeep.lane")


class Lanes(Actor):
    """Starts each lane and starts it again; a lane that is down or quarantined stays bound, and refuses at once."""

    kind = "supervisor"

    def __init__(self, lanes: tuple[LaneSpec, ...]) -> None:
        self._specs = {spec.traits.name: spec for spec in lanes}
        self._nursery = Nursery()
        self._health = Health()

    async def on_start(self) -> None:
        """Start the lanes; one that does not start is tried again."""
        for name, spec in self._specs.items():
            self.ctx.spawn(name, spec.make, held=True)

    async def on_receive(self, message: Any) -> Any:
        """Say which lanes there are; hear of their streams and of their ends."""
        match message:
            case ResolveLanes(model=model):
                return ladder(self._bindings(), model)
            case ListLanes():
                return self._bindings()
            case BackendHealth():
                self._heard(message)
            case Down():
                self._nursery.ended(self.ctx, message, Restart.PERMANENT)
            case RestartChild():
                self._nursery.due(self.ctx, message)
            case PlaceFree():
                self._nursery.freed(message)
            case _:
                raise Invalid(f"/lanes does not understand {type(message).__name__}")
        return None

    def _bindings(self) -> tuple[LaneBinding, ...]:
        return tuple(
            LaneBinding(
                traits=spec.traits,
                gen=0,
                lane=lane,
                degraded=self._health.is_degraded(spec.traits.backend),
            )
            for name, spec in self._specs.items()
            if (lane := self._lane(name)) is not None
        )

    def _lane(self, name: str) -> Ref | None:
        return self.ctx.child(name)

    def _heard(self, message: BackendHealth) -> None:
        before = self._health
        self._health = before.heard(message.backend, good=message.good)
        degraded = self._health.is_degraded(message.backend)
        if degraded is not before.is_degraded(message.backend):
            log.warning("lane.degraded" if degraded else "lane.healthy", backend=message.backend)
            self.ctx.publish("lane.degraded" if degraded else "lane.healthy", backend=message.backend)
