"""Handling of messages by one actor: order, lanes, bounded turns on the loop."""

import asyncio
import gc
import weakref

from tests.actors.runtime.conftest import Do, Note, Scribe, UrgentNote


async def test_messages_of_a_sender_are_handled_in_order(system, within):
    ref = system.spawn("/a", Scribe)
    for n in range(500):
        ref.tell(Note(word=str(n)))
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == [str(n) for n in range(500)]


async def test_control_overtakes_ordinary_messages(system, within):
    ref = system.spawn("/a", Scribe)
    for n in range(100):
        ref.tell(Note(word=str(n)))
    ref.tell(UrgentNote(word="now"))
    words = await ref.ask(Do(work=lambda a: list(a.words)), within(1))
    assert words[0] == "now"


async def test_a_long_mailbox_lets_the_loop_breathe(system, within):
    ref = system.spawn("/a", Scribe, bound=100_000)
    for n in range(10_000):
        ref.tell(Note(word=str(n)))
    turns = 0

    async def heartbeat():
        nonlocal turns
        while system.active:
            turns += 1
            await asyncio.sleep(0)

    await heartbeat()
    assert turns >= 10_000 // 64


async def test_on_idle_runs_when_the_mailbox_has_run_dry(system, within):
    ref = system.spawn("/a", Scribe)
    for n in range(10):
        ref.tell(Note(word=str(n)))
    await system.idle()
    assert await ref.ask(Do(work=lambda a: a.idles), within(1)) == 1


async def test_an_idle_actor_owns_no_task(system, within):
    ref = system.spawn("/a", Scribe)
    await ref.ask(Do(work=lambda a: None), within(1))
    await system.idle()
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "/a"] == []


async def test_an_idle_actor_known_by_its_ref_alone_is_not_collected(system, within):
    ref = system.spawn("/a", Scribe)
    behaviour = await ref.ask(Do(work=weakref.ref), within(1))
    gc.collect()
    assert behaviour() is not None
