"""Other threads, and pykka's own refs, that speak with an actor."""

import asyncio
import threading

import pykka
import pytest

from actors.exceptions import (
    ActorStopped,
    BlockingCall,
)
from tests.actors.runtime.conftest import Do, Note, Scribe


async def test_no_ask_from_a_thread_is_lost_when_it_races_a_stop(system, within):
    ref = system.spawn("/a", Scribe)
    outcomes = []

    def ask_often():
        for _ in range(300):
            try:
                outcomes.append(ref.ask(Do(work=lambda a: "ok"), within(5)).get())
            except ActorStopped:
                outcomes.append("stopped")

    thread = threading.Thread(target=ask_often)
    thread.start()
    while len(outcomes) < 50:
        await asyncio.sleep(0)
    await system.stop(ref, within(5))
    await asyncio.to_thread(thread.join)
    assert len(outcomes) == 300
    assert outcomes[0] == "ok" and outcomes[-1] == "stopped"


async def test_a_sync_get_on_the_loop_raises_at_once(system, within):
    ref = system.spawn("/a", Scribe)
    with pytest.raises(BlockingCall):
        ref.ask(Do(work=lambda a: None), within(1)).get(timeout=1)


async def test_a_thread_may_ask_and_wait(system, within):
    ref = system.spawn("/a", Scribe)
    answer = await asyncio.to_thread(lambda: ref.ask(Do(work=lambda a: 7), within(1)).get(timeout=1))
    assert answer == 7


async def test_a_plain_pykka_ref_can_ask_from_a_thread(system, within):
    ref = system.spawn("/a", Scribe)
    plain = pykka.ActorRef(ref._cell)

    def use():
        plain.tell(Note(word="hello"))
        return plain.ask(Do(work=lambda a: list(a.words)), timeout=1)

    assert await asyncio.to_thread(use) == ["hello"]
