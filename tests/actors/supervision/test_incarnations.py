"""What an incarnation leaves behind reaches no later one: its timers, its tasks, its pipes, its own stop."""

import asyncio

import pytest

from actors.exceptions import HandlerFailed
from actors.messages.lifecycle import DeadLetterReason, DownReason
from actors.runtime import Budget, System
from actors.supervision import ChildSpec, Restart, Supervisor
from tests.actors.runtime.conftest import Do, Note, Scribe
from tests.clock import StillClock


def fail(_):
    raise ValueError


async def supervised(system, within, restart=Restart.PERMANENT):
    root = system.spawn("/", lambda: Supervisor((ChildSpec(name="a", factory=Scribe, restart=restart),)))
    await root.started(within(5))
    return system.find("/a")


async def state(ref, within):
    return await ref.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(5))


async def crash_after(ref, within, work):
    """Let the actor do something and crash in the same handler."""

    def handler(actor):
        work(actor)
        raise ValueError

    with pytest.raises(HandlerFailed):
        await ref.ask(Do(work=handler), within(5))


async def broken(error):
    raise error


async def test_the_error_of_a_task_beside_ends_one_incarnation_only(system, within):
    ref = await supervised(system, within)
    gate = asyncio.Event()

    async def fail_later():
        await gate.wait()
        raise OSError

    def begin_two(actor):
        actor.ctx.run(fail_later(), "first")
        actor.ctx.run(fail_later(), "second")

    probe = system.port("probe")
    ref.watch(probe)
    await ref.ask(Do(work=begin_two), within(5))
    gate.set()
    assert (await probe.receive(within(5))).error == "OSError"
    assert await state(ref, within) == (1, [])
    assert system.dead_letters.counts[DeadLetterReason.STALE] == 1


async def test_a_pipe_that_arrived_before_a_crash_is_not_the_next_incarnations(system, within):
    ref = await supervised(system, within)
    other = system.spawn("/other", Scribe)

    async def pipe_and_crash(actor):
        reply = other.ask(Do(work=lambda a: "answer"), actor.ctx.within(5))
        actor.ctx.pipe(reply, lambda word: Note(word=word), lambda error: Note(word="error"))
        await reply
        raise ValueError

    with pytest.raises(HandlerFailed):
        await ref.ask(Do(work=pipe_and_crash), within(5))
    assert await state(ref, within) == (1, [])
    assert system.dead_letters.counts[DeadLetterReason.STALE] == 1


async def test_a_pipe_that_arrives_after_a_crash_is_not_the_next_incarnations(system, within):
    ref = await supervised(system, within)
    other = system.spawn("/other", Scribe)
    gate = asyncio.Event()

    def pipe(actor):
        reply = other.ask(Do(work=lambda a: gate.wait()), actor.ctx.within(5))
        actor.ctx.pipe(reply, lambda word: Note(word="answer"), lambda error: Note(word="error"))

    await crash_after(ref, within, pipe)
    assert await state(ref, within) == (1, [])
    gate.set()
    await system.idle()
    assert await state(ref, within) == (1, [])
    assert system.dead_letters.counts[DeadLetterReason.STALE] == 1


async def test_its_own_stop_does_not_end_the_next_incarnation(system, within):
    ref = await supervised(system, within, Restart.TRANSIENT)
    await crash_after(ref, within, lambda actor: actor.ctx.stop(DownReason.NORMAL))
    assert await state(ref, within) == (1, [])


@pytest.mark.parametrize("end", ["crash", "kill", "stop"])
async def test_its_timers_are_cancelled(end):
    clock = StillClock()
    system = System(clock)

    def within(seconds):
        return Budget.of(clock, seconds)

    ref = await supervised(system, within)
    await ref.ask(Do(work=lambda a: a.ctx.set_timer("t", 5.0, Note(word="stale"))), within(60))
    if end == "crash":
        await crash_after(ref, within, lambda actor: None)
    elif end == "kill":
        system.kill("/a")
    else:
        await system.stop(ref, within(60))
    await system.idle()
    # The first restart comes at once, as a timer.
    clock.advance(0)
    await system.idle()
    clock.advance(10)
    assert await state(ref, within) == (1, [])
    await system.stop(system.find("/"), within(60))
    clock.advance(100)
    assert system.actors() == []


async def test_a_timer_that_has_fired_before_a_crash_is_not_the_next_incarnations(system, within):
    ref = await supervised(system, within)
    fired = asyncio.Event()

    async def fire_and_crash(actor):
        actor.ctx.set_timer("t", 0.0, Note(word="stale"))
        actor.ctx.set_timer("after", 0.0, Note(word="stale"))
        asyncio.get_running_loop().call_later(0.001, fired.set)
        await fired.wait()
        raise ValueError

    with pytest.raises(HandlerFailed):
        await ref.ask(Do(work=fire_and_crash), within(5))
    assert await state(ref, within) == (1, [])


async def test_what_it_still_does_after_a_kill_is_nobodys(system, within):
    ref = await supervised(system, within)
    release = asyncio.Event()

    async def stubborn(actor):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        actor.ctx.set_timer("t", 0.0, Note(word="stale"))
        actor.ctx.stop()
        return "too late"

    hanging = ref.ask(Do(work=stubborn), within(5))
    await asyncio.sleep(0)
    system.kill("/a")
    release.set()
    assert await state(ref, within) == (1, [])
    assert system.custody.lost() == []
    await system.idle()
    assert await state(ref, within) == (1, [])
    assert hanging.done()
