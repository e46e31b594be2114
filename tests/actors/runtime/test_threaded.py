"""A pykka ThreadingActor as one of ours: told, asked, watched, supervised and stopped, whatever its thread is doing."""

import asyncio
import threading

import pykka
import pytest

from actors.exceptions import ActorStopped, Conflict, DeadlineExceeded, HandlerFailed, StartFailed
from actors.messages.lifecycle import DeadLetterReason, DownReason, StopStatus
from actors.runtime import Threaded
from actors.supervision import ChildSpec, Restart, Supervisor
from tests.actors.runtime.conftest import Do, Note, Scribe
from tests.harness import until


class Blocker(pykka.ThreadingActor):
    """Theirs: does what it is asked, in its thread."""

    def __init__(self):
        super().__init__()
        self.words = []
        self.ends = []

    def on_receive(self, message):
        match message:
            case Note(word=word):
                self.words.append(word)
            case Do(work=work):
                return work(self)

    def on_stop(self):
        self.ends.append("stopped")


@pytest.fixture
async def gate():
    """Something to block a thread with, opened in the end."""
    event = threading.Event()
    yield event
    event.set()


def blocked(gate):
    return Do(work=lambda a: gate.wait(20))


@pytest.fixture
def ref(system):
    return system.spawn("/t", lambda: Threaded(Blocker))


async def test_it_is_told_and_asked_in_order_in_a_thread_of_its_own(ref, within):
    for word in "abc":
        ref.tell(Note(word=word))
    words, thread = await ref.ask(Do(work=lambda a: (a.words, threading.current_thread())), within(5))
    assert words == ["a", "b", "c"]
    assert thread.name == "/t" and thread.daemon and thread is not threading.current_thread()


async def test_theirs_tells_and_asks_ours_from_its_thread(system, ref, within):
    ours = system.spawn("/ours", Scribe)

    def talk(_):
        ours.tell(Note(word="hello"))
        return ours.ask(Do(work=lambda a: list(a.words)), within(5)).get()

    assert await ref.ask(Do(work=talk), within(5)) == ["hello"]


async def test_while_it_blocks_the_loop_comes_round_and_deadlines_hold(system, ref, within, gate):
    stuck = ref.ask(blocked(gate), within(0.05))
    behind = ref.ask(Do(work=lambda a: a.words.append("ran")), within(0.05))
    for reply in (stuck, behind):
        with pytest.raises(DeadlineExceeded):
            await reply
    gate.set()
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(5)) == []
    assert system.dead_letters.counts[DeadLetterReason.LATE] >= 1
    assert system.dead_letters.counts[DeadLetterReason.EXPIRED] == 1


async def test_a_refusal_answers_and_every_other_error_ends_it_and_is_told(system, ref, within):
    def refuse(_):
        raise Conflict("not now")

    probe = system.port("probe")
    ref.watch(probe)
    with pytest.raises(Conflict, match="not now"):
        await ref.ask(Do(work=refuse), within(5))
    with pytest.raises(HandlerFailed, match="ZeroDivisionError"):
        await ref.ask(Do(work=lambda a: 1 / 0), within(5))
    down = await probe.receive(within(5))
    assert (down.reason, down.error) == (DownReason.CRASHED, "ZeroDivisionError")


@pytest.mark.parametrize("fatal", [SystemExit, asyncio.CancelledError])
async def test_an_exit_in_its_thread_ends_it_alone_and_its_asker_hears_of_it(system, ref, within, fatal):
    def leave(_):
        raise fatal

    others = Blocker.start()
    ours = system.spawn("/ours", Scribe)
    probe = system.port("probe")
    ref.watch(probe)
    try:
        with pytest.raises(ActorStopped):
            await ref.ask(Do(work=leave), within(5))
        assert (await probe.receive(within(5))).reason is DownReason.CRASHED
        assert await ours.ask(Do(work=lambda a: "lives"), within(5)) == "lives"
    finally:
        await asyncio.to_thread(others.stop)


