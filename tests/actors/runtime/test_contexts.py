"""Context variables: each message is handled with a clean context, whoever sent it and whatever the one before set."""

from contextvars import ContextVar

import pytest

from actors.messages.base import ControlRequest
from tests.actors.runtime.conftest import Do, Note, Scribe

WORD: ContextVar[str] = ContextVar("word", default="clean")


class DoNow(ControlRequest, frozen=True, kw_only=True):
    """As Do, in the control lane."""

    work: object


class Reader(Scribe):
    async def on_receive(self, message):
        if isinstance(message, DoNow):
            return message.work(self)
        return await super().on_receive(message)


@pytest.mark.parametrize("kind", [Do, DoNow])
async def test_what_one_message_sets_the_next_does_not_see(system, within, kind):
    ref = system.spawn("/a", Reader)

    def use(n):
        def work(_):
            seen = WORD.get()
            WORD.set(f"set by {n}")
            return seen

        return work

    asked = [ref.ask(kind(work=use(n)), within(1)) for n in range(5)]
    assert [await reply for reply in asked] == ["clean"] * 5


async def test_a_handler_keeps_its_own_across_its_awaits(system, within):
    other = system.spawn("/other", Scribe)

    async def work(_):
        WORD.set("mine")
        await other.ask(Do(work=lambda a: WORD.set("theirs")), within(1))
        return WORD.get()

    ref = system.spawn("/a", Scribe)
    assert await ref.ask(Do(work=work), within(1)) == "mine"


async def test_the_senders_are_not_seen_whoever_woke_the_actor(system, within):
    ref = system.spawn("/a", Scribe)
    await system.idle()
    token = WORD.set("the sender's")
    try:
        assert await ref.ask(Do(work=lambda a: WORD.get()), within(1)) == "clean"
    finally:
        WORD.reset(token)


async def test_the_rest_of_the_mailbox_is_handled_and_on_idle_runs_once(system, within):
    ref = system.spawn("/a", Scribe)
    for n in range(100):
        ref.tell(Do(work=lambda a, n=n: WORD.set(str(n))))
    ref.tell(Note(word="last"))
    await system.idle()
    assert await ref.ask(Do(work=lambda a: (list(a.words), a.idles)), within(1)) == (["last"], 1)
