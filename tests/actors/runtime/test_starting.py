"""How an actor starts, and how others know."""

import asyncio

import pytest

from actors.exceptions import (
    StartFailed,
)
from tests.actors.runtime.conftest import Do, Scribe


async def test_on_start_that_raises_is_seen_by_whoever_waits(system, within):
    class Stillborn(Scribe):
        async def on_start(self):
            raise OSError

    ref = system.spawn("/a", Stillborn)
    with pytest.raises(StartFailed, match="OSError"):
        await ref.started(within(1))
    with pytest.raises(StartFailed):
        await ref.started(within(1))


async def test_started_answers_when_on_start_has_run(system, within):
    gate = asyncio.Event()

    class Slow(Scribe):
        async def on_start(self):
            await gate.wait()

    ref = system.spawn("/a", Slow)
    waiting = ref.started(within(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    await waiting


async def test_a_child_that_cannot_be_made_is_its_own_failure(system, within):
    def broken():
        raise OSError

    parent = system.spawn("/parent", Scribe)
    child = await parent.ask(Do(work=lambda actor: actor.ctx.spawn("child", broken)), within(5))
    with pytest.raises(StartFailed, match="OSError"):
        await child.started(within(5))
    assert await parent.ask(Do(work=lambda actor: (actor.ctx.incarnation, list(actor.words))), within(5)) == (
        0,
        ["Down"],
    )
    assert system.find("/parent/child") is None
