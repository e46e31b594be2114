"""A full ordinary lane: refuse, wait, drop the oldest."""

import asyncio

import pytest

from actors.exceptions import (
    DeadlineExceeded,
    MailboxFull,
)
from actors.messages.lifecycle import (
    DeadLetterReason,
)
from actors.runtime import Overflow
from tests.actors.runtime.conftest import Do, Note, Scribe


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
