"""Handlers that wait for each other: told at once, instead of all of them waiting for their deadlines."""

import asyncio

import pytest

from actors.exceptions import CallCycle, HandlerFailed
from actors.runtime import DEFERRED
from tests.actors.runtime.conftest import Do, Scribe


def asking(ref, within, work):
    """A handler that asks ``ref`` to do ``work``, and waits for it."""

    async def ask():
        return await ref.ask(Do(work=work), within(60))

    return lambda actor: ask()


async def test_who_asks_itself_is_told(system, within):
    ref = system.spawn("/a", Scribe)
    caught = []

    async def ask_itself(actor):
        try:
            await ref.ask(Do(work=lambda a: None), within(60))
        except CallCycle as cycle:
            caught.append(cycle.paths)

    await ref.ask(Do(work=ask_itself), within(60))
    assert caught == [("/a", "/a")]


async def test_a_cycle_of_three_ends_where_it_closes(system, within):
    first, second, third = (system.spawn(f"/{name}", Scribe) for name in ("first", "second", "third"))
    back = asking(first, within, lambda actor: None)
    with pytest.raises(HandlerFailed, match="/first"):
        await first.ask(Do(work=asking(second, within, asking(third, within, back))), within(60))
    await system.idle()
    # The one that would have closed it has failed with the cycle; those that waited for it hear that it failed.
    assert system.find("/third") is None


async def test_an_answer_given_beside_the_handler_is_no_cycle(system, within):
    first, second = system.spawn("/first", Scribe), system.spawn("/second", Scribe)
    owed = []

    def owe(actor):
        owed.append(actor.ctx.defer())
        return DEFERRED

    async def wait_for_second(actor):
        return await second.ask(Do(work=owe), within(60))

    async def wait_for_first(actor):
        asyncio.get_running_loop().call_soon(owed[0].set, "answered")
        return await first.ask(Do(work=lambda a: "handled"), within(60))

    one = first.ask(Do(work=wait_for_second), within(60))
    while not owed:
        await asyncio.sleep(0)
    two = second.ask(Do(work=wait_for_first), within(60))
    assert (await one, await two) == ("answered", "handled")


async def test_a_forwarded_question_waits_for_its_receiver(system, within):
    first = system.spawn("/first", Scribe)
    caught = []

    class Passing(Scribe):
        async def on_receive(self, message):
            self.ctx.forward(first)
            return DEFERRED

    passing = system.spawn("/passing", Passing)

    async def ask_through(actor):
        reply = passing.ask(Do(work=lambda a: None), within(60))
        while passing._cell in system.active.values():
            await asyncio.sleep(0)
        try:
            await reply
        except CallCycle as cycle:
            caught.append(cycle.paths)

    await first.ask(Do(work=ask_through), within(60))
    assert caught == [("/first", "/first")]


async def test_actors_that_ask_back_without_waiting_are_no_cycle(system, within):
    first, second = system.spawn("/first", Scribe), system.spawn("/second", Scribe)
    heard = asyncio.Event()

    def ask_back(actor):
        actor.ctx.pipe(
            first.ask(Do(work=lambda a: "x"), within(60)),
            lambda value: Do(work=lambda a: heard.set()),
            lambda error: Do(work=lambda a: None),
        )

    await first.ask(Do(work=asking(second, within, ask_back)), within(60))
    await heard.wait()
