"""A one_for_one supervisor of static children: started in order, stopped in reverse, restarted as the decision says."""

from typing import Any

from actors.messages.lifecycle import Down
from actors.runtime import Actor, Ref
from actors.supervision.nursery import Nursery, RestartChild
from actors.supervision.spec import ChildSpec, Intensity


class Supervisor(Actor):
    """Holds children whose refs stay good over their restarts."""

    kind = "supervisor"
    stops_in_order = True

    def __init__(self, children: tuple[ChildSpec, ...], intensity: Intensity | None = None) -> None:
        self._specs = {spec.name: spec for spec in children}
        self._nursery = Nursery(intensity)

    async def on_start(self) -> None:
        """Start the children one after the other; if one does not start, neither does the supervisor."""
        places = [(spec, self._reserve(spec)) for spec in self._specs.values()]
        for spec, ref in places:
            self.ctx.start(spec.name)
            await ref.started(self.ctx.within(spec.start_s))

    async def on_receive(self, message: Any) -> None:
        """Decide about a child that ended, or carry a decided restart out."""
        match message:
            case Down():
                spec = self._specs.get(message.path.rsplit("/", 1)[-1])
                if spec is not None:
                    self._nursery.ended(self.ctx, message, spec.restart)
            case RestartChild():
                self._nursery.due(self.ctx, message)

    def _reserve(self, spec: ChildSpec) -> Ref:
        return self.ctx.reserve(spec.name, spec.factory, bound=spec.bound, overflow=spec.overflow, held=True)
