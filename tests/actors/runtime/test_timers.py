"""Timers of an actor."""

import asyncio

from tests.actors.runtime.conftest import Do, Note, Scribe


async def test_a_timer_of_the_same_key_replaces_the_former(system, within):
    ref = system.spawn("/a", Scribe)
    fired = asyncio.Event()

    def arm(actor):
        actor.ctx.set_timer("t", 0.0, Note(word="old"))
        actor.ctx.set_timer("t", 0.01, Do(work=lambda a: fired.set()))

    await ref.ask(Do(work=arm), within(1))
    await asyncio.wait_for(fired.wait(), 5)
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == []


async def test_a_timer_that_has_fired_can_still_be_cancelled_before_it_arrives(system, within):
    ref = system.spawn("/a", Scribe)

    async def fire_then_cancel(actor):
        actor.ctx.set_timer("t", 0.0, Note(word="stale"))
        while actor.ctx._cell.mailbox.empty():
            await asyncio.sleep(0)
        actor.ctx.cancel_timer("t")

    await ref.ask(Do(work=fire_then_cancel), within(1))
    await system.idle()
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == []
