"""The actors in numbers."""

from actors.messages.lifecycle import Status, Suspend
from actors.runtime import Budget, System
from tests.actors.runtime.conftest import Note, Scribe, UrgentNote
from tests.clock import StillClock


async def test_a_census_adds_up_to_what_ps_shows():
    clock = StillClock()
    system = System(clock=clock)
    free = system.spawn("/a", Scribe)
    held = system.spawn("/b", Scribe)
    await system.idle()
    await held.ask(Suspend(), Budget.of(clock, 1.0))
    for word in "xyz":
        held.tell(Note(word=word))
    await system.idle()
    clock.advance(2.0)
    census = system.census()
    rows = system.actors()
    assert census.states == {Status.RUNNING: 1, Status.SUSPENDED: 1}
    assert census.ordinary_depth == sum(row.ordinary_depth for row in rows) == 3
    assert census.control_depth == sum(row.control_depth for row in rows) == 0
    assert census.oldest_s == max(row.oldest_age for row in rows) == 2.0
    await system.stop_all([free, held], Budget.of(clock, 1.0))


async def test_control_messages_that_wait_are_counted(system):
    ref = system.spawn("/a", Scribe)
    ref.tell(UrgentNote(word="x"))
    assert system.census().control_depth == 1
    await system.idle()
    assert system.census().control_depth == 0 and system.census().oldest_s == 0.0
