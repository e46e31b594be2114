"""A supervisor of static children: started in order, stopped in reverse, restarted as its strategy says."""

import contextlib
from typing import Any

from actors.exceptions import ActorQuarantined, RuntimeFault
from actors.messages.base import ControlMessage
from actors.messages.lifecycle import Down
from actors.messages.quarantine import PlaceFree
from actors.runtime import Actor, Ref
from actors.supervision.decisions import Fate, companions
from actors.supervision.nursery import Nursery, RestartChild, name_of
from actors.supervision.spec import ChildSpec, Intensity, Restart, Strategy

GROUP = "group"


class GroupStopped(ControlMessage, frozen=True, kw_only=True):
    """The companions of a child that ended have been stopped."""

    group: tuple[str, ...]
    delay: float


class GroupDue(ControlMessage, frozen=True, kw_only=True):
    """The backoff of a group is over."""

    group: tuple[str, ...]


class GroupStarted(ControlMessage, frozen=True, kw_only=True):
    """The group has been started, as far as it did start: who did not has told so himself."""


class Supervisor(Actor):
    """
    Holds children whose refs stay good over their restarts.

    While a group is stopped and started again, ends of its members are part of that, and other ends wait for it.
    """

    kind = "supervisor"
    stops_in_order = True

    def __init__(
        self,
        children: tuple[ChildSpec, ...],
        intensity: Intensity | None = None,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
    ) -> None:
        self._specs = {spec.name: spec for spec in children}
        self._strategy = strategy
        self._nursery = Nursery(intensity)
        # The group that is being stopped, in the order of starting.
        self._stopping: tuple[str, ...] = ()
        # Whether a group is on its way, stopping, waiting or starting.
        self._busy = False
        # Ends that came meanwhile.
        self._later: list[Down] = []

    async def on_start(self) -> None:
        """
        Start the children one after the other; if one does not start, neither does the supervisor.

        One that is quarantined, as an earlier supervisor's child has not ended, is left out.
        """
        places = [(spec, self._reserve(spec)) for spec in self._specs.values()]
        for spec, ref in places:
            self.ctx.start(spec.name)
            with contextlib.suppress(ActorQuarantined):
                await ref.started(self.ctx.within(spec.start_s))

    async def on_receive(self, message: Any) -> None:
        """Decide about a child that ended, or carry a decided restart out."""
        match message:
            case Down():
                self._ended(message)
            case RestartChild():
                self._nursery.due(self.ctx, message)
            case PlaceFree():
                self._nursery.freed(message)
            case GroupStopped(group=group, delay=delay):
                self._stopping = ()
                self.ctx.set_timer(GROUP, delay, GroupDue(group=group))
            case GroupDue(group=group):
                self.ctx.run(self._start_group(group), GROUP)
            case GroupStarted():
                self._go_on()

    def _reserve(self, spec: ChildSpec) -> Ref:
        return self.ctx.reserve(spec.name, spec.factory, bound=spec.bound, overflow=spec.overflow, held=True)

    def _ended(self, down: Down) -> None:
        name = name_of(down)
        if name not in self._specs or name in self._stopping:
            return
        if self.ctx.child(name) is not None and not self.ctx.is_down(name):
            # The end of an earlier incarnation, which its group has made up for meanwhile.
            return
        if self._busy:
            self._later.append(down)
            return
        restart = self._specs[name].restart
        others = [
            other for other in companions(self._strategy, tuple(self._specs), name) if self.ctx.child(other)
        ]
        if not others:
            self._nursery.ended(self.ctx, down, restart)
            return
        verdict = self._nursery.judge(self.ctx, down, restart)
        if verdict.fate is Fate.AGAIN:
            self._busy = True
            self._stopping = tuple(others)
            self.ctx.run(self._stop_group(name, verdict.delay), GROUP)

    async def _stop_group(self, failed: str, delay: float) -> None:
        for name in reversed(self._stopping):
            ref = self.ctx.child(name)
            if ref is not None and not self.ctx.is_down(name):
                await self.ctx.system.stop(ref, self.ctx.within(self._specs[name].stop_s))
            if self._specs[name].restart is Restart.TEMPORARY and self.ctx.child(name) is not None:
                self.ctx.discard(name)
        members = {failed, *self._stopping}
        self.ctx.ref.tell(GroupStopped(group=tuple(n for n in self._specs if n in members), delay=delay))

    async def _start_group(self, group: tuple[str, ...]) -> None:
        try:
            for name in group:
                ref = self.ctx.child(name)
                if ref is not None and self.ctx.is_down(name):
                    self.ctx.restart(name)
                    with contextlib.suppress(ActorQuarantined):
                        await ref.started(self.ctx.within(self._specs[name].start_s))
        except RuntimeFault:
            # Its Down is among those that wait: the next decision is about it.
            pass
        self.ctx.ref.tell(GroupStarted())

    def _go_on(self) -> None:
        self._busy = False
        later, self._later = self._later, []
        for down in later:
            self._ended(down)
