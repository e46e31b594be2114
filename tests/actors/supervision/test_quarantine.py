"""/quarantine with a real store, on a clock that stands still: rows, tries, restarts of its own, other hosts, operators."""

import asyncio
import itertools

import pytest

from actors.exceptions import Conflict, NotFound
from actors.messages.events import Publish
from actors.messages.lifecycle import DeadLetterReason, StopStatus
from actors.messages.quarantine import (
    Contain,
    ExitCause,
    HostLost,
    HostReturned,
    ListQuarantines,
    QuarantineReason,
    ReadQuarantines,
    ReconcileQuarantines,
    ReleaseQuarantine,
    StopSubject,
    Subject,
    SubjectEnded,
    SubjectFree,
    SubjectKind,
)
from actors.runtime import DEFERRED, Actor, Budget, System
from actors.supervision import ChildSpec, Supervisor
from actors.supervision.quarantine import Quarantine
from actors.supervision.sweeper import Sweeper
from storage import Store, open_database
from tests.actors.runtime.conftest import Do, Scribe
from tests.actors.supervision.stubborn import LOST_SECONDS, SETTINGS, Sink, Stubborn
from tests.clock import StillClock
from tests.harness import until


class Fraction:
    """The random number of every jitter: the bound itself, so that waits are known."""

    def random(self):
        return 1.0

    def getrandbits(self, bits):
        return 1


class Host(Actor):
    """A machine that answers stops as a test says; None: not at all."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    async def on_receive(self, message):
        match message:
            case StopSubject(subject=subject):
                self.asked.append(subject)
                answer = self.answers.pop(0) if self.answers else StopStatus.STILL_ALIVE
                if answer is None:
                    self.ctx.defer()
                    return DEFERRED
                return answer
            case Do(work=work):
                return work(self)
            case _:
                self.asked.append(message)
        return None


class World:
    """One boot of a tree with a store and /quarantine on a data directory."""

    def __init__(self, data_dir, boot_id="b1"):
        self.data_dir = data_dir
        self.boot_id = boot_id
        self.clock = StillClock()
        self.events: list[Publish] = []
        self.stubborn: list[Stubborn] = []

    async def __aenter__(self):
        self.system = System(clock=self.clock, rng=Fraction())
        self.sink = self.system.spawn("/sink", lambda: Sink(self.events))
        self.system.publish_to(self.sink)
        self.database = await open_database(self.data_dir)
        specs = (
            ChildSpec(name="store", factory=lambda: Store(self.database), bound=10_000),
            ChildSpec(name="quarantine", factory=self.quarantine),
            ChildSpec(name="sweeper", factory=lambda: Sweeper(SETTINGS)),
            ChildSpec(name="a", factory=Scribe),
            ChildSpec(name="b", factory=Scribe),
        )
        self.root = self.system.spawn("/", lambda: Supervisor(specs))
        await self.root.started(self.within())
        return self

    def quarantine(self):
        return Quarantine(store=self.system.find("/store"), boot_id=self.boot_id, settings=SETTINGS)

    async def crash(self):
        """End as the process would: what comes afterwards is not written."""
        self.system.kill("/")
        await self.database.disconnect()

    async def __aexit__(self, *_):
        for stubborn in self.stubborn:
            await stubborn.let_go()
        await self.system.stop(self.root, self.within())
        await self.system.stop(self.sink, self.within())
        await self.database.disconnect()
        self.database.close()

    def within(self):
        return Budget.of(self.clock, 3600)

    def ask(self, path, message):
        return self.system.find(path).ask(message, self.within())

    async def settle(self):
        """Let everything happen that needs no time of the clock; the store's thread needs some of the machine."""
        for _ in range(30):
            self.clock.advance(0)
            await asyncio.sleep(0)
        if self.system.info("/store").state == "running":
            await self.ask("/store", ReadQuarantines())

    async def pass_time(self, seconds):
        for _ in range(round(seconds / SETTINGS.sweep_s)):
            self.clock.advance(SETTINGS.sweep_s)
            await self.settle()

    async def lose(self, path="/a"):
        """Kill an actor that does not end, and let its budget pass."""
        stubborn = Stubborn()
        self.stubborn.append(stubborn)
        self.ask(path, Do(work=lambda actor: stubborn.work()))
        await stubborn.begun.wait()
        self.system.kill(path, by="ann", why="stuck")
        await self.pass_time(LOST_SECONDS + 0.5)
        return stubborn

    async def held(self):
        return await self.ask("/quarantine", ListQuarantines())

    async def rows(self, **fields):
        return await self.ask("/store", ReadQuarantines(**fields))

    def release(self, name="/a", forced=False):
        return self.ask("/quarantine", ReleaseQuarantine(name=name, by="bob", forced=forced))

    def told(self, kind):
        return [event.data for event in self.events if event.kind == kind]

    def state(self, path="/a"):
        return self.system.info(path).state


