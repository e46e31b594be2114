"""How an actor starts, and how others know."""

import asyncio

import pytest

from actors.exceptions import (
    StartFailed,
)
from tests.actors.runtime.conftest import Scribe


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
