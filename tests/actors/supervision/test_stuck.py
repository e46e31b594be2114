"""Stuck handlers: who is judged, who is not, and what becomes of him."""

import asyncio

import pytest

from actors.exceptions import ActorStopped
from actors.messages.events import Publish
from actors.supervision import ChildSpec, Supervisor
from actors.supervision.settings import SupervisionSettings
from actors.supervision.stuck import LATE_SECONDS, Busy, stuck
from actors.supervision.sweeper import Sweeper
from tests.actors.runtime.conftest import Do, Scribe
from tests.actors.supervision.test_supervisor import Sink

BUSY = (Busy("/quick", 0.1), Busy("/slow", 61.0))


def test_only_who_is_over_the_limit_is_stuck():
    assert stuck(BUSY, late_s=0.0, limit_s=60.0) == (Busy("/slow", 61.0),)


def test_a_sweep_that_woke_late_judges_nobody():
    assert stuck(BUSY, late_s=LATE_SECONDS + 0.01, limit_s=60.0) == ()


async def test_a_stuck_child_is_killed_and_started_again_behind_its_ref(system, within):
    events: list[Publish] = []
    system.publish_to(system.spawn("/sink", lambda: Sink(events)))
    settings = SupervisionSettings(sweep_s=0.01, stuck_s=0.05)
    specs = (
        ChildSpec(name="sweeper", factory=lambda: Sweeper(settings)),
        ChildSpec(name="victim", factory=Scribe),
    )
    root = system.spawn("/", lambda: Supervisor(specs))
    await root.started(within(5))
    victim = system.find("/victim")
    hanging = victim.ask(Do(work=lambda a: asyncio.Event().wait()), within(10))
    with pytest.raises(ActorStopped, match="killed"):
        await hanging
    assert await victim.ask(Do(work=lambda a: a.ctx.incarnation), within(5)) == 1
    stalled = [event for event in events if event.kind == "actor.stalled"]
    assert [event.data["child"] for event in stalled] == ["/victim"]


async def test_an_actor_that_starts_slowly_is_not_called_stuck(system, within):
    gate = asyncio.Event()

    class Slow(Scribe):
        async def on_start(self):
            await gate.wait()

    ref = system.spawn("/slow", Slow)
    await asyncio.sleep(0)
    assert system.busy() == []
    gate.set()
    await ref.started(within(1))
