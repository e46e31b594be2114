"""Handling, lanes, answers and ends of single actors."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pykka
import pytest

from actors.exceptions import (
    ActorStopped,
    BlockingCall,
    Conflict,
    DeadlineExceeded,
    HandlerFailed,
    MailboxFull,
    StartFailed,
)
from actors.messages.lifecycle import (
    DeadLetterReason,
    Down,
    DownReason,
    Resume,
    Stop,
    StopStatus,
    Suspend,
)
from actors.runtime import DEFERRED, Actor, Overflow, System
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


async def test_an_ask_is_not_run_after_its_deadline(system, within):
    ref = system.spawn("/a", Scribe)
    ran = []
    with pytest.raises(DeadlineExceeded):
        await ref.ask(Do(work=ran.append), within(0))
    await system.idle()
    assert ran == []
    assert system.dead_letters.counts[DeadLetterReason.EXPIRED] == 1


async def test_a_deadline_frees_the_asker_and_the_late_answer_is_counted(system, within):
    ref = system.spawn("/a", Scribe)
    gate = asyncio.Event()
    with pytest.raises(DeadlineExceeded):
        await ref.ask(Do(work=lambda a: gate.wait()), within(0.01))
    gate.set()
    await system.idle()
    assert system.dead_letters.counts[DeadLetterReason.LATE] == 1


async def test_a_full_mailbox_refuses_a_tell_and_answers_an_ask(system, within):
    ref = system.spawn("/a", Scribe, bound=2)
    ref.tell(Note(word="1"))
    ref.tell(Note(word="2"))
    with pytest.raises(MailboxFull):
        ref.tell(Note(word="3"))
    with pytest.raises(MailboxFull):
        await ref.ask(Do(work=lambda a: None), within(1))
    assert system.dead_letters.counts[DeadLetterReason.OVERFLOW] == 2


async def test_drop_oldest_keeps_the_newest(system, within):
    ref = system.spawn("/a", Scribe, bound=2, overflow=Overflow.DROP_OLDEST)
    for word in "abcd":
        ref.tell(Note(word=word))
    await system.idle()
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == ["c", "d"]
    assert system.dead_letters.counts[DeadLetterReason.OVERFLOW] == 2


async def test_send_waits_for_room(system, within):
    ref = system.spawn("/a", Scribe, bound=1)
    ref.tell(Note(word="1"))
    await ref.send(Note(word="2"), within(1))
    await system.idle()
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == ["1", "2"]


async def test_send_gives_up_at_the_end_of_its_budget(system, within):
    ref = system.spawn("/a", Scribe, bound=1)
    gate = asyncio.Event()
    reply = ref.ask(Do(work=lambda a: gate.wait()), within(1))
    await asyncio.sleep(0)
    ref.tell(Note(word="1"))
    with pytest.raises(DeadlineExceeded):
        await ref.send(Note(word="2"), within(0.01))
    gate.set()
    await reply


async def test_a_refusal_answers_the_asker_and_the_actor_lives_on(system, within):
    def refuse(_):
        raise Conflict("not now")

    ref = system.spawn("/a", Scribe)
    with pytest.raises(Conflict, match="not now"):
        await ref.ask(Do(work=refuse), within(1))
    assert await ref.ask(Do(work=lambda a: a.ctx.incarnation), within(1)) == 0


async def test_an_error_in_an_asked_handler_reaches_the_asker_and_ends_the_actor(system, within):
    def fail(_):
        raise ValueError("a secret")

    ref = system.spawn("/a", Scribe)
    with pytest.raises(HandlerFailed, match="ValueError") as caught:
        await ref.ask(Do(work=fail), within(1))
    assert "secret" not in str(caught.value)
    with pytest.raises(ActorStopped):
        ref.tell(Note(word="x"))


async def test_a_cancellation_inside_a_handler_is_its_own_failure_only(system, within):
    async def cancelled():
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    victim = system.spawn("/victim", Scribe)
    bystander = system.spawn("/bystander", Scribe)
    with pytest.raises(HandlerFailed, match="CancelledError"):
        await victim.ask(Do(work=lambda a: cancelled()), within(1))
    assert await bystander.ask(Do(work=lambda a: "alive"), within(1)) == "alive"


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
    while system.unended:
        await asyncio.sleep(0)


async def test_suspend_holds_ordinary_messages_and_resume_loses_none(system, within):
    ref = system.spawn("/a", Scribe)
    await ref.ask(Suspend(), within(1))
    for word in "abc":
        ref.tell(Note(word=word))
    ref.tell(UrgentNote(word="urgent"))
    await system.idle()
    (info,) = system.actors()
    assert info.state == "suspended" and info.ordinary_depth == 3
    await ref.ask(Resume(), within(1))
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == ["urgent", "a", "b", "c"]


async def test_a_deferred_answer_is_given_later(system, within):
    replies = []

    def defer(actor):
        replies.append(actor.ctx.defer())
        return DEFERRED

    ref = system.spawn("/a", Scribe)
    asked = ref.ask(Do(work=defer), within(1))
    await system.idle()
    assert not asked.done()
    replies[0].set("later")
    assert await asked == "later"


async def test_a_deferred_answer_is_not_lost_when_the_actor_stops(system, within):
    def defer(actor):
        actor.ctx.defer()
        return DEFERRED

    ref = system.spawn("/a", Scribe)
    asked = ref.ask(Do(work=defer), within(5))
    await system.idle()
    await system.stop(ref, within(1))
    with pytest.raises(ActorStopped):
        await asked


async def test_a_forwarded_message_is_answered_by_its_receiver(system, within):
    target = system.spawn("/target", Scribe)

    class Forwarder(Actor):
        async def on_receive(self, message: Any) -> Any:
            self.ctx.forward(target)
            return DEFERRED

    ref = system.spawn("/forwarder", Forwarder)
    assert await ref.ask(Do(work=lambda a: a.ctx.path), within(1)) == "/target"


async def test_a_pipe_turns_an_answer_into_a_message(system, within):
    other = system.spawn("/other", Scribe)

    def ask_other(actor):
        actor.ctx.pipe(
            other.ask(Do(work=lambda a: "x"), actor.ctx.within(1)),
            lambda value: Note(word=value),
            lambda error: Note(word=type(error).__name__),
        )
        actor.ctx.pipe(
            other.ask(Do(work=lambda a: 1 / 0), actor.ctx.within(1)),
            lambda value: Note(word=value),
            lambda error: Note(word=type(error).__name__),
        )

    ref = system.spawn("/a", Scribe)
    await ref.ask(Do(work=ask_other), within(1))
    await system.idle()
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == ["x", "HandlerFailed"]


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


async def test_an_eager_task_factory_does_not_run_the_receiver_inside_tell():
    if not hasattr(asyncio, "eager_task_factory"):
        loop = asyncio.get_running_loop()

        def eager(loop, coro, **kwargs):
            task = asyncio.Task(coro, loop=loop, **kwargs)
            return task

        loop.set_task_factory(eager)
    else:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    system = System()
    ref = system.spawn("/a", Scribe)
    await system.idle()
    ref.tell(Note(word="x"))
    assert len(ref._cell.mailbox.ordinary) == 1
    await system.idle()
    asyncio.get_running_loop().set_task_factory(None)


async def test_a_message_told_to_an_ended_actor_is_a_dead_letter(system, within):
    ref = system.spawn("/a", Scribe)
    await system.stop(ref, within(1))
    with pytest.raises(ActorStopped):
        ref.tell(Note(word="x"))
    letter = system.dead_letters.last()[-1]
    assert (letter.path, letter.message_type, letter.reason) == ("/a", "Note", DeadLetterReason.STOPPED)


async def test_answers_that_were_given_are_forgotten_by_whoever_deferred_them(system, within):
    def defer(actor):
        actor.ctx.defer().set("now")
        return DEFERRED

    ref = system.spawn("/a", Scribe)
    for _ in range(1000):
        assert await ref.ask(Do(work=defer), within(5)) == "now"
    assert len(ref._cell.own._deferred) <= 64
