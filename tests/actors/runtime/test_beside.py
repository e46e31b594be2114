"""I/O that an actor runs beside its handlers."""

import asyncio

from actors.messages.lifecycle import (
    Down,
    DownReason,
)
from tests.actors.runtime.conftest import Do, Scribe


async def test_a_task_beside_ends_with_the_actor(system, within):
    ended = asyncio.Event()

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    ref = system.spawn("/a", Scribe)
    await ref.ask(Do(work=lambda a: a.ctx.run(forever(), "io")), within(1))
    await asyncio.sleep(0)
    await system.stop(ref, within(1))
    await asyncio.wait_for(ended.wait(), 1)


async def test_a_task_beside_that_raises_crashes_the_actor(system, within):
    async def broken():
        raise OSError

    ref = system.spawn("/a", Scribe)
    probe = system.port("probe")
    ref.watch(probe)
    await ref.ask(Do(work=lambda a: a.ctx.run(broken(), "io")), within(1))
    down = await probe.receive(within(1))
    assert isinstance(down, Down) and down.reason is DownReason.CRASHED and down.error == "OSError"
