"""Looking at what one actor handles."""

import asyncio

import pytest

from actors.exceptions import ActorStopped, Conflict, HandlerFailed
from actors.runtime import Overflow
from tests.actors.runtime.conftest import Do, Note, Scribe, UrgentNote


@pytest.fixture
def traced(system):
    """A scribe at /a and what was traced of it."""
    ref = system.spawn("/a", Scribe)
    seen = []
    system.trace("/a", seen.append)
    return ref, seen


async def test_each_message_is_told_with_type_sender_size_and_times(system, traced, within):
    ref, seen = traced
    other = system.spawn("/other", Scribe)
    await other.ask(Do(work=lambda actor: ref.tell(Note(word="x" * 500))), within(5))
    await system.idle()
    (note,) = seen
    assert (note.path, note.incarnation, note.message_type, note.sender) == ("/a", 0, "Note", "/other")
    assert note.outcome == "ok" and 500 < note.size < 600
    assert note.waited >= 0 and note.seconds >= 0
    assert note.message == Note(word="x" * 500)


async def test_who_is_no_actor_has_no_path(system, traced):
    ref, seen = traced
    ref.tell(Note(word="a"))
    await asyncio.to_thread(ref.tell, UrgentNote(word="b"))
    await system.idle()
    assert [entry.sender for entry in seen] == [None, None]


async def test_a_timer_and_an_answer_are_messages_too(system, traced, within):
    ref, seen = traced
    other = system.spawn("/other", Scribe)
    fired = asyncio.Event()

    def begin(actor):
        actor.ctx.set_timer("t", 0.0, Do(work=lambda a: fired.set()))
        actor.ctx.pipe(
            other.ask(Do(work=lambda a: "x"), within(5)),
            lambda value: Note(word=value),
            lambda error: Note(word="error"),
        )

    await ref.ask(Do(work=begin), within(5))
    await fired.wait()
    await system.idle()
    assert sorted((entry.message_type, entry.sender) for entry in seen[1:]) == [
        ("Do", "/a"),
        ("Note", "/other"),
    ]


async def test_outcomes_are_told_apart(system, traced, within):
    ref, seen = traced

    def refuse(_):
        raise Conflict("no")

    with pytest.raises(Conflict):
        await ref.ask(Do(work=refuse), within(5))
    with pytest.raises(HandlerFailed):
        await ref.ask(Do(work=lambda a: 1 / 0), within(5))
    assert [entry.outcome for entry in seen] == ["refused", "failed"]


async def test_the_same_message_sent_often_is_told_as_often(system, traced):
    ref, seen = traced
    note = Note(word="x")
    for _ in range(300):
        ref.tell(note)
    await system.idle()
    assert len(seen) == 300
    assert ref._cell.tracing._puts == {}


async def test_several_may_look_and_each_may_end(system, traced):
    ref, seen = traced
    more = []
    system.trace("/a", more.append)
    ref.tell(Note(word="a"))
    await system.idle()
    system.untrace("/a", seen.append)
    ref.tell(Note(word="b"))
    await system.idle()
    system.untrace("/a", more.append)
    ref.tell(Note(word="c"))
    await system.idle()
    assert (len(seen), len(more)) == (1, 2)
    assert ref._cell.tracing is None


async def test_one_that_raises_is_told_no_more_and_harms_nobody(system, traced, within):
    ref, seen = traced
    calls = []

    def broken(entry):
        calls.append(entry)
        raise OSError

    system.trace("/a", broken)
    ref.tell(Note(word="a"))
    ref.tell(Note(word="b"))
    assert await ref.ask(Do(work=lambda a: list(a.words)), within(5)) == ["a", "b"]
    assert (len(calls), len(seen)) == (1, 3)


async def test_what_was_sent_before_is_told_without_its_sender(system, within):
    ref = system.spawn("/a", Scribe)
    gate, seen = asyncio.Event(), []
    held = ref.ask(Do(work=lambda a: gate.wait()), within(5))
    await asyncio.sleep(0)
    ref.tell(Note(word="before"))
    system.trace("/a", seen.append)
    ref.tell(Note(word="after"))
    gate.set()
    await held
    await system.idle()
    assert [entry.message.word for entry in seen if entry.message_type == "Note"] == ["before", "after"]


async def test_what_is_dropped_leaves_nothing_behind(system, within):
    ref = system.spawn("/a", Scribe, bound=2, overflow=Overflow.DROP_OLDEST)
    seen = []
    system.trace("/a", seen.append)
    for word in "abcd":
        ref.tell(Note(word=word))
    await system.idle()
    assert [entry.message.word for entry in seen] == ["c", "d"]
    assert ref._cell.tracing._puts == {}


async def test_nobody_there_is_said(system):
    with pytest.raises(ActorStopped, match="/nobody"):
        system.trace("/nobody", print)
    system.untrace("/nobody", print)
