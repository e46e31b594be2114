"""What an asker gets: answers, refusals, failures, deadlines, late and deferred answers."""

import asyncio
from typing import Any

import pytest

from actors.exceptions import (
    ActorStopped,
    Conflict,
    DeadlineExceeded,
    HandlerFailed,
)
from actors.messages.lifecycle import (
    DeadLetterReason,
)
from actors.runtime import DEFERRED, Actor
from tests.actors.runtime.conftest import Do, Note, Scribe


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


async def test_answers_that_were_given_are_forgotten_by_whoever_deferred_them(system, within):
    def defer(actor):
        actor.ctx.defer().set("now")
        return DEFERRED

    ref = system.spawn("/a", Scribe)
    for _ in range(1000):
        assert await ref.ask(Do(work=defer), within(5)) == "now"
    assert len(ref._cell.own._deferred) <= 64


async def test_a_message_told_to_an_ended_actor_is_a_dead_letter(system, within):
    ref = system.spawn("/a", Scribe)
    await system.stop(ref, within(1))
    with pytest.raises(ActorStopped):
        ref.tell(Note(word="x"))
    letter = system.dead_letters.last()[-1]
    assert (letter.path, letter.message_type, letter.reason) == ("/a", "Note", DeadLetterReason.STOPPED)
