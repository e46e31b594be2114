"""
A supervisor that stops: its children end under its one deadline, whatever each is doing, and none starts again.

What becomes of a child that ends by itself meanwhile:

| the child fails | it |
|---|---|
| before its turn comes | is gone, unheard: nobody decides about it, and nobody starts it again |
| in its ``on_stop`` | is stopped all the same |
| while it starts | is gone; its supervisor has not begun, and ends too |
| while it waits out its backoff | is gone; the backoff ends with the supervisor |
| while its group is on its way | is gone, with its group |
"""

import asyncio
import time

import pytest

from actors.exceptions import HandlerFailed
from actors.messages.lifecycle import StopStatus
from actors.runtime import Actor
from actors.supervision import ChildSpec, Strategy, Supervisor
from tests.actors.runtime.conftest import Do, Scribe


class Recorded(Scribe):
    """Notes its starts and stops in a diary that is shared."""

    diary: list[str]

    def __init__(self, diary):
        super().__init__()
        self.diary = diary

    async def on_start(self):
        self.diary.append(f"+{self.ctx.path}")

    async def on_stop(self, reason):
        self.diary.append(f"-{self.ctx.path}")


def hang(ref, within):
    ref.tell(Do(work=lambda a: asyncio.Event().wait()))


async def tree(system, within, diary, *names, strategy=Strategy.ONE_FOR_ONE):
    specs = tuple(ChildSpec(name=name, factory=lambda: Recorded(diary)) for name in names)
    root = system.spawn("/", lambda: Supervisor(specs, strategy=strategy))
    await root.started(within(10))
    return root


async def test_a_child_that_fails_before_its_turn_is_gone_and_not_started_again(system, within):
    diary = []

    class Last(Recorded):
        async def on_stop(self, reason):
            # Its supervisor is stopping, and waits for this one; the first child's turn has not come.
            with pytest.raises(HandlerFailed):
                await first.ask(Do(work=lambda a: 1 / 0), within(5))
            self.diary.append("the first has failed")

    specs = (
        ChildSpec(name="first", factory=lambda: Recorded(diary)),
        ChildSpec(name="last", factory=lambda: Last(diary)),
    )
    root = system.spawn("/", lambda: Supervisor(specs))
    await root.started(within(5))
    first = system.find("/first")
    assert await system.stop(root, within(5)) is StopStatus.STOPPED
    assert diary == ["+/first", "+/last", "the first has failed"]
    assert system.actors() == []


async def test_a_child_that_fails_in_its_on_stop_is_stopped_and_so_are_the_others(system, within):
    diary = []

    class Fragile(Recorded):
        async def on_stop(self, reason):
            self.diary.append(f"!{self.ctx.path}")
            raise OSError

    specs = (
        ChildSpec(name="a", factory=lambda: Recorded(diary)),
        ChildSpec(name="b", factory=lambda: Fragile(diary)),
    )
    root = system.spawn("/", lambda: Supervisor(specs))
    await root.started(within(5))
    assert await system.stop(root, within(5)) is StopStatus.STOPPED
    assert diary == ["+/a", "+/b", "!/b", "-/a"]
    assert system.actors() == []


async def test_a_child_that_is_starting_is_gone_with_its_supervisor(system, within):
    begun = asyncio.Event()

    class Slow(Scribe):
        async def on_start(self):
            begun.set()
            await asyncio.Event().wait()

    root = system.spawn("/", lambda: Supervisor((ChildSpec(name="slow", factory=Slow),)))
    await begun.wait()
    await system.stop(root, within(0.5))
    await system.idle()
    assert system.actors() == []


async def test_a_child_that_waits_out_its_backoff_is_gone_and_not_started_again(system, within):
    diary = []
    root = await tree(system, within, diary, "a", "b")
    # The first restart comes at once, the second after a backoff.
    for _ in range(2):
        with pytest.raises(HandlerFailed):
            await system.find("/a").ask(Do(work=lambda a: 1 / 0), within(5))
    assert await system.stop(root, within(5)) is StopStatus.STOPPED
    assert diary == ["+/a", "+/b", "+/a", "-/b"]
    assert system.actors() == []


async def test_a_group_on_its_way_is_gone_and_not_started_again(system, within):
    diary = []
    root = await tree(system, within, diary, "a", "b", "c", strategy=Strategy.ONE_FOR_ALL)
    with pytest.raises(HandlerFailed):
        await system.find("/b").ask(Do(work=lambda a: 1 / 0), within(5))
    assert await system.stop(root, within(5)) is StopStatus.STOPPED
    assert diary[:3] == ["+/a", "+/b", "+/c"]
    assert sorted(diary).count("+/b") == 1
    assert system.actors() == []


class Parent(Actor):
    """Has many children, which stop all at once, or the last started first."""

    def __init__(self, count, diary, in_order):
        self._count, self._diary = count, diary
        self.stops_in_order = in_order

    async def on_start(self):
        for n in range(self._count):
            self.ctx.spawn(str(n), lambda: Recorded(self._diary))

    async def on_receive(self, message):
        return None


@pytest.mark.parametrize("in_order", [False, True], ids=["at_once", "in_order"])
@pytest.mark.parametrize("path", ["/p", "/top/p"])
async def test_three_stuck_of_a_thousand_keep_nobody_else_and_take_no_longer_than_the_budget(
    system, within, in_order, path
):
    count, budget_s, diary, stuck = 1000, 6.0, [], ("7", "500", "999")

    def make():
        return Parent(count, diary, in_order)

    if path == "/p":
        top = system.spawn("/p", make)
    else:
        top = system.spawn("/top", lambda: Supervisor((ChildSpec(name="p", factory=make),)))
    await top.started(within(20))
    await system.idle()
    for name in stuck:
        hang(system.find(f"{path}/{name}"), within)
    await asyncio.sleep(0)
    begun = time.monotonic()
    assert await system.stop(top, within(budget_s)) is StopStatus.STOPPED
    took = time.monotonic() - begun
    assert took <= budget_s + 0.5
    ended = {entry.rsplit("/", 1)[1] for entry in diary if entry.startswith("-")}
    assert ended == {str(n) for n in range(count)} - set(stuck)
    assert {p.rsplit("/", 1)[1] for p in system.overran} >= set(stuck)
    assert system.actors() == []
