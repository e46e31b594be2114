"""A supervisor under random crashes, kills, stops and time: what holds whatever happens, seen from outside."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.exceptions import RuntimeFault
from actors.messages.lifecycle import StopStatus
from actors.runtime import Budget, System
from actors.supervision import ChildSpec, Intensity, Restart, Strategy, Supervisor
from tests.actors.runtime.conftest import Do, Scribe
from tests.clock import StillClock

NAMES = ("a", "b", "c", "d")
INTENSITY = Intensity(3, 30.0)

names = st.sampled_from(NAMES)


class SupervisorMachine(RuleBasedStateMachine):
    @initialize(
        strategy=st.sampled_from(list(Strategy)),
        restarts=st.tuples(*[st.sampled_from(list(Restart)) for _ in NAMES]),
    )
    def begin(self, strategy, restarts):
        self.loop = asyncio.new_event_loop()
        self.clock = StillClock()
        self.strategy = strategy
        self.restart = dict(zip(NAMES, restarts, strict=True))
        # (what, name, when): "+" started, "-" stopped in order.
        self.diary = []
        self.stopped_at = None
        self.run(self.start())

    async def start(self):
        self.system = System(self.clock)
        machine = self

        def child(name):
            class Noted(Scribe):
                async def on_start(self):
                    machine.diary.append(("+", name, machine.clock.monotonic()))

                async def on_stop(self, reason):
                    machine.diary.append(("-", name, machine.clock.monotonic()))

            return ChildSpec(name=name, factory=Noted, restart=machine.restart[name])

        specs = tuple(child(name) for name in NAMES)
        self.root = self.system.spawn("/", lambda: Supervisor(specs, INTENSITY, self.strategy))
        await self.root.started(Budget.of(self.clock, 60))
        assert [entry[:2] for entry in self.diary] == [("+", name) for name in NAMES]

    def run(self, work):
        return self.loop.run_until_complete(work)

    async def settle(self):
        for _ in range(60):
            await asyncio.sleep(0)
            await self.system.idle()

    @rule(name=names)
    def crash(self, name):
        ref = self.system.find(f"/{name}")
        if ref is not None:
            try:
                ref.tell(Do(work=lambda a: 1 / 0))
            except RuntimeFault:
                # Quarantined.
                assert self.state(name) == "quarantined"
        self.run(self.settle())

    @rule(name=names)
    def kill(self, name):
        self.system.kill(f"/{name}")
        self.run(self.settle())

    @rule(name=names)
    def stop_a_child(self, name):
        ref = self.system.find(f"/{name}")
        if ref is not None:
            self.run(self.system.stop(ref, Budget.of(self.clock, 60)))
        self.run(self.settle())

    @rule(chosen=st.lists(names, min_size=2, max_size=4, unique=True))
    def several_at_once(self, chosen):
        for name in chosen:
            self.system.kill(f"/{name}")
        self.run(self.settle())

    @rule(seconds=st.sampled_from([0.0, 0.05, 1.0, 10.0, 40.0]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)
        self.run(self.settle())

    @precondition(lambda self: self.stopped_at is None)
    @rule()
    def stop(self):
        mark = len(self.diary)
        assert self.run(self.system.stop(self.root, Budget.of(self.clock, 60))) is StopStatus.STOPPED
        ends = [name for _, name, _ in self.diary[mark:]]
        # In the reverse of the order of starting; those that were down are not there.
        assert ends == [name for name in reversed(NAMES) if name in ends]
        assert len(ends) == len(set(ends))
        self.stopped_at = len(self.diary)

    def state(self, name):
        info = self.system.info(f"/{name}")
        return info.state if info is not None else "gone"

    @invariant()
    def a_supervisor_that_has_stopped_has_no_children_and_starts_none(self):
        if getattr(self, "stopped_at", None) is not None:
            assert self.system.actors() == []
            assert len(self.diary) == self.stopped_at

    @invariant()
    def only_who_may_is_gone(self):
        if getattr(self, "system", None) is not None and self.stopped_at is None:
            for name, restart in self.restart.items():
                if restart is Restart.PERMANENT:
                    assert self.state(name) != "gone"

    @invariant()
    def a_temporary_child_is_started_once(self):
        starts = [name for what, name, _ in getattr(self, "diary", ()) if what == "+"]
        for name in starts:
            if self.restart[name] is Restart.TEMPORARY:
                assert starts.count(name) == 1

    @invariant()
    def the_intensity_bounds_the_restarts_of_each_window(self):
        # A group's restart counts for the one that began it, so a child starts no more often than all may begin one.
        allowed = INTENSITY.restarts * (1 if self.one_for_one() else len(NAMES))
        for name in NAMES:
            times = [at for what, other, at in getattr(self, "diary", ()) if (what, other) == ("+", name)][1:]
            for at in times:
                assert sum(at <= other < at + INTENSITY.within_s for other in times) <= allowed + 1

    def one_for_one(self):
        return getattr(self, "strategy", None) is Strategy.ONE_FOR_ONE

    def teardown(self):
        if hasattr(self, "loop"):
            if self.stopped_at is None:
                self.stop()
            self.loop.close()


TestSupervisorMachine = SupervisorMachine.TestCase
TestSupervisorMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
