"""A child that does not end when it is killed: nothing starts beside it, it is quarantined, and comes back or is released."""

import asyncio

import pytest

from actors.exceptions import ActorQuarantined, ActorStopped, HandlerFailed
from actors.messages.lifecycle import DeadLetterReason, StopStatus
from actors.messages.quarantine import PlaceFree, QuarantineReason
from actors.supervision import ChildSpec, Intensity, Restart, Strategy, Supervisor
from actors.supervision.stuck import LATE_SECONDS
from tests.actors.runtime.conftest import Do, Note, Scribe
from tests.actors.supervision.stubborn import LOST_SECONDS, Tree


def spec(name, **options):
    return ChildSpec(name=name, factory=Scribe, **options)


async def words(tree, path):
    return await tree.at(path).ask(Do(work=lambda actor: list(actor.words)), tree.within())


async def quarantined(tree, path):
    """Kill a child in a handler that does not end, and let its budget pass."""
    stubborn = await tree.hang(path)
    tree.system.kill(path, by="ann", why="stuck")
    await tree.pass_time(LOST_SECONDS + 0.5)
    assert tree.state(path) == "quarantined"
    return stubborn


# Before the budget is over


async def test_nothing_starts_beside_a_task_that_still_runs_and_then_the_mail_is_served():
    async with Tree(spec("a")) as tree:
        ref = tree.at("/a")
        stubborn = await tree.hang("/a")
        tree.system.kill("/a")
        ref.tell(Note(word="kept"))
        await tree.pass_time(LOST_SECONDS - 0.5)
        assert (tree.state("/a"), "actor.restarted" in tree.kinds()) == ("down", False)
        assert stubborn.cancelled == 1
        await stubborn.let_go()
        assert await words(tree, "/a") == ["kept"]
        assert await tree.incarnation("/a") == 1 and tree.at("/a") is ref
        assert "actor.quarantined" not in tree.kinds()


async def test_a_kill_that_works_delays_nothing():
    async with Tree(spec("a")) as tree:
        tree.at("/a").ask(Do(work=lambda actor: asyncio.Event().wait()), tree.within())
        await tree.settle()
        tree.system.kill("/a")
        assert await tree.incarnation("/a") == 1
        assert tree.system.custody.lost() == []


async def test_a_task_beside_the_handlers_counts_too():
    async with Tree(spec("a")) as tree:
        stubborn = tree.stubborn()

        async def beside():
            await stubborn.work()

        await tree.at("/a").ask(Do(work=lambda actor: actor.ctx.run(beside(), "beside")), tree.within())
        await stubborn.begun.wait()
        with pytest.raises(HandlerFailed):
            await tree.at("/a").ask(Do(work=lambda actor: 1 / 0), tree.within())
        await tree.settle()
        assert tree.state("/a") == "down"
        await stubborn.let_go()
        assert await tree.incarnation("/a") == 1


async def test_a_child_that_is_not_held_waits_for_its_place_too():
    async with Tree(spec("parent")) as tree:
        parent = tree.at("/parent")

        def start(actor):
            return actor.ctx.spawn("x", Scribe)

        await parent.ask(Do(work=start), tree.within())
        stubborn = await tree.hang("/parent/x")
        tree.system.kill("/parent/x")
        await tree.settle()
        assert tree.state("/parent/x") is None
        free = await parent.ask(Do(work=lambda actor: actor.ctx.wait_for_place("x")), tree.within())
        again = await parent.ask(Do(work=start), tree.within())
        again.tell(Note(word="early"))
        await tree.settle()
        assert not free and tree.state("/parent/x") == "created"
        await stubborn.let_go()
        assert await words(tree, "/parent/x") == ["early"]
        assert PlaceFree.__name__ in await words(tree, "/parent")


async def test_a_parent_that_is_made_anew_starts_nothing_beside_it_either():
    inner = ChildSpec(name="inner", factory=lambda: Supervisor((spec("a"), spec("b"))))
    async with Tree(inner, spec("c")) as tree:
        stubborn = await tree.hang("/inner/a")
        tree.system.kill("/inner")
        await tree.pass_time(LOST_SECONDS + 1)
        # Its sibling under the new supervisor lives, and so does everybody else.
        assert (tree.state("/inner/a"), tree.state("/inner")) == ("quarantined", "running")
        assert await tree.incarnation("/inner/b") == 0 and await tree.incarnation("/c") == 0
        await stubborn.let_go()
        await tree.settle()
        assert tree.state("/inner/a") == "running"


