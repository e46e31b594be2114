"""What is told of actors, and holding and ending them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.admin.actor_verbs import hierarchy
from actors.exceptions import Conflict, NotFound
from actors.messages.admin import (
    GetActor,
    ListActors,
    OpenChat,
    ResumeActor,
    SendText,
    ShowTree,
    StopActor,
    SuspendActor,
)
from actors.messages.lifecycle import ActorInfo
from tests.harness import until


def info(path: str, parent: str | None) -> ActorInfo:
    return ActorInfo(
        path=path, kind="k", state="running", incarnation=0, parent=parent, control_depth=1, ordinary_depth=2,
        oldest_age=0.0, busy_for=0.0, handled=0, restarts=0, last_error=None, age=0.0,
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


async def test_the_root_is_not_stopped(box):
    with pytest.raises(Conflict):
        await box.perform(StopActor(path="/"))


@pytest.mark.parametrize("request_type", [GetActor, StopActor, SuspendActor, ResumeActor])
async def test_nobody_there(box, request_type):
    with pytest.raises(NotFound):
        await box.perform(request_type(path="/nobody"))


def _state(box, path):
    return next((row.state for row in box.harness.system.actors() if row.path == path), None)
