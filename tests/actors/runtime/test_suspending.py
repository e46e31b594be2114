"""A held ordinary lane (ADM-7)."""

import pytest

from actors.exceptions import ActorStopped
from actors.messages.lifecycle import Inspect, Resume, StopStatus, Suspend
from actors.supervision import ChildSpec, Supervisor
from tests.actors.runtime.conftest import Do, Note, Scribe, UrgentNote


async def test_suspend_holds_ordinary_messages_and_resume_loses_none(system, within):
    ref = system.spawn("/a", Scribe)
    await ref.ask(Suspend(), within(1))
    for word in "abc":
        ref.tell(Note(word=word))
    ref.tell(UrgentNote(word="urgent"))
    await system.idle()
    (info,) = system.actors()
    assert info.state == "suspended" and info.ordinary_depth == 3
    await ref.ask(Resume(), within(1))
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(1)) == ["urgent", "a", "b", "c"]


async def test_a_held_one_shows_itself_when_it_is_inspected(system, within):
    ref = system.spawn("/a", Scribe)
    await ref.ask(Suspend(), within(1))
    ref.tell(Note(word="held"))
    info = await ref.ask(Inspect(), within(1))
    assert (info.path, info.state, info.ordinary_depth) == ("/a", "suspended", 1)


async def test_a_stop_ends_a_held_one_and_answers_what_it_held(system, within):
    ref = system.spawn("/a", Scribe)
    await ref.ask(Suspend(), within(1))
    held = ref.ask(Do(work=lambda a: None), within(5))
    assert await system.stop(ref, within(1)) is StopStatus.STOPPED
    with pytest.raises(ActorStopped):
        await held


async def test_a_restart_lets_go_what_was_held(system, within):
    root = system.spawn("/", lambda: Supervisor((ChildSpec(name="a", factory=Scribe),)))
    await root.started(within(5))
    ref = system.find("/a")
    await ref.ask(Suspend(), within(1))
    held = ref.ask(Do(work=lambda a: a.ctx.incarnation), within(5))
    system.kill("/a")
    assert await held == 1
    assert (await ref.ask(Inspect(), within(5))).state == "running"