# Past the budget


async def test_past_its_budget_it_is_unrouted_visible_and_an_event_and_the_siblings_live_on():
    async with Tree(spec("a"), spec("b")) as tree:
        stubborn = await tree.hang("/a")
        tree.system.kill("/a", by="ann", why="stuck")
        waiting = tree.at("/a").ask(Do(work=lambda actor: None), tree.within(3600))
        tree.at("/a").tell(Note(word="lost"))
        await tree.pass_time(LOST_SECONDS)
        assert tree.state("/a") == "down"
        await tree.pass_time(0.5)
        assert tree.state("/a") == "quarantined"
        with pytest.raises(ActorQuarantined, match="/a is quarantined: see turnkeepctl quarantine list"):
            await waiting
        with pytest.raises(ActorQuarantined):
            tree.at("/a").tell(Note(word="x"))
        with pytest.raises(ActorQuarantined):
            await tree.at("/a").ask(Do(work=lambda actor: None), tree.within())
        with pytest.raises(ActorQuarantined):
            await tree.at("/a").started(tree.within())
        assert tree.system.dead_letters.counts[DeadLetterReason.QUARANTINED] == 4
        (event,) = [event for event in tree.events if event.kind == "actor.quarantined"]
        assert event.path == "/" and event.data == {
            "child": "/a", "incarnation": 0, "reason": "still_alive", "proved": False, "error": None
        }  # fmt: skip
        (place,) = tree.system.custody.quarantined()
        assert (place.by, place.why) == ("ann", "stuck")
        assert await tree.incarnation("/b") == 0
        await stubborn.let_go()


async def test_one_that_ends_by_itself_later_comes_back_behind_the_same_ref():
    async with Tree(spec("a")) as tree:
        ref = tree.at("/a")
        stubborn = await quarantined(tree, "/a")
        await stubborn.let_go()
        await tree.settle()
        assert tree.state("/a") == "running" and tree.at("/a") is ref
        assert await tree.incarnation("/a") == 1
        assert tree.system.custody.quarantined() == ()


async def test_a_forced_release_starts_it_and_what_the_lost_task_says_later_is_fenced():
    async with Tree(spec("a")) as tree:
        ref = tree.at("/a")
        said = []
        first = await tree.at("/a").ask(Do(work=lambda actor: actor), tree.within())

        def speak():
            for act in (lambda: first.ctx.spawn("x", Scribe), first.ctx.stop, lambda: first.ctx.discard("x")):
                with pytest.raises(ActorStopped, match="what is left of it may not act for it"):
                    act()
            first.ctx.set_timer("late", 0.0, Note(word="late"))
            said.append("late")

        stubborn = await tree.hang("/a", late=speak)
        tree.system.kill("/a")
        await tree.pass_time(LOST_SECONDS + 0.5)
        tree.system.custody.release("/a", 0)
        await tree.settle()
        assert await tree.incarnation("/a") == 1 and tree.at("/a") is ref
        assert said == []
        await tree.settle()
        await stubborn.let_go()
        await tree.settle()
        assert said == ["late"] and tree.state("/a/x") is None
        assert (tree.state("/a"), tree.system.info("/a").incarnation) == ("running", 1)
        assert await words(tree, "/a") == []
        assert tree.system.dead_letters.counts[DeadLetterReason.STALE] == 1


async def test_a_release_of_another_incarnation_changes_nothing():
    async with Tree(spec("a")) as tree:
        stubborn = await quarantined(tree, "/a")
        tree.system.custody.release("/a", 1)
        await tree.settle()
        assert tree.state("/a") == "quarantined"
        await stubborn.let_go()


async def test_a_sweep_that_woke_late_quarantines_nobody():
    async with Tree(spec("a")) as tree:
        stubborn = await tree.hang("/a")
        tree.system.kill("/a")
        await tree.pass_time(LOST_SECONDS - 0.25)
        # The loop was held up: the sweep's timer fires at its time, and its message is read much later.
        tree.clock.seconds += LATE_SECONDS + 1
        tree.clock.advance(0)
        await tree.settle()
        assert tree.state("/a") == "down"
        await tree.pass_time(0.5)
        assert tree.state("/a") == "quarantined"
        await stubborn.let_go()