async def test_one_that_ends_itself_is_a_normal_end_and_what_was_queued_is_answered(system, ref, within):
    probe = system.port("probe")
    ref.watch(probe)
    asked = ref.ask(Do(work=lambda a: a.stop()), within(5))
    queued = [ref.ask(Do(work=lambda a: "ran"), within(5)) for _ in range(20)]
    await asked
    assert (await probe.receive(within(5))).reason is DownReason.NORMAL
    outcomes = await asyncio.gather(*queued, return_exceptions=True)
    assert all(isinstance(outcome, ActorStopped) for outcome in outcomes)


async def test_no_ask_is_lost_when_it_races_the_end(system, within):
    async def race(n):
        ref = system.spawn(f"/r{n}", lambda: Threaded(Blocker))
        replies = []
        for turn in range(10):
            work = (lambda a: a.stop()) if turn == 3 else (lambda a: "ok")
            replies.append(ref.ask(Do(work=work), within(10)))
            await asyncio.sleep(0)
        return await asyncio.gather(*replies, return_exceptions=True)

    outcomes = [outcome for n in range(30) for outcome in await race(n)]
    assert len(outcomes) == 300
    assert all(outcome in ("ok", None) or isinstance(outcome, ActorStopped) for outcome in outcomes)


async def test_a_stop_overtakes_runs_its_on_stop_and_waits_for_its_thread(system, ref, within):
    ends, thread = await ref.ask(Do(work=lambda a: (a.ends, threading.current_thread())), within(5))
    queued = [ref.ask(Do(work=lambda a: None), within(5)) for _ in range(20)]
    assert await system.stop(ref, within(5)) is StopStatus.STOPPED
    assert ends == ["stopped"]
    await until(lambda: not thread.is_alive())
    for reply in queued:
        with pytest.raises(ActorStopped):
            await reply


async def test_one_that_blocks_is_still_alive_after_its_stop_and_gone_when_it_lets_go(
    system, ref, within, gate
):
    stuck = ref.ask(blocked(gate), within(10))
    await until(lambda: system.busy())
    assert await system.stop(ref, within(0.2)) is StopStatus.STILL_ALIVE
    with pytest.raises(ActorStopped):
        await stuck
    assert system.custody.tasks("/t")
    gate.set()
    await until(lambda: not system.custody.tasks("/t"))
    assert system.dead_letters.counts[DeadLetterReason.LATE] >= 1


async def test_a_supervisor_starts_it_again_only_when_the_last_thread_has_ended(system, within, gate):
    threads = []

    class Counted(Blocker):
        def on_start(self):
            threads.append(threading.current_thread())

    spec = ChildSpec(name="t", factory=lambda: Threaded(Counted))
    root = system.spawn("/", lambda: Supervisor((spec,)))
    await root.started(within(5))
    ref = system.find("/t")
    ref.tell(blocked(gate))
    await until(lambda: system.busy())
    system.kill("/t")
    asked = ref.ask(Do(work=lambda a: threading.current_thread()), within(10))
    await system.idle()
    assert len(threads) == 1 and not asked.done()
    gate.set()
    assert await asked is threads[1]
    assert threads[0] is not threads[1]


async def test_a_transient_one_that_ended_itself_stays_gone(system, within):
    spec = ChildSpec(name="t", factory=lambda: Threaded(Blocker), restart=Restart.TRANSIENT)
    root = system.spawn("/", lambda: Supervisor((spec,)))
    await root.started(within(5))
    await system.find("/t").ask(Do(work=lambda a: a.stop()), within(5))
    await until(lambda: system.find("/t") is None)


async def test_one_that_does_not_start_says_so(system, within):
    class Stillborn(Blocker):
        def on_start(self):
            raise OSError

    ref = system.spawn("/s", lambda: Threaded(Stillborn))
    with pytest.raises(StartFailed, match="on_start"):
        await ref.started(within(5))
