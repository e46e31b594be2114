"""Scopes, the audit, and requests that do not get in each other's way."""

import msgspec
import pytest

from actors.admin import admin
from actors.admin.admin import VERBS, Admin
from actors.admin.scope import demand
from actors.admin.settings import AdminSettings
from actors.exceptions import ActorStopped, Busy, Forbidden, HandlerFailed, NotFound
from actors.messages.admin import (
    REQUESTS,
    AddKey,
    AddPeer,
    GetActor,
    ListActors,
    OpenChat,
    Perform,
    SendText,
    ShowSystem,
    ShutDown,
    ShutdownAsked,
    StopSessionTurn,
    SubscribeEvents,
    SuspendActor,
    UnsubscribeEvents,
    type_of,
)
from actors.messages.lifecycle import Resume, Stop, Suspend
from actors.messages.rows import KeyScope
from tests.actors.admin.conftest import key
from tests.harness import until

ORDER = (KeyScope.OBSERVE, KeyScope.OPERATE, KeyScope.ADMIN)


def example(request_type):
    """Return any request of a type: text in every field that has no default."""
    fields = {field.name: "x" for field in msgspec.structs.fields(request_type) if field.required}
    return request_type(**fields)


def test_every_request_has_a_verb_or_is_a_connections_own():
    assert set(VERBS) == set(REQUESTS) - {SubscribeEvents, UnsubscribeEvents}


def test_what_changes_something_takes_more_than_observing_and_what_is_audited_exists():
    for request_type in REQUESTS:
        fields = {field.name for field in msgspec.structs.fields(request_type)}
        assert set(request_type.audited) <= fields
        assert not {"text", "secret"} & set(request_type.audited)
        assert not request_type.changes or request_type.scope is not KeyScope.OBSERVE


@pytest.mark.parametrize("request_type", REQUESTS, ids=type_of)
def test_a_key_reaches_its_own_scope_and_those_below(request_type):
    place = ORDER.index(request_type.scope)
    for scope in (KeyScope.API, *ORDER[:place]):
        with pytest.raises(Forbidden, match=type_of(request_type)):
            demand(example(request_type), key(scope))
    for scope in ORDER[place:]:
        demand(example(request_type), key(scope))


async def test_adm_6_a_key_that_does_not_reach_is_forbidden(box):
    with pytest.raises(Forbidden):
        await box.perform(ListActors(), KeyScope.API)
    with pytest.raises(Forbidden):
        await box.perform(OpenChat(chat="main"), KeyScope.OBSERVE)
    with pytest.raises(Forbidden):
        await box.perform(AddKey(name="k"), KeyScope.OPERATE)


async def test_adm_5_a_change_is_audited_with_who_what_and_result(box):
    await box.perform(AddPeer(name="p", identities=("telegram:b",)))
    event = await box.audited()
    assert (event.kind, event.path) == ("admin.peers.add", "/admin")
    assert event.data == {"name": "p", "role": "connector", "by": "tester", "key_id": "k1", "result": "ok"}


@pytest.mark.parametrize(
    ("request_", "scope", "result"),
    [
        (AddKey(name="k"), KeyScope.OBSERVE, "forbidden"),
        (SuspendActor(path="/nobody"), KeyScope.ADMIN, "not_found"),
        (SuspendActor(path="/admin"), KeyScope.ADMIN, "conflict"),
    ],
)
async def test_adm_5_a_change_that_was_refused_is_audited_too(box, request_, scope, result):
    with pytest.raises(Exception):
        await box.perform(request_, scope)
    assert (await box.audited()).data["result"] == result


async def test_adm_5_a_change_that_was_cut_off_is_audited_as_unknown(box):
    opened = await box.perform(OpenChat(chat="main"))
    await box.audited()
    session_id = opened["session"]["session_id"]
    behaviour = box.harness.at("/admin")._cell.behaviour
    await box.harness.ask("/store", Suspend())
    cut_off = box.harness.at("/admin").ask(
        Perform(request=StopSessionTurn(session_id=session_id), caller=key(KeyScope.ADMIN), watcher=None),
        box.harness.within(),
    )
    await until(lambda: behaviour._under_way == 1)
    box.harness.at("/admin").tell(Stop())
    with pytest.raises(ActorStopped):
        await cut_off
    event = await box.audited()
    assert event.data["session_id"] == session_id and event.data["result"] == "unknown"
    await box.harness.ask("/store", Resume())