# Rows


async def test_an_actor_that_does_not_end_gets_a_row_with_its_evidence(tmp_path):
    async with World(tmp_path) as world:
        await world.lose()
        (row,) = await world.rows()
        assert await world.held() == (row,)
        case = row.case
        assert case.subject == Subject(kind=SubjectKind.ACTOR, name="/a", generation=0)
        assert (case.by, case.why, case.host, case.boot_id) == ("ann", "stuck", "daemon", "b1")
        assert (case.reason, case.proved, case.since) == (
            QuarantineReason.STILL_ALIVE,
            False,
            1_800_000_000.0,
        )
        (opened,) = world.told("quarantine.opened")
        assert opened["subject"] == "/a" and opened["why"] == "stuck"


async def test_its_own_end_lifts_it_and_is_recorded(tmp_path):
    async with World(tmp_path) as world:
        stubborn = await world.lose()
        await stubborn.let_go()
        await world.settle()
        assert (await world.held(), await world.rows(), world.state()) == ((), (), "running")
        (row,) = await world.rows(closed=True)
        assert (row.case.cause, row.case.ended_by) == (ExitCause.ENDED, None)
        (lifted,) = world.told("quarantine.lifted")
        assert (lifted["subject"], lifted["cause"]) == ("/a", "ended")


async def test_it_is_asked_again_after_1_2_4_up_to_300_seconds(tmp_path):
    async with World(tmp_path) as world:
        stubborn = await world.lose()
        began, tries = world.clock.seconds, []
        while len(tries) < 11:
            before = stubborn.cancelled
            world.clock.advance(0.25)
            await world.settle() if world.clock.seconds - began < 20 else await breathe(world)
            if stubborn.cancelled > before:
                tries.append(world.clock.seconds)
        waits = [round(later - earlier) for earlier, later in itertools.pairwise(tries)]
        assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
        (case,) = [row.case for row in await world.held()]
        assert (case.attempts, case.last_answer) == (11, "still_alive")
        # The clock ran on while the store's thread worked: a write may have to be repeated.
        await world.pass_time(120)
        (row,) = await world.rows()
        assert row.case.attempts == 11


async def breathe(world):
    for _ in range(4):
        await asyncio.sleep(0)


async def test_a_store_that_is_away_holds_nothing_up_and_gets_the_row_later(tmp_path):
    async with World(tmp_path) as world:
        world.system.failpoints.always("store.before_commit", broken)
        await world.lose()
        (row,) = await world.held()
        assert row.version == 0 and world.state() == "quarantined"
        with pytest.raises(Conflict, match="nothing proves that actor /a"):
            await world.release()
        assert (await world.release(forced=True)).case.cause is ExitCause.FORCED
        await world.settle()
        assert world.state() == "running"
        assert await world.rows() == await world.rows(closed=True) == ()
        world.system.failpoints.clear("store.before_commit")
        await world.pass_time(60)
        (row,) = await world.rows(closed=True)
        assert (row.case.cause, row.case.ended_by, row.version) == (ExitCause.FORCED, "bob", 1)


