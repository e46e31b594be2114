"""Quarantines as operators see and lift them: who may, what is refused, and the trace that it leaves."""

import pytest

from actors.exceptions import ActorQuarantined, Conflict, Forbidden
from actors.messages.admin import (
    ListAllQuarantines,
    ReconcileNow,
    ReleaseHeld,
    RestartActor,
    ResumeActor,
    StopActor,
)
from actors.messages.quarantine import QuarantineReason
from actors.messages.rows import KeyScope

LANE = "/lanes/fake"


@pytest.fixture
def held(box):
    box.harness.system.kill(LANE)
    box.harness.system.custody.quarantine(LANE, QuarantineReason.INTENSITY, by="/lanes", why="6 restarts")
    return box


async def test_who_observes_may_look_and_not_release(held):
    result = await held.perform(ListAllQuarantines(name=LANE), KeyScope.OBSERVE)
    assert [row["name"] for row in result["quarantines"]] == [LANE]
    assert (await held.perform(ListAllQuarantines(name="/z"), KeyScope.OBSERVE))["quarantines"] == []
    for request in (ReleaseHeld(name=LANE), ReconcileNow()):
        with pytest.raises(Forbidden):
            await held.perform(request, KeyScope.OBSERVE)


async def test_a_release_is_audited_with_what_was_wanted(held):
    await held.perform(ReleaseHeld(name=LANE, force=True), KeyScope.OPERATE)
    event = await held.audited()
    assert event.kind == "admin.quarantine.release"
    assert (event.data["name"], event.data["force"], event.data["result"]) == (LANE, True, "ok")
    result = await held.perform(ListAllQuarantines())
    assert result["quarantines"] == []


@pytest.mark.parametrize("request_type", [StopActor, RestartActor])
async def test_a_quarantined_place_is_neither_stopped_nor_restarted(held, request_type):
    with pytest.raises(Conflict, match="is quarantined and does not run") as refused:
        await held.perform(request_type(path=LANE))
    assert refused.value.code == "quarantined"
    assert held.harness.system.info(LANE).state == "quarantined"


async def test_a_quarantined_place_takes_no_message(held):
    with pytest.raises(ActorQuarantined):
        await held.perform(ResumeActor(path=LANE))