async def test_reading_is_not_audited(box):
    await box.perform(ListActors())
    await box.perform(AddKey(name="k"))
    assert (await box.audited()).kind == "admin.keys.add"


async def test_what_was_said_is_not_in_the_audit(box):
    await box.perform(SendText(chat="main", text="canary"))
    event = await box.audited()
    assert event.data["chat"] == "main" and "canary" not in msgspec.json.encode(event).decode()


async def test_a_verb_that_fails_ends_alone(box, monkeypatch):
    async def broken(request, call):
        raise ValueError("canary")

    monkeypatch.setitem(admin.VERBS, GetActor, broken)
    await box.harness.ask("/sessions", Suspend())
    slow = box.harness.at("/admin").ask(
        Perform(request=ShowSystem(), caller=key(KeyScope.ADMIN), watcher=box.watcher), box.harness.within()
    )
    with pytest.raises(HandlerFailed, match="ValueError") as failed:
        await box.perform(GetActor(path="/"))
    assert "canary" not in str(failed.value)
    await box.harness.ask("/sessions", Resume())
    assert (await slow)["pid"]
    assert (await box.perform(ListActors()))["actors"]


async def test_a_slow_request_delays_no_other(box):
    await box.harness.ask("/sessions", Suspend())
    slow = box.harness.at("/admin").ask(
        Perform(request=ShowSystem(), caller=key(KeyScope.ADMIN), watcher=box.watcher), box.harness.within()
    )
    assert (await box.perform(ListActors()))["actors"]
    assert not slow.done()
    await box.harness.ask("/sessions", Resume())
    assert (await slow)["sessions_live"] == 0


async def test_requests_under_way_are_bounded(box):
    edges = box.harness.at("/admin")._cell.behaviour._edges
    small = box.harness.system.spawn(
        "/small", lambda: Admin(edges=edges, settings=AdminSettings(under_way=1))
    )

    def ask(request):
        perform = Perform(request=request, caller=key(KeyScope.ADMIN), watcher=box.watcher)
        return small.ask(perform, box.harness.within())

    await box.harness.ask("/sessions", Suspend())
    first = ask(ShowSystem())
    with pytest.raises(Busy):
        await ask(ListActors())
    await box.harness.ask("/sessions", Resume())
    await first
    assert await ask(ListActors())
    await box.harness.system.stop(small, box.harness.within())


async def test_info_leaves_out_what_does_not_answer(tmp_path, box):
    edges = box.harness.at("/admin")._cell.behaviour._edges
    hasty = box.harness.system.spawn(
        "/hasty", lambda: Admin(edges=edges, settings=AdminSettings(glance_s=0.01))
    )
    await box.harness.ask("/sessions", Suspend())
    info = await hasty.ask(
        Perform(request=ShowSystem(), caller=key(KeyScope.OBSERVE), watcher=box.watcher), box.harness.within()
    )
    assert info["sessions_live"] is None and info["links"] == 0 and info["url"] == box.harness.url
    await box.harness.ask("/sessions", Resume())
    await box.harness.system.stop(hasty, box.harness.within())


async def test_a_shutdown_is_passed_on_to_whoever_runs_the_daemon(box):
    assert await box.perform(ShutDown()) == {"shutting_down": True}
    assert await box.harness.calls.receive(box.harness.within()) == ShutdownAsked(by="tester")


async def test_an_asker_that_has_gone_leaves_nothing_behind(box):
    with pytest.raises(NotFound):
        await box.perform(GetActor(path="/nobody"))
    await box.perform(OpenChat(chat="main"))
    behaviour = box.harness.at("/admin")._cell.behaviour
    await until(lambda: behaviour._under_way == 0)
