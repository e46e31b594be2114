"""The supervisor with real children."""

import asyncio

import pytest

from actors.exceptions import ActorStopped, HandlerFailed, StartFailed
from actors.messages.events import Publish
from actors.messages.lifecycle import StopStatus
from actors.runtime import Actor, Budget, System
from actors.supervision import ChildSpec, Intensity, Restart, Supervisor
from tests.actors.runtime.conftest import Do, Note, Scribe, system, within  # noqa: F401  # fixtures


class Sink(Actor):
    """Collects what is published."""

    def __init__(self, events: list[Publish]) -> None:
        self.events = events

    async def on_receive(self, message: Publish) -> None:
        self.events.append(message)


def fail(_):
    raise ValueError


async def start(system, within, *specs, intensity=None):  # noqa: F811
    root = system.spawn("/", lambda: Supervisor(tuple(specs), intensity))
    await root.started(within(5))
    return root


async def crash(ref, within):  # noqa: F811
    with pytest.raises(HandlerFailed):
        await ref.ask(Do(work=fail), within(1))


async def test_a_restart_keeps_the_ref_and_the_mailbox(system, within):  # noqa: F811
    await start(system, within, ChildSpec(name="a", factory=Scribe))
    ref = system.find("/a")
    crashing = ref.ask(Do(work=fail), within(1))
    ref.tell(Note(word="kept"))
    with pytest.raises(HandlerFailed):
        await crashing
    words = await ref.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(1))
    assert words == (1, ["kept"])


async def test_a_crash_leaves_siblings_alone(system, within):  # noqa: F811
    await start(system, within, ChildSpec(name="a", factory=Scribe), ChildSpec(name="b", factory=Scribe))
    sibling = system.find("/b")
    sibling.tell(Note(word="mine"))
    await crash(system.find("/a"), within)
    assert await sibling.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(1)) == (
        0,
        ["mine"],
    )


async def test_past_the_intensity_the_child_is_quarantined_and_an_event_says_so(system, within):  # noqa: F811
    events: list[Publish] = []
    system.publish_to(system.spawn("/sink", lambda: Sink(events)))
    await start(
        system, within, ChildSpec(name="a", factory=Scribe), ChildSpec(name="b", factory=Scribe),
        intensity=Intensity(1, 60.0),
    )  # fmt: skip
    ref = system.find("/a")
    await crash(ref, within)
    await crash(ref, within)
    await system.idle()
    assert [event.data["child"] for event in events if event.kind == "actor.quarantined"] == ["/a"]
    with pytest.raises(ActorStopped):
        ref.tell(Note(word="x"))
    assert await system.find("/b").ask(Do(work=lambda a: "lives"), within(1)) == "lives"


async def test_a_temporary_child_does_not_come_back(system, within):  # noqa: F811
    await start(system, within, ChildSpec(name="a", factory=Scribe, restart=Restart.TEMPORARY))
    await crash(system.find("/a"), within)
    await system.idle()
    assert system.find("/a") is None


async def test_a_permanent_child_that_was_stopped_comes_back_behind_the_same_ref(system, within):  # noqa: F811
    await start(system, within, ChildSpec(name="a", factory=Scribe))
    ref = system.find("/a")
    assert await system.stop(ref, within(1)) is StopStatus.STOPPED
    assert await ref.ask(Do(work=lambda a: a.ctx.incarnation), within(1)) == 1


async def test_children_start_in_order_and_stop_in_reverse(system, within):  # noqa: F811
    order = []

    def child(name):
        class Ordered(Scribe):
            async def on_start(self):
                order.append(f"+{name}")

            async def on_stop(self, reason):
                order.append(f"-{name}")

        return Ordered

    specs = [ChildSpec(name=name, factory=child(name)) for name in "abc"]
    root = await start(system, within, *specs)
    assert await system.stop(root, within(2)) is StopStatus.STOPPED
    assert order == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_child_that_does_not_start_fails_the_supervisors_start(system, within):  # noqa: F811
    class Stillborn(Scribe):
        async def on_start(self):
            raise OSError

    root = system.spawn("/", lambda: Supervisor((ChildSpec(name="a", factory=Stillborn),)))
    with pytest.raises(StartFailed):
        await root.started(within(2))
    assert system.actors() == []


async def test_siblings_know_each_other_whatever_starts_first(system, within):  # noqa: F811
    class Caller(Scribe):
        async def on_start(self):
            self.ctx.system.find("/late").tell(Note(word="early bird"))

    await start(
        system, within, ChildSpec(name="early", factory=Caller), ChildSpec(name="late", factory=Scribe)
    )
    assert await system.find("/late").ask(Do(work=lambda a: list(a.words)), within(1)) == ["early bird"]


async def test_a_stuck_child_is_killed_and_named_when_the_tree_stops(system):  # noqa: F811
    own = System()
    root = own.spawn("/", lambda: Supervisor((ChildSpec(name="a", factory=Scribe),)))
    budget = Budget.of(own.clock, 5)
    await root.started(budget)
    hanging = own.find("/a").ask(Do(work=lambda a: asyncio.Event().wait()), budget)
    await asyncio.sleep(0)
    assert await own.stop(root, Budget.of(own.clock, 0.5)) is StopStatus.STOPPED
    assert "/a" in own.overran
    with pytest.raises(ActorStopped):
        await hanging
