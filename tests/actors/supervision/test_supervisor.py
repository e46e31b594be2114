"""The supervisor with real children."""

import asyncio

import pytest

from actors.exceptions import ActorStopped, HandlerFailed, StartFailed
from actors.messages.events import Publish
from actors.messages.lifecycle import StopStatus
from actors.runtime import Actor, Budget, System
from actors.supervision import ChildSpec, Intensity, Restart, Strategy, Supervisor
from tests.actors.runtime.conftest import Do, Note, Scribe


class Sink(Actor):
    """Collects what is published."""

    def __init__(self, events: list[Publish]) -> None:
        self.events = events

    async def on_receive(self, message: Publish) -> None:
        self.events.append(message)


def fail(_):
    raise ValueError


async def start(system, within, *specs, intensity=None, strategy=Strategy.ONE_FOR_ONE):
    root = system.spawn("/", lambda: Supervisor(tuple(specs), intensity, strategy))
    await root.started(within(5))
    return root


async def crash(ref, within):
    with pytest.raises(HandlerFailed):
        await ref.ask(Do(work=fail), within(1))


async def test_a_restart_keeps_the_ref_and_the_mailbox(system, within):
    await start(system, within, ChildSpec(name="a", factory=Scribe))
    ref = system.find("/a")
    crashing = ref.ask(Do(work=fail), within(1))
    ref.tell(Note(word="kept"))
    with pytest.raises(HandlerFailed):
        await crashing
    words = await ref.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(1))
    assert words == (1, ["kept"])


@pytest.mark.parametrize("end", ["crash", "stop", "kill"])
async def test_the_next_incarnation_hears_nothing_of_the_children_of_the_last(system, within, end):
    await start(system, within, ChildSpec(name="a", factory=Scribe))
    ref = system.find("/a")
    watched = system.spawn("/watched", Scribe)

    def prepare(scribe):
        scribe.ctx.spawn("child", Scribe)
        watched.watch(scribe.ctx.ref)

    await ref.ask(Do(work=prepare), within(1))
    if end == "crash":
        await crash(ref, within)
    elif end == "stop":
        await system.stop(ref, within(1))
    else:
        ref._cell.kill()
    words = await ref.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(1))
    assert words == (1, [])


async def test_a_crash_leaves_siblings_alone(system, within):
    await start(system, within, ChildSpec(name="a", factory=Scribe), ChildSpec(name="b", factory=Scribe))
    sibling = system.find("/b")
    sibling.tell(Note(word="mine"))
    await crash(system.find("/a"), within)
    assert await sibling.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(1)) == (
        0,
        ["mine"],
    )


async def test_past_the_intensity_the_child_is_quarantined_and_an_event_says_so(system, within):
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


async def test_a_temporary_child_does_not_come_back(system, within):
    await start(system, within, ChildSpec(name="a", factory=Scribe, restart=Restart.TEMPORARY))
    await crash(system.find("/a"), within)
    await system.idle()
    assert system.find("/a") is None


async def test_a_permanent_child_that_was_stopped_comes_back_behind_the_same_ref(system, within):
    await start(system, within, ChildSpec(name="a", factory=Scribe))
    ref = system.find("/a")
    assert await system.stop(ref, within(1)) is StopStatus.STOPPED
    assert await ref.ask(Do(work=lambda a: a.ctx.incarnation), within(1)) == 1


async def test_children_start_in_order_and_stop_in_reverse(system, within):
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


async def test_a_child_that_does_not_start_fails_the_supervisors_start(system, within):
    class Stillborn(Scribe):
        async def on_start(self):
            raise OSError

    root = system.spawn("/", lambda: Supervisor((ChildSpec(name="a", factory=Stillborn),)))
    with pytest.raises(StartFailed):
        await root.started(within(2))
    assert system.actors() == []


async def test_siblings_know_each_other_whatever_starts_first(system, within):
    class Caller(Scribe):
        async def on_start(self):
            self.ctx.system.find("/late").tell(Note(word="early bird"))

    await start(
        system, within, ChildSpec(name="early", factory=Caller), ChildSpec(name="late", factory=Scribe)
    )
    assert await system.find("/late").ask(Do(work=lambda a: list(a.words)), within(1)) == ["early bird"]


async def test_a_stuck_child_is_killed_and_named_when_the_tree_stops(system):
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


# Strategies


