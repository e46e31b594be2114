"""Other threads that speak with an actor: with our refs, and with pykka's own."""

import asyncio
import threading

import pykka
import pytest

from actors.exceptions import ActorStopped, BlockingCall, HandlerFailed, MailboxFull
from actors.messages.lifecycle import DeadLetterReason
from actors.runtime import Budget, System
from tests.actors.runtime.conftest import Do, Note, Scribe


def plain(ref):
    """Return what pykka itself would address an actor with."""
    return pykka.ActorRef(ref._cell)


def in_thread(work):
    """Run something in a thread while the loop stands still, so that nothing of it has been taken up afterwards."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


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


async def test_no_ask_of_a_plain_pykka_ref_is_lost_when_it_races_a_stop(system, within):
    ref = system.spawn("/a", Scribe)
    outcomes = []

    def ask_often(foreign):
        for _ in range(300):
            try:
                outcomes.append(foreign.ask(Do(work=lambda a: "ok"), timeout=5))
            except pykka.ActorDeadError:
                outcomes.append("stopped")

    thread = threading.Thread(target=ask_often, args=(plain(ref),))
    thread.start()
    while len(outcomes) < 50:
        await asyncio.sleep(0)
    await system.stop(ref, within(5))
    await asyncio.to_thread(thread.join)
    assert len(outcomes) == 300
    assert outcomes[0] == "ok" and outcomes[-1] == "stopped"


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_wake_up_that_arrives_after_the_end_wakes_nobody(system, within, end):
    lives = []

    class Living(Scribe):
        async def on_start(self):
            lives.append("+")

        async def on_stop(self, reason):
            lives.append("-")

    ref = system.spawn("/a", Living)
    await ref.started(within(1))
    await system.idle()
    in_thread(lambda: ref.tell(Note(word="x")))
    if end == "kill":
        system.kill("/a")
    else:
        await system.stop(ref, within(1))
    await system.idle()
    assert lives == (["+"] if end == "kill" else ["+", "-"])
    assert system.actors() == []
    assert system.dead_letters.counts[DeadLetterReason.STOPPED] == 1


def test_sending_to_an_actor_whose_loop_is_closed_says_that_it_is_gone():
    async def main():
        system = System()
        ref = system.spawn("/a", Scribe)
        await system.idle()
        return ref, plain(ref), Budget.of(system.clock, 5)

    def fresh():
        return asyncio.run(main())

    with pytest.raises(ActorStopped):
        in_thread_raising(lambda: fresh()[0].tell(Note(word="x")))
    with pytest.raises(ActorStopped):
        in_thread_raising(lambda: ask_closed(*fresh()))
    with pytest.raises(pykka.ActorDeadError):
        in_thread_raising(lambda: fresh()[1].tell(Note(word="x")))
    with pytest.raises(pykka.ActorDeadError):
        in_thread_raising(lambda: fresh()[1].ask(Do(work=lambda a: None)))


def ask_closed(ref, _, budget):
    outcome = []
    # Another thread than that of the loop, which is gone.
    in_thread(lambda: outcome.append(ref.ask(Do(work=lambda a: None), budget)))
    in_thread(lambda: outcome.append(failure(outcome[0].get)))
    raise outcome[1]


def failure(call):
    try:
        call()
    except Exception as error:
        return error


def in_thread_raising(work):
    outcome = []
    in_thread(lambda: outcome.append(failure(work)))
    if outcome[0] is not None:
        raise outcome[0]


async def test_a_sync_get_on_the_loop_raises_at_once(system, within):
    ref = system.spawn("/a", Scribe)
    with pytest.raises(BlockingCall):
        ref.ask(Do(work=lambda a: None), within(1)).get(timeout=1)
    with pytest.raises(BlockingCall):
        pykka.get_all([ref.ask(Do(work=lambda a: None), within(1))])


async def test_pykkas_stop_on_the_loop_raises_at_once_and_works_from_a_thread(system, within):
    ref = system.spawn("/a", Scribe)
    with pytest.raises(BlockingCall, match=r"System\.stop"):
        ref.stop()
    assert await asyncio.to_thread(ref.stop) is True
    assert await asyncio.to_thread(ref.stop) is False


async def test_a_plain_ref_on_the_loop_raises_at_once_instead_of_blocking_it(system, within):
    foreign = plain(system.spawn("/a", Scribe))
    with pytest.raises(BlockingCall):
        await foreign.ask(Do(work=lambda a: asyncio.Event().wait()), block=False)
    for call in (lambda: foreign.ask(Do(work=lambda a: None)), foreign.stop):
        with pytest.raises(BlockingCall):
            call()


async def test_pykkas_registry_holds_none_of_ours_and_stops_none(system, within):
    ref = system.spawn("/a", Scribe)
    assert pykka.ActorRegistry.get_all() == []
    assert pykka.ActorRegistry.stop_all(timeout=1) == []
    pykka.ActorRegistry.register(ref)
    try:
        with pytest.raises(BlockingCall):
            pykka.ActorRegistry.stop_all()
        assert await asyncio.to_thread(pykka.ActorRegistry.stop_all) == [True]
    finally:
        pykka.ActorRegistry.unregister(ref)


async def test_there_are_no_proxies_and_no_hooks_and_they_say_so(system, within):
    ref = system.spawn("/a", Scribe)
    with pytest.raises(NotImplementedError, match="no proxy"):
        ref.proxy()
    with pytest.raises(TypeError, match="no proxies"):
        plain(ref).ask(pykka.messages.ProxyGetAttr(attr_path=("path",)), timeout=1)
    answer = ref.ask(Do(work=lambda a: 1), within(1))
    for hook in (answer.map, answer.filter, answer.join, answer.reduce, answer.set_get_hook):
        with pytest.raises(NotImplementedError, match="await it"):
            hook(lambda value: value)
    assert await answer == 1


async def test_a_thread_may_ask_and_wait(system, within):
    ref = system.spawn("/a", Scribe)
    answer = await asyncio.to_thread(lambda: ref.ask(Do(work=lambda a: 7), within(1)).get(timeout=1))
    assert answer == 7


async def test_a_plain_pykka_ref_can_tell_and_ask_from_a_thread(system, within):
    foreign = plain(system.spawn("/a", Scribe))

    def use():
        foreign.tell(Note(word="hello"))
        return foreign.ask(Do(work=lambda a: list(a.words)), timeout=1)

    assert await asyncio.to_thread(use) == ["hello"]


async def test_a_plain_ref_learns_of_a_failure_a_full_mailbox_and_an_end(system, within):
    ref = system.spawn("/a", Scribe, bound=1)
    foreign = plain(ref)
    with pytest.raises(HandlerFailed):
        await asyncio.to_thread(foreign.ask, Do(work=lambda a: 1 / 0), timeout=5)
    ref = system.spawn("/a", Scribe, bound=1)
    foreign = plain(ref)
    in_thread(lambda: foreign.tell(Note(word="1")))
    with pytest.raises(MailboxFull):
        foreign.tell(Note(word="2"))
    await system.stop(ref, within(1))
    with pytest.raises(pykka.ActorDeadError):
        foreign.tell(Note(word="3"))
    assert await asyncio.to_thread(foreign.stop) is False


async def test_whether_it_lives_can_be_asked_before_and_after_its_end(system, within):
    early, late = system.spawn("/early", Scribe), system.spawn("/late", Scribe)
    stopped = early.actor_stopped
    assert early.is_alive() and not stopped.is_set()
    for ref in (early, late):
        await system.stop(ref, within(1))
    assert stopped.is_set() and late.actor_stopped.is_set() and not late.is_alive()
