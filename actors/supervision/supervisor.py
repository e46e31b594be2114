"""A one_for_one supervisor of static children: started in order, stopped in reverse, restarted as the decision says."""

from typing import Any

import structlog

from actors.messages.base import ControlMessage
from actors.messages.lifecycle import Down
from actors.runtime import Actor, Ref
from actors.supervision.decisions import Fate, judge
from actors.supervision.spec import RESTART_BACKOFF, ChildSpec, Intensity

log = structlog.get_logger("turnkeep.supervision")


class RestartChild(ControlMessage, frozen=True, kw_only=True):
    """The backoff of a child is over."""

    name: str


class Supervisor(Actor):
    """Holds children whose refs stay good over their restarts."""

    kind = "supervisor"
    stops_in_order = True

    def __init__(self, children: tuple[ChildSpec, ...], intensity: Intensity | None = None) -> None:
        self._specs = {spec.name: spec for spec in children}
        self._intensity = intensity or Intensity()
        # Times of the restarts that still count, by child.
        self._restarts: dict[str, tuple[float, ...]] = {}

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
                self._decide(message)
            case RestartChild(name=name) if self.ctx.child(name) is not None:
                self.ctx.restart(name)

    def _reserve(self, spec: ChildSpec) -> Ref:
        return self.ctx.reserve(spec.name, spec.factory, bound=spec.bound, overflow=spec.overflow, held=True)

    def _decide(self, down: Down) -> None:
        name = down.path.rsplit("/", 1)[-1]
        spec = self._specs.get(name)
        if spec is None:
            return
        verdict = judge(
            spec.restart,
            down.reason,
            self._restarts.get(name, ()),
            self._intensity,
            RESTART_BACKOFF,
            now=self.ctx.now(),
            fraction=self.ctx.system.random.random(),
        )
        self._restarts[name] = verdict.restarts
        if verdict.fate is Fate.AGAIN:
            self.ctx.set_timer(f"restart:{name}", verdict.delay, RestartChild(name=name))
            return
        if self.ctx.child(name) is not None:
            self.ctx.discard(name)
        if verdict.fate is Fate.QUARANTINED:
            log.error("actor.quarantined", path=down.path, error=down.error)
            self.ctx.publish(
                "actor.quarantined", child=down.path, error=down.error, restarts=len(verdict.restarts)
            )