class Diary:
    """Children that note their starts and stops, in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def spec(self, name, restart=Restart.PERMANENT, fail_starts=0):
        diary = self
        left = [fail_starts]

        class Noted(Scribe):
            async def on_start(self):
                if self.ctx.incarnation and left[0]:
                    left[0] -= 1
                    diary.entries.append(f"!{name}")
                    raise OSError
                diary.entries.append(f"+{name}")

            async def on_stop(self, reason):
                diary.entries.append(f"-{name}")

        return ChildSpec(name=name, factory=Noted, restart=restart)

    async def until(self, system, entries):
        async with asyncio.timeout(10):
            while self.entries[: len(entries)] != entries:
                await asyncio.sleep(0)
        await system.idle()
        assert self.entries == entries


async def incarnations(system, within, *names):
    return [
        await system.find(f"/{name}").ask(Do(work=lambda a: a.ctx.incarnation), within(5)) for name in names
    ]


async def test_one_for_all_stops_the_others_in_reverse_and_starts_all_in_order(system, within):
    diary = Diary()
    specs = [diary.spec(name) for name in "abc"]
    await start(system, within, *specs, strategy=Strategy.ONE_FOR_ALL)
    await crash(system.find("/b"), within)
    await diary.until(system, ["+a", "+b", "+c", "-c", "-a", "+a", "+b", "+c"])
    assert await incarnations(system, within, "a", "b", "c") == [1, 1, 1]


async def test_rest_for_one_takes_along_only_who_was_started_later(system, within):
    diary = Diary()
    specs = [diary.spec(name) for name in "abc"]
    await start(system, within, *specs, strategy=Strategy.REST_FOR_ONE)
    await crash(system.find("/b"), within)
    await diary.until(system, ["+a", "+b", "+c", "-c", "+b", "+c"])
    assert await incarnations(system, within, "a", "b", "c") == [0, 1, 1]


async def test_in_a_group_restart_refs_stay_good_and_mail_is_kept(system, within):
    await start(
        system, within, ChildSpec(name="a", factory=Scribe), ChildSpec(name="b", factory=Scribe),
        strategy=Strategy.ONE_FOR_ALL,
    )  # fmt: skip
    first, second = system.find("/a"), system.find("/b")
    crashing = first.ask(Do(work=fail), within(5))
    with pytest.raises(HandlerFailed):
        await crashing
    second.tell(Note(word="kept"))
    asked = second.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(5))
    incarnation, words = await asked
    assert (incarnation, words) in [(0, ["kept"]), (1, ["kept"])]


async def test_a_temporary_companion_is_stopped_and_gone(system, within):
    diary = Diary()
    specs = [diary.spec("a"), diary.spec("b", Restart.TEMPORARY), diary.spec("c")]
    await start(system, within, *specs, strategy=Strategy.ONE_FOR_ALL)
    await crash(system.find("/a"), within)
    await diary.until(system, ["+a", "+b", "+c", "-c", "-b", "+a", "+c"])
    assert system.find("/b") is None


async def test_a_child_that_is_gone_takes_nobody_along(system, within):
    diary = Diary()
    specs = [diary.spec("a", Restart.TEMPORARY), diary.spec("b")]
    await start(system, within, *specs, strategy=Strategy.ONE_FOR_ALL)
    await crash(system.find("/a"), within)
    await system.idle()
    assert diary.entries == ["+a", "+b"]


async def test_one_that_fails_to_start_with_its_group_begins_the_next_round(system, within):
    diary = Diary()
    specs = [diary.spec("a"), diary.spec("b", fail_starts=1), diary.spec("c")]
    await start(system, within, *specs, strategy=Strategy.ONE_FOR_ALL)
    await crash(system.find("/a"), within)
    first = ["+a", "+b", "+c", "-c", "-b", "+a", "!b"]
    await diary.until(system, [*first, "-a", "+a", "+b", "+c"])


async def test_a_supervisor_that_stops_in_the_middle_of_a_round_leaves_nobody_behind(system, within):
    diary = Diary()
    gate = asyncio.Event()

    class Held(Scribe):
        async def on_stop(self, reason):
            await gate.wait()

    root = await start(
        system, within, diary.spec("a"), ChildSpec(name="held", factory=Held), strategy=Strategy.ONE_FOR_ALL
    )
    await crash(system.find("/a"), within)
    stopping = asyncio.ensure_future(system.stop(root, within(5)))
    await asyncio.sleep(0)
    gate.set()
    assert await stopping is StopStatus.STOPPED
    assert system.actors() == []
    assert diary.entries == ["+a"]


async def test_supervisors_nest_and_a_quarantine_inside_leaves_the_outer_tree_alone(system, within):
    def inner():
        return Supervisor((ChildSpec(name="leaf", factory=Scribe),), Intensity(0, 60.0))

    await start(system, within, ChildSpec(name="inner", factory=inner), ChildSpec(name="b", factory=Scribe))
    await crash(system.find("/inner/leaf"), within)
    await system.idle()
    assert system.info("/inner/leaf").state == "quarantined"
    assert system.info("/inner").state == "running"
    assert await incarnations(system, within, "b") == [0]
