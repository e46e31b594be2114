"""What has ended goes at once: cycles would pile up until a full collection holds the loop (REL-5)."""

import gc
import weakref

import pytest

from actors.runtime import DEFERRED
from tests.actors.runtime.conftest import Do, Scribe


@pytest.fixture
def uncollected():
    """Nothing but its last reference ends an object."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def raises(_):
    raise ValueError


@pytest.mark.parametrize("end", ["stopped", "itself", "crashed", "killed"])
async def test_an_actor_that_has_ended_is_gone_with_all_it_had(system, within, uncollected, end):
    ref = system.spawn("/a", Scribe)
    await ref.ask(Do(work=lambda actor: actor.ctx.set_timer("t", 60.0, Do(work=raises))), within(5))
    gone = [weakref.ref(ref._cell), weakref.ref(ref._cell.behaviour), weakref.ref(ref)]
    match end:
        case "stopped":
            await system.stop(ref, within(5))
        case "itself":
            ref.tell(Do(work=lambda actor: actor.ctx.stop()))
        case "crashed":
            ref.tell(Do(work=raises))
        case "killed":
            system.kill("/a")
    del ref
    await system.idle()
    assert [one() for one in gone] == [None, None, None]


async def test_a_child_that_has_ended_leaves_nothing_with_its_parent(system, within, uncollected):
    parent = system.spawn("/a", Scribe)
    gone = []

    def spawn(actor):
        child = actor.ctx.spawn("b", Scribe)
        gone.extend([weakref.ref(child._cell), weakref.ref(child)])
        child.tell(Do(work=lambda b: b.ctx.stop()))

    await parent.ask(Do(work=spawn), within(5))
    await system.idle()
    assert [one() for one in gone] == [None, None]


async def test_an_actor_keeps_one_ref_as_long_as_somebody_has_it(system):
    ref = system.spawn("/a", Scribe)
    assert system.find("/a") is ref
    del ref
    again = system.find("/a")
    assert again is system.find("/a") and again.is_alive()


async def test_answers_that_were_given_are_not_kept_for_long(system, within):
    ref = system.spawn("/a", Scribe)
    given = []

    def answer(actor):
        reply = actor.ctx.defer()
        given.append(weakref.ref(reply))
        reply.set("x" * 1000)
        return DEFERRED

    for _ in range(100):
        await ref.ask(Do(work=answer), within(5))
    assert sum(one() is not None for one in given) <= 10
