"""Where code that is no actor receives."""

import asyncio

import pytest

from actors.exceptions import ActorStopped, DeadlineExceeded, MailboxFull
from tests.actors.runtime.conftest import Note


async def test_messages_come_in_order(system, within):
    port = system.port("p")
    for word in "abc":
        port.tell(Note(word=word))
    assert [(await port.receive()).word for _ in range(3)] == ["a", "b", "c"]


async def test_a_receiver_waits_for_the_next(system, within):
    port = system.port("p")
    waiting = asyncio.ensure_future(port.receive())
    await asyncio.sleep(0)
    port.tell(Note(word="x"))
    assert (await waiting).word == "x"


async def test_the_budget_ends_the_wait(system, within):
    with pytest.raises(DeadlineExceeded):
        await system.port("p").receive(within(0.01))


async def test_a_cancelled_receiver_loses_nothing(system, within):
    port = system.port("p")
    waiting = asyncio.ensure_future(port.receive())
    await asyncio.sleep(0)
    waiting.cancel()
    port.tell(Note(word="x"))
    assert (await port.receive(within(1))).word == "x"


async def test_a_reader_that_fell_behind_learns_of_its_gap(system, within):
    port = system.port("p", bound=2)
    for word in "abc":
        port.tell(Note(word=word))
    assert [(await port.receive()).word for _ in range(2)] == ["a", "b"]
    with pytest.raises(MailboxFull):
        await port.receive()


async def test_closing_wakes_the_receiver_and_refuses_senders(system, within):
    port = system.port("p")
    waiting = asyncio.ensure_future(port.receive())
    await asyncio.sleep(0)
    port.close()
    with pytest.raises(ActorStopped):
        await waiting
    with pytest.raises(ActorStopped):
        port.tell(Note(word="x"))