async def test_a_stop_that_overran_leads_there_and_is_answered_within_its_budget():
    async with Tree(spec("a")) as tree:
        stubborn = await tree.hang("/a")
        stopping = asyncio.ensure_future(tree.system.stop(tree.at("/a"), tree.within(1.0), by="ann"))
        await tree.settle()
        tree.clock.advance(0.9)
        async with asyncio.timeout(5):
            # What is left of the budget passes on the loop's own clock.
            assert await stopping is StopStatus.STILL_ALIVE
        await tree.pass_time(LOST_SECONDS + 0.5)
        (place,) = tree.system.custody.quarantined()
        assert (place.by, place.why) == ("ann", "did not end within the budget of its stop")
        assert await tree.system.stop(tree.at("/a"), tree.within()) is StopStatus.STILL_ALIVE
        assert tree.state("/a") == "quarantined"
        await stubborn.let_go()


async def test_a_supervisor_stops_with_a_quarantined_child_and_leaves_nobody_behind():
    async with Tree(spec("a"), spec("b")) as tree:
        await quarantined(tree, "/a")
        assert await tree.system.stop(tree.root, tree.within()) is StopStatus.STOPPED
        assert [info.path for info in tree.system.actors()] == ["/sink", "/sweeper"]


async def test_a_temporary_child_is_gone_from_the_tree_and_held_all_the_same():
    async with Tree(spec("a", restart=Restart.TEMPORARY)) as tree:
        stubborn = await tree.hang("/a")
        tree.system.kill("/a")
        await tree.pass_time(LOST_SECONDS + 0.5)
        assert tree.state("/a") is None
        assert [place.path for place in tree.system.custody.quarantined()] == ["/a"]
        await stubborn.let_go()
        await tree.settle()
        assert tree.system.custody.quarantined() == ()


@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
async def test_a_group_comes_back_without_the_one_that_does_not_end(strategy):
    async with Tree(spec("a"), spec("b"), spec("c"), strategy=strategy) as tree:
        stubborn = await tree.hang("/a")
        tree.system.kill("/a")
        await tree.pass_time(LOST_SECONDS + 1)
        assert tree.state("/a") == "quarantined"
        assert [await tree.incarnation(f"/{name}") for name in "bc"] == [1, 1]
        await stubborn.let_go()
        await tree.settle()
        assert [await tree.incarnation(f"/{name}") for name in "abc"] == [1, 1, 1]


# Past the restart intensity


async def crash(tree, path):
    with pytest.raises(HandlerFailed):
        await tree.at(path).ask(Do(work=lambda actor: 1 / 0), tree.within())
    await tree.settle()


async def test_past_its_intensity_its_place_stays_and_a_release_begins_a_fresh_window():
    async with Tree(spec("a"), spec("b"), intensity=Intensity(1, 60.0)) as tree:
        ref = tree.at("/a")
        await crash(tree, "/a")
        await crash(tree, "/a")
        assert tree.state("/a") == "quarantined" and tree.at("/a") is ref
        with pytest.raises(ActorStopped, match="quarantined"):
            ref.tell(Note(word="x"))
        (place,) = tree.system.custody.quarantined()
        assert place.reason is QuarantineReason.INTENSITY and place.proved
        assert place.why == "1 restarts within 60 s, and then crashed (ZeroDivisionError)"
        tree.system.custody.release("/a", place.incarnation)
        await tree.settle()
        assert await tree.incarnation("/a") == 2
        # A fresh window: it may fail once more, and is quarantined at the second time.
        await crash(tree, "/a")
        assert await tree.incarnation("/a") == 3
        await crash(tree, "/a")
        assert tree.state("/a") == "quarantined"
        assert await tree.incarnation("/b") == 0


async def test_one_past_its_intensity_that_also_does_not_end_stays_when_it_has_ended():
    async with Tree(spec("a"), intensity=Intensity(0, 60.0)) as tree:
        stubborn = await tree.hang("/a")
        tree.system.kill("/a")
        await tree.settle()
        (place,) = tree.system.custody.quarantined()
        assert place.reason is QuarantineReason.INTENSITY and not place.proved
        await stubborn.let_go()
        await tree.settle()
        (place,) = tree.system.custody.quarantined()
        assert place.proved and tree.state("/a") == "quarantined"
        tree.system.custody.release("/a", 0)
        assert await tree.incarnation("/a") == 1
