"""A held ordinary lane (ADM-7)."""

from actors.messages.lifecycle import (
    Resume,
    Suspend,
)
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