def broken():
    raise OSError("no")


async def test_a_write_whose_answer_is_lost_is_looked_for_and_not_contradicted(tmp_path):
    async with World(tmp_path) as world:
        dropped = []

        def drop():
            if not dropped:
                dropped.append(1)
                return True
            return False

        stubborn = Stubborn()
        world.stubborn.append(stubborn)
        world.ask("/a", Do(work=lambda actor: stubborn.work()))
        await stubborn.begun.wait()
        world.system.kill("/a", by="ann", why="stuck")
        await world.pass_time(LOST_SECONDS)
        world.system.failpoints.always("store.answer", drop)
        # The first answer from here on is the one to the row's first write.
        world.clock.advance(SETTINGS.sweep_s)
        await until(lambda: world.clock.advance(0.0) or dropped)
        await world.pass_time(SETTINGS.store_s + 2)
        (row,) = await world.rows()
        assert row == (await world.held())[0] and row.version >= 2


# Restarts


async def test_its_own_restart_loses_nothing(tmp_path):
    async with World(tmp_path) as world:
        stubborn = await world.lose()
        await world.lose("/b")
        (before, other) = await world.held()
        world.system.kill("/quarantine")
        world.system.custody.release("/b", 0)
        await world.settle()
        await world.settle()
        (after,) = await world.held()
        assert after.quarantine_id == before.quarantine_id and after.case.since == before.case.since
        # What was let go while it was down is found to be over.
        (closed,) = await world.rows(closed=True)
        assert closed.quarantine_id == other.quarantine_id
        await stubborn.let_go()
        await world.settle()
        assert await world.held() == () and world.state() == "running"


async def test_its_restart_while_the_store_is_away_shows_what_is_held_all_the_same(tmp_path):
    async with World(tmp_path) as world:
        await world.lose()
        (row,) = await world.rows()
        world.system.failpoints.always("store.before_begin", broken)
        world.system.kill("/quarantine")
        for _ in range(100):
            world.clock.advance(0)
            await asyncio.sleep(0)
        assert [held.quarantine_id for held in await world.held()] == [row.quarantine_id]
        world.system.failpoints.clear("store.before_begin")
        await world.pass_time(60)
        (after,) = await world.rows()
        assert after == (await world.held())[0] and after.version > row.version


async def test_what_an_earlier_process_held_is_proved_by_its_end_but_only_for_what_it_ran_itself(tmp_path):
    session = Subject(kind=SubjectKind.SESSION, name="s1", generation=7)
    async with World(tmp_path) as world:
        await world.lose()
        host = world.system.spawn("/host", lambda: Host([]))
        world.ask("/quarantine", ListQuarantines())
        world.system.find("/quarantine").tell(HostReturned(host="machine-x", address=host))
        world.system.find("/quarantine").tell(contain(session, host))
        await world.settle()
        assert len(await world.rows()) == 2
        await world.crash()
        await world.system.stop(host, world.within())
    async with World(tmp_path, "b2") as world:
        assert world.state() == "running"
        await world.settle()
        (closed,) = await world.rows(closed=True)
        assert (closed.case.subject.name, closed.case.cause) == ("/a", ExitCause.PROCESS_RESTARTED)
        # Nobody can say anything about the session: it stays, and so it does in the next process.
        (row,) = await world.held()
        assert (row.case.subject, row.case.last_answer) == (session, "no_answer")
        with pytest.raises(Conflict, match="nothing proves that session s1"):
            await world.release("s1")
    async with World(tmp_path, "b3") as world:
        host = world.system.spawn("/host", lambda: Host([StopStatus.STILL_ALIVE, StopStatus.ALREADY_GONE]))
        for _ in range(2):
            # Its machine comes back, goes, and comes back.
            world.system.find("/quarantine").tell(HostReturned(host="machine-x", address=host))
            await world.settle()
            world.system.find("/quarantine").tell(HostLost(host="machine-x"))
        assert await world.held() == ()
        (row, _) = await world.rows(closed=True)
        assert (row.case.subject, row.case.cause) == (session, ExitCause.STOPPED)
        await world.system.stop(host, world.within())


