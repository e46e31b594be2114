"""quarantine: what is shown of it, for people and for programs."""

import json

import pytest

from actors.messages.quarantine import ListQuarantines, QuarantineReason
from tests.harness import until
from transports.terminal import quarantine
from transports.terminal.exits import Exit, Failure


@pytest.fixture
async def held(harness):
    """A lane past its restart intensity. What is logged of it stands between what verbs print."""
    harness.system.kill("/lanes/fake")
    harness.system.custody.quarantine(
        "/lanes/fake", QuarantineReason.INTENSITY, by="/lanes", why="6 restarts"
    )

    async def stored():
        return [
            row
            for row in await harness.ask("/quarantine", ListQuarantines())
            if row.version and row.case.proved
        ]

    await until(stored)
    return harness


async def result(capsys, work):
    # What was logged before goes to the same place.
    capsys.readouterr()
    await work
    return json.loads(capsys.readouterr().out)


async def test_nothing_held_is_said(desk, capsys):
    await quarantine.list_(desk)
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["NAME", "KIND", "GEN"]
    await quarantine.reconcile(desk, None)
    assert capsys.readouterr().out == "nothing is quarantined\n"
    with pytest.raises(Failure, match="nothing named /z is or was quarantined") as failed:
        await quarantine.show(desk, "/z")
    assert failed.value.exit_code is Exit.NOT_FOUND
    with pytest.raises(Failure, match="nothing named /z is quarantined") as failed:
        await quarantine.release(desk, "/z", force=False)
    assert failed.value.exit_code is Exit.NOT_FOUND


async def test_what_is_held_is_shown_with_its_evidence_and_released(held, desk, json_desk, capsys):
    (row,) = (await result(capsys, quarantine.list_(json_desk)))["quarantines"]
    assert (row["name"], row["reason"], row["proved"]) == ("/lanes/fake", "restart_intensity", True)
    await quarantine.list_(desk)
    line = capsys.readouterr().out.splitlines()[1].split()
    assert line[:6] == ["/lanes/fake", "actor", "0", "quarantined", "restart_intensity", "yes"]
    await quarantine.show(desk, row["quarantine_id"])
    facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if "  " in line)
    assert facts["why"].endswith("6 restarts") and facts["id"] == row["quarantine_id"]
    await quarantine.reconcile(desk, "/lanes/fake")
    assert "/lanes/fake  quarantined, 0 tries, last answer none\n" in capsys.readouterr().out
    await quarantine.release(desk, "/lanes/fake", force=False)
    assert "/lanes/fake is released\n" in capsys.readouterr().out
    await held.at("/lanes/fake").started(held.within())

    async def lifted():
        return (await desk.call("quarantine.list", lifted=True))["lifted"]

    (past,) = await until(lifted)
    (shown,) = (await result(capsys, quarantine.show(json_desk, past["quarantine_id"])))["quarantines"]
    assert (shown["cause"], shown["ended_by"]) == ("released", "admin")
    await quarantine.show(desk, "/lanes/fake")
    assert "released by  admin" in capsys.readouterr().out
