"""What is told of actors, and holding and ending them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.admin.actor_verbs import hierarchy, restart_actor, stop_actor
from actors.admin.edges import Call
from actors.exceptions import Conflict, Forbidden, NotFound
from actors.messages.admin import (
    GetActor,
    ListActors,
    OpenChat,
    RestartActor,
    ResumeActor,
    SendText,
    ShowTree,
    StopActor,
    SuspendActor,
)
from actors.messages.lifecycle import ActorInfo
from actors.messages.rows import KeyScope
from actors.messages.session import InboxReady
from tests.actors.admin.conftest import key
from tests.harness import until


def info(path: str, parent: str | None) -> ActorInfo:
    return ActorInfo(
        path=path, kind="k", state="running", incarnation=0, parent=parent, control_depth=1, ordinary_depth=2,
        oldest_age=0.0, busy_for=0.0, handled=0, restarts=0, last_error=None, age=0.0, since=0.0,
    )  # fmt: skip


def flatten(nodes, parent=None):
    for node in nodes:
        yield node["path"], parent
        yield from flatten(node["children"], node["path"])


@given(st.lists(st.integers(0, 20), max_size=20))
def test_a_hierarchy_keeps_every_actor_under_its_parent(parents):
    rows = [info("/", None)]
    for n, above in enumerate(parents):
        parent = rows[above % len(rows)].path
        rows.append(info(f"{parent.rstrip('/')}/{n}", parent))
    rows.sort(key=lambda row: row.path)
    assert sorted(flatten(hierarchy(rows)), key=str) == sorted(
        ((row.path, row.parent) for row in rows), key=str
    )


def test_depth_is_of_all_lanes():
    assert hierarchy([info("/", None)])[0]["depth"] == 3


async def test_the_list_is_of_all_or_of_a_subtree(box):
    result = await box.perform(ListActors())
    paths = [row.path for row in result["actors"]]
    assert paths == sorted(paths) and {"/", "/store", "/lanes/fake"} <= set(paths)
    under = await box.perform(ListActors(prefix="/lanes"))
    assert [row.path for row in under["actors"]] == ["/lanes", "/lanes/fake"]


async def test_the_tree_has_one_root(box):
    tree = (await box.perform(ShowTree()))["tree"]
    assert [root["path"] for root in tree] == ["/"]


async def test_one_actor_with_its_children(box):
    result = await box.perform(GetActor(path="/lanes"))
    assert result["actor"].kind == "supervisor" and result["children"] == ["/lanes/fake"]


async def test_adm_7_suspend_holds_the_ordinary_lane_and_resume_loses_nothing(box):
    assert await box.perform(SuspendActor(path="/sessions")) == {"state": "suspended"}
    await box.perform(SendText(chat="main", text="hello", watch=True))
    held = (await box.perform(GetActor(path="/sessions")))["actor"]
    assert held.state == "suspended" and held.ordinary_depth == 2
    await box.perform(ResumeActor(path="/sessions"))
    assert (await box.turn())[-1].text == "reply to: hello"


async def test_control_works_on_a_suspended_actor(box):
    await box.perform(OpenChat(chat="main"))
    await box.perform(SuspendActor(path="/lanes/fake"))
    assert (await box.perform(StopActor(path="/lanes/fake")))["status"] == "stopped"
    await until(lambda: _state(box, "/lanes/fake") == "running")


@pytest.mark.parametrize("path", ["/", "/admin", "/store"])
async def test_what_could_not_be_told_to_go_on_is_not_suspended(box, path):
    with pytest.raises(Conflict):
        await box.perform(SuspendActor(path=path))


async def test_a_permanent_actor_that_is_stopped_starts_again(box):
    assert (await box.perform(StopActor(path="/lanes/fake")))["status"] == "stopped"
    await until(lambda: _state(box, "/lanes/fake") == "running")
    row = (await box.perform(GetActor(path="/lanes/fake")))["actor"]
    assert row.incarnation == 1


async def test_a_restart_is_answered_when_the_actor_runs_again(box):
    for incarnation in (1, 2):
        answer = await box.perform(RestartActor(path="/lanes/fake"))
        assert answer == {"status": "restarted", "incarnation": incarnation}
        assert _state(box, "/lanes/fake") == "running"


@pytest.mark.parametrize("path", ["/store", "/events", "/lanes", "/relays", "/sessions", "/sweeper"])
async def test_what_waits_for_a_supervised_actor_survives_its_restart(box, path):
    await box.perform(SendText(chat="main", text="hello", watch=True))
    await box.turn()
    assert (await box.perform(RestartActor(path=path)))["incarnation"] == 1
    await box.perform(SendText(chat="main", text="again", watch=True))
    assert (await box.turn())[-1].text == "reply to: again"


async def test_restarts_that_are_ordered_do_not_count(box):
    for _ in range(7):
        assert (await box.perform(RestartActor(path="/lanes/fake")))["status"] == "restarted"
    assert box.harness.system.find("/lanes/fake") is not None


@pytest.mark.parametrize("path", ["/", "/admin", "/front"])
async def test_what_could_not_answer_afterwards_is_not_restarted(box, path):
    with pytest.raises(Conflict, match=path):
        await box.perform(RestartActor(path=path))


async def test_what_no_supervisor_holds_is_not_restarted(box):
    session = (await box.perform(OpenChat(chat="main")))["session"]["session_id"]
    box.harness.sessions.tell(InboxReady(session_id=session))
    await until(lambda: _state(box, f"/sessions/{session}") == "running")
    with pytest.raises(Conflict, match=r"actors\.stop"):
        await box.perform(RestartActor(path=f"/sessions/{session}"))


async def test_an_actor_that_waits_for_its_restart_is_not_stopped_and_a_restart_awaits_it(box):
    cell = box.harness.at("/lanes/fake")._cell
    cell.kill()
    assert cell.info(0.0).state == "down"
    with pytest.raises(Conflict, match="start it again"):
        await stop_actor(StopActor(path="/lanes/fake"), _call(box))
    answer = await restart_actor(RestartActor(path="/lanes/fake"), _call(box))
    assert answer == {"status": "restarted", "incarnation": 1}


async def test_an_actor_that_does_not_end_is_killed_and_started_again(boot):
    box = await boot(**{"admin.stop_s": 0.1})
    behaviour = box.harness.at("/lanes/fake")._cell.behaviour
    behaviour.on_stop = lambda reason: asyncio.Event().wait()
    assert (await box.perform(RestartActor(path="/lanes/fake")))["incarnation"] == 1


async def test_a_restart_is_audited(box):
    await box.perform(RestartActor(path="/lanes/fake"))
    event = await box.audited()
    assert (event.kind, event.data["path"], event.data["result"]) == (
        "admin.actors.restart", "/lanes/fake", "ok",
    )  # fmt: skip
    with pytest.raises(Forbidden):
        await box.perform(RestartActor(path="/lanes/fake"), KeyScope.OBSERVE)
    assert (await box.audited()).data["result"] == "forbidden"


async def test_the_list_is_read_in_one_pass_and_adds_up(box):
    result = await box.perform(ListActors(kinds=("lane",)))
    assert len(result["actors"]) == 1 and result["total"] == len(box.harness.system.actors())
    row = result["actors"][0]
    assert row.since == pytest.approx(box.harness.system.clock.wall() - row.age, abs=5)


async def test_the_root_is_not_stopped(box):
    with pytest.raises(Conflict):
        await box.perform(StopActor(path="/"))


@pytest.mark.parametrize("request_type", [GetActor, StopActor, RestartActor, SuspendActor, ResumeActor])
async def test_nobody_there(box, request_type):
    with pytest.raises(NotFound):
        await box.perform(request_type(path="/nobody"))


def _call(box):
    edges = box.harness.at("/admin")._cell.behaviour._edges
    settings = box.harness.config.admin
    return Call(caller=key(), watcher=None, budget=box.harness.within(), edges=edges, settings=settings)


def _state(box, path):
    return next((row.state for row in box.harness.system.actors() if row.path == path), None)
