"""What an asker learns of an actor that ends under its message: whether that had been begun."""

import asyncio

import pytest

from actors.exceptions import ActorLost, ActorStopped
from actors.runtime import DEFERRED
from tests.actors.runtime.conftest import Do, Scribe


@pytest.mark.parametrize("end", ["killed", "stopped"])
@pytest.mark.parametrize("deferred", [False, True])
async def test_a_message_that_was_begun_is_lost_and_one_that_was_not_is_refused(
    system, within, end, deferred
):
    ref = system.spawn("/a", Scribe)

    def begin(actor):
        return actor.ctx.defer() and DEFERRED if deferred else asyncio.Event().wait()

    begun = ref.ask(Do(work=begin), within(5))
    while not system.find("/a")._cell.handled and not (deferred or system.busy()):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    if end == "killed":
        waiting = None if deferred else ref.ask(Do(work=begin), within(5))
        system.kill("/a")
    else:
        waiting = None
        await system.stop(ref, within(0.1))
    with pytest.raises(ActorLost):
        await begun
    if waiting is not None:
        with pytest.raises(ActorStopped) as refused:
            await waiting
        assert not isinstance(refused.value, ActorLost)


async def test_an_actor_ends_although_whoever_was_to_be_told_has_ended_before_it(system, within):
    watched, watcher = system.spawn("/a", Scribe), system.spawn("/w", Scribe)
    # Not handled before the end.
    watched.watch(watcher)
    system.kill("/w")
    system.kill("/a")
    assert system.find("/a") is None
