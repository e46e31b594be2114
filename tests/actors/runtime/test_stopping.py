"""How an actor ends: in order, at once, or not at all."""

import asyncio

import pytest

from actors.exceptions import (
    ActorStopped,
)
from actors.messages.lifecycle import (
    DownReason,
    Stop,
    StopStatus,
)
from tests.actors.runtime.conftest import Do, Scribe


async def test_stop_overtakes_and_what_was_queued_is_answered(system, within):
    ref = system.spawn("/a", Scribe)
    asked = [ref.ask(Do(work=lambda a: None), within(1)) for _ in range(50)]
    assert await system.stop(ref, within(1)) is StopStatus.STOPPED
    for reply in asked:
        with pytest.raises(ActorStopped):
            await reply
    assert system.find("/a") is None


async def test_a_second_stop_finds_it_gone(system, within):
    ref = system.spawn("/a", Scribe)
    assert await system.stop(ref, within(1)) is StopStatus.STOPPED
    assert await system.stop(ref, within(1)) is StopStatus.ALREADY_GONE
    assert await ref.ask(Stop(), within(1)) is StopStatus.ALREADY_GONE


async def test_two_stops_at_once_run_on_stop_once(system, within):
    stops = []

    class Counting(Scribe):
        async def on_stop(self, reason):
            stops.append(reason)

    ref = system.spawn("/a", Counting)
    statuses = await asyncio.gather(system.stop(ref, within(1)), system.stop(ref, within(1)))
    assert stops == [DownReason.SHUTDOWN]
    assert sorted(statuses) == [StopStatus.ALREADY_GONE, StopStatus.STOPPED]


async def test_no_ask_is_lost_when_it_races_a_stop(system, within):
    async def race(n):
        ref = system.spawn(f"/r{n}", Scribe)
        stopping = asyncio.ensure_future(system.stop(ref, within(5)))
        replies = []
        for _ in range(20):
            replies.append(ref.ask(Do(work=lambda a: "ok"), within(5)))
            await asyncio.sleep(0)
        await stopping
        return await asyncio.gather(*replies, return_exceptions=True)

    outcomes = [outcome for n in range(50) for outcome in await race(n)]
    assert len(outcomes) == 1000
    assert all(outcome == "ok" or isinstance(outcome, ActorStopped) for outcome in outcomes)


async def test_a_handler_that_never_ends_is_killed_at_the_end_of_the_stop(system, within):
    ref = system.spawn("/a", Scribe)
    hanging = ref.ask(Do(work=lambda a: asyncio.Event().wait()), within(5))
    await asyncio.sleep(0)
    assert await system.stop(ref, within(0.1)) is StopStatus.STOPPED
    with pytest.raises(ActorStopped):
        await hanging
    assert system.overran == ["/a"]


async def test_a_task_that_swallows_its_cancellation_is_still_alive_and_unrouted(system, within):
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    ref = system.spawn("/a", Scribe)
    hanging = ref.ask(Do(work=lambda a: stubborn()), within(5))
    await asyncio.sleep(0)
    assert await system.stop(ref, within(0.05)) is StopStatus.STILL_ALIVE
    with pytest.raises(ActorStopped):
        await hanging
    assert system.find("/a") is None
    release.set()
    while system.custody.lost():
        await asyncio.sleep(0)
