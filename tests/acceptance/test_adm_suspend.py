"""ADM-7, as far as sessions go: a suspended one stays."""

from actors.messages.lifecycle import Resume, Suspend
from actors.messages.store import ListSessions
from tests.acceptance.conftest import Api
from tests.harness import until


async def test_adm_7_a_suspended_session_is_not_passivated_and_loses_nothing(boot, client):
    harness = await boot(**{"session.idle_s": 0.05})
    api = Api(client, harness)
    await api.say("one", "c1")
    (session,) = await harness.ask("/store", ListSessions())
    # It may have left between the answer and here: another message brings it back.
    ref = harness.system.find(f"/sessions/{session.session_id}")
    if ref is None:
        await api.say("two", "c1")
        ref = harness.at(f"/sessions/{session.session_id}")
    await ref.ask(Suspend(), harness.within())
    # What it still handles are its rest timers: they come several times, and it is still there.
    handled = ref._cell.handled
    await until(lambda: ref._cell.handled >= handled + 3)
    assert harness.system.find(f"/sessions/{session.session_id}") is ref
    await ref.ask(Resume(), harness.within())
    assert (await api.say("three", "c1"))[0] == 200
    await until(lambda: harness.system.find(f"/sessions/{session.session_id}") is None)
