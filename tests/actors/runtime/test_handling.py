"""Handling of messages by one actor: order, lanes, bounded turns on the loop."""

import asyncio
import gc
import weakref

import pytest

from actors.runtime import Budget, System
from actors.runtime.activation import BATCH_MESSAGES
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
    assert turns >= 10_000 // BATCH_MESSAGES


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


async def test_the_receiver_never_runs_inside_the_senders_tell(system, within):
    ref = system.spawn("/a", Scribe)
    await ref.started(within(1))
    await system.idle()
    handled = []
    ref.tell(Do(work=lambda a: handled.append("handled")))
    handled.append("told")
    await system.idle()
    assert handled == ["told", "handled"]


async def test_a_message_passes_through_a_long_chain_of_actors_without_recursion(system, within):
    length = 3000
    refs = []

    def hand_on(place):
        def work(actor):
            if place + 1 < length:
                refs[place + 1].tell(Do(work=hand_on(place + 1)))
            else:
                arrived.tell(Note(word="through"))

        return work

    arrived = system.port("arrived")
    refs.extend(system.spawn(f"/{n}", Scribe) for n in range(length))
    refs[0].tell(Do(work=hand_on(0)))
    assert (await arrived.receive(within(30))).word == "through"


async def test_while_an_answer_is_awaited_the_loop_comes_round(system, within):
    ref = system.spawn("/a", Scribe)
    gate = asyncio.Event()
    turns = 0

    async def heartbeat():
        nonlocal turns
        while turns < 100:
            turns += 1
            await asyncio.sleep(0)
        gate.set()

    beating = asyncio.ensure_future(heartbeat())
    assert await ref.ask(Do(work=lambda a: gate.wait()), within(5)) is True
    await beating
    assert turns == 100


@pytest.mark.parametrize("fatal", [SystemExit, KeyboardInterrupt])
def test_an_exit_of_the_process_passes_through_a_handler(fatal):
    def leave(_):
        raise fatal

    async def main():
        system = System()
        await system.spawn("/a", Scribe).ask(Do(work=leave), Budget.of(system.clock, 5))

    with pytest.raises(fatal):
        asyncio.run(main())
