"""A full ordinary lane: refuse, wait, drop the oldest."""

import asyncio

import pytest

from actors.exceptions import ActorStopped, DeadlineExceeded, HandlerFailed, MailboxFull
from actors.messages.lifecycle import DeadLetterReason, Resume, Suspend
from actors.runtime import Budget, Overflow, System
from actors.supervision import ChildSpec, Supervisor
from tests.actors.runtime.conftest import Do, Note, Scribe, UrgentNote
from tests.clock import StillClock


async def test_a_full_mailbox_refuses_a_tell_and_answers_an_ask(system, within):
    ref = system.spawn("/a", Scribe, bound=2)
    ref.tell(Note(word="1"))
    ref.tell(Note(word="2"))
    with pytest.raises(MailboxFull):
        ref.tell(Note(word="3"))
    with pytest.raises(MailboxFull):
        await ref.ask(Do(work=lambda a: None), within(1))
    assert system.dead_letters.counts[DeadLetterReason.OVERFLOW] == 2


async def test_the_bound_is_of_ordinary_messages_only(system, within):
    ref = system.spawn("/a", Scribe, bound=1)
    ref.tell(Note(word="1"))
    for n in range(10):
        ref.tell(UrgentNote(word=str(n)))
    await system.idle()
    assert await ref.ask(Do(work=lambda a: len(a.words)), within(1)) == 11


async def test_drop_oldest_keeps_the_newest_and_answers_what_it_drops(system, within):
    ref = system.spawn("/a", Scribe, bound=2, overflow=Overflow.DROP_OLDEST)
    dropped = ref.ask(Do(work=lambda a: None), within(1))
    for word in "abcd":
        ref.tell(Note(word=word))
    with pytest.raises(MailboxFull):
        await dropped
    await system.idle()
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == ["c", "d"]
    assert system.dead_letters.counts[DeadLetterReason.OVERFLOW] == 3


# Wait


@pytest.fixture
async def held(system, within):
    """An actor whose one place is taken: nobody gets in before it is resumed."""
    ref = system.spawn("/a", Scribe, bound=1)
    await ref.ask(Suspend(), within(1))
    ref.tell(Note(word="first"))
    return ref


def sender(ref, word, budget):
    return asyncio.ensure_future(ref.send(Note(word=word), budget))


async def all_wait():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_senders_wait_for_room_and_get_in_in_the_order_of_asking(system, within, held):
    senders = [sender(held, word, within(5)) for word in "abcde"]
    await all_wait()
    held.tell(Resume())
    await senders[0]
    # One that comes later does not overtake those that wait.
    late = sender(held, "late", within(5))
    await asyncio.gather(*senders, late)
    assert await held.ask(Do(work=lambda a: list(a.words)), within(1)) == ["first", *"abcde", "late"]


async def test_nobody_barges_in_between_the_room_and_the_one_who_waits_for_it(system, within, held):
    waiting = sender(held, "waited", within(5))
    await all_wait()

    barging = []
    held.tell(UrgentNote(word="urgent"))
    held.tell(Resume())
    while not waiting.done():
        barging.append(sender(held, "barged", within(5)))
        await asyncio.sleep(0)
    await asyncio.gather(*barging)
    words = await held.ask(Do(work=lambda a: list(a.words)), within(5))
    assert words[:3] == ["urgent", "first", "waited"]


async def test_a_cancelled_sender_sends_nothing_and_passes_the_room_on(system, within, held):
    senders = [sender(held, word, within(5)) for word in "abc"]
    await all_wait()
    senders[0].cancel()
    await all_wait()
    held.tell(Resume())
    await asyncio.gather(*senders[1:])
    assert await held.ask(Do(work=lambda a: list(a.words)), within(1)) == ["first", "b", "c"]


async def test_one_that_is_cancelled_just_as_it_gets_the_room_passes_it_on(system, within, held):
    senders = [sender(held, word, within(5)) for word in "ab"]
    await all_wait()
    await held.ask(Resume(), within(5))
    senders[0].cancel()
    await asyncio.wait_for(senders[1], 5)
    words = await held.ask(Do(work=lambda a: list(a.words)), within(1))
    assert words in (["first", "b"], ["first", "a", "b"])


async def test_a_stop_wakes_all_who_wait(system, within, held):
    senders = [sender(held, word, within(5)) for word in "abc"]
    await all_wait()
    await system.stop(held, within(1))
    for waiting in senders:
        with pytest.raises(ActorStopped):
            await waiting


async def test_the_end_of_the_budget_wakes_the_one_whose_it_is():
    clock = StillClock()
    system = System(clock)
    ref = system.spawn("/a", Scribe, bound=1)
    await ref.ask(Suspend(), Budget.of(clock, 60))
    ref.tell(Note(word="first"))
    short, long = (sender(ref, word, Budget.of(clock, s)) for word, s in (("short", 5), ("long", 50)))
    await all_wait()
    clock.advance(5)
    with pytest.raises(DeadlineExceeded):
        await short
    assert not long.done()
    ref.tell(Resume())
    await long
    await system.idle()
    assert await ref.ask(Do(work=lambda a: list(a.words)), Budget.of(clock, 60)) == ["first", "long"]


async def test_those_who_wait_get_in_after_a_restart(system, within):
    spec = ChildSpec(name="a", factory=Scribe, bound=1)
    root = system.spawn("/", lambda: Supervisor((spec,)))
    await root.started(within(5))
    ref = system.find("/a")
    crashing = ref.ask(Do(work=lambda a: 1 / 0), within(5))
    senders = [sender(ref, word, within(5)) for word in "abc"]
    with pytest.raises(HandlerFailed):
        await crashing
    await asyncio.gather(*senders)
    await system.idle()
    words = await ref.ask(Do(work=lambda a: (a.ctx.incarnation, list(a.words))), within(5))
    assert words == (1, ["a", "b", "c"])