# Other hosts


def contain(subject, owner, host="machine-x"):
    return Contain(subject=subject, host=host, owner=owner, by="ann", why="reopen", stop_s=5.0)


async def contained(world, answers, subject):
    """Return the host, which is also the owner, after it was asked for the first time."""
    host = world.system.spawn("/host", lambda: Host(answers))
    world.system.find("/quarantine").tell(HostReturned(host="machine-x", address=host))
    world.system.find("/quarantine").tell(contain(subject, host))
    await world.settle()
    return host


SUBJECT = Subject(kind=SubjectKind.SESSION, name="s1", generation=7)


@pytest.mark.parametrize("answer", [StopStatus.STOPPED, StopStatus.ALREADY_GONE])
async def test_a_confirmed_stop_frees_at_once_and_leaves_no_row(tmp_path, answer):
    async with World(tmp_path) as world:
        host = await contained(world, [answer], SUBJECT)
        asked = await host.ask(Do(work=lambda host: list(host.asked)), world.within())
        assert asked == [SUBJECT, SubjectFree(subject=SUBJECT, cause=ExitCause.STOPPED)]
        assert (await world.held(), await world.rows(), await world.rows(closed=True)) == ((), (), ())
        await world.system.stop(host, world.within())


@pytest.mark.parametrize("answer", [StopStatus.STILL_ALIVE, None])
async def test_without_a_proof_it_is_quarantined_and_freed_by_what_proves_it_later(tmp_path, answer):
    async with World(tmp_path) as world:
        host = await contained(world, [answer], SUBJECT)
        if answer is None:
            # The budget of the stop.
            await world.pass_time(5.25)
        (row,) = await world.rows()
        assert row.case.last_answer == (answer.value if answer is not None else "no_answer")
        older = Subject(kind=SubjectKind.SESSION, name="s1", generation=6)
        world.system.find("/quarantine").tell(SubjectEnded(subject=older))
        await world.settle()
        assert len(await world.held()) == 1
        assert world.system.dead_letters.counts[DeadLetterReason.STALE] == 1
        world.system.find("/quarantine").tell(SubjectEnded(subject=SUBJECT))
        await world.settle()
        assert await world.held() == ()
        asked = await host.ask(Do(work=lambda host: list(host.asked)), world.within())
        assert asked[-1] == SubjectFree(subject=SUBJECT, cause=ExitCause.ENDED)
        await world.system.stop(host, world.within())


# Operators


async def test_an_operator_names_it_by_its_path_or_id_and_asks_again(tmp_path):
    async with World(tmp_path) as world:
        await world.lose()
        (row,) = await world.held()
        (asked,) = await world.ask("/quarantine", ReconcileQuarantines(name=row.quarantine_id[:8]))
        assert asked.case.attempts == row.case.attempts + 1
        assert await world.ask("/quarantine", ReconcileQuarantines()) != ()
        with pytest.raises(NotFound, match="nothing named /z is quarantined"):
            await world.release("/z")
        assert (await world.release(row.quarantine_id, forced=True)).case.ended_by == "bob"
        await world.settle()
        assert world.state() == "running"
        with pytest.raises(NotFound):
            await world.release()


async def test_one_past_its_intensity_is_released_plainly(tmp_path):
    async with World(tmp_path) as world:
        world.system.kill("/a")
        world.system.custody.quarantine("/a", QuarantineReason.INTENSITY, by="/", why="6 restarts")
        await world.settle()
        (row,) = await world.rows()
        assert row.case.proved and row.case.reason is QuarantineReason.INTENSITY
        released = await world.release()
        await world.settle()
        assert released.case.cause is ExitCause.RELEASED and world.state() == "running"
        (closed,) = await until(lambda: world.rows(closed=True))
        assert closed.case == released.case
