"""A message's whole life against a model of it: whatever is asked in whatever order, each is accounted for once."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.exceptions import Conflict
from actors.messages.rows import ENDED_TURNS, InboxState, NewDelivery, Route, RunState, TurnState
from actors.messages.store import (
    BuryMessage,
    GetSession,
    GetTurn,
    ListDeliveries,
    ReadHistory,
    SessionsWithMail,
    Unfinished,
)
from tests.storage.box import StoreBox

CHATS = ("A", "B")

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), st.sampled_from(CHATS), st.integers(0, 5)),
        st.tuples(st.just("rotate"), st.sampled_from(CHATS), st.integers(0, 5)),
        st.tuples(st.just("take"), st.sampled_from(CHATS), st.none()),
        st.tuples(
            st.just("end"),
            st.sampled_from(CHATS),
            st.tuples(st.sampled_from(sorted(ENDED_TURNS)), st.booleans()),
        ),
        st.tuples(st.just("bury"), st.sampled_from(CHATS), st.none()),
        st.tuples(st.just("reopen"), st.none(), st.none()),
    ),
    max_size=40,
)


class Model:
    """What should be so, written down the simple way."""

    def __init__(self):
        self.sessions = {}
        self.order = []
        self.states = {}
        self.session_of = {}
        self.tries = {}
        self.known = {}
        self.running = {}
        self.gens = {}
        self.said = {}
        self.delivered = []

    def waiting(self, session_id):
        return [
            inbox_id
            for inbox_id in self.order
            if self.session_of[inbox_id] == session_id and self.states[inbox_id] is InboxState.ACCEPTED
        ]


class Life:
    """Does each operation to the store and to the model, and compares what both say."""

    def __init__(self, store):
        self.store = store
        self.model = Model()

    async def accept(self, chat, number, rotate=False):
        model = self.model
        message_id = f"{chat}{number}"
        message = self.store.message(
            message_id, session_key=chat, message_id=message_id, turn_id=self.store.id("T"), rotate=rotate
        )
        accepted = await self.store.ask(message)
        if message_id in model.known:
            inbox_id = model.known[message_id]
            assert (accepted.duplicate, accepted.inbox_id) == (True, inbox_id)
            assert accepted.state is model.states[inbox_id]
            return
        old = model.sessions.get(chat)
        assert (accepted.duplicate, accepted.created) == (False, old is None or rotate)
        if accepted.created:
            for waiting in model.waiting(old):
                model.states[waiting] = InboxState.UNDELIVERED
            model.sessions[chat] = accepted.session_id
            model.said[accepted.session_id] = []
            model.gens[accepted.session_id] = 0
        inbox_id = message.inbox_id
        model.known[message_id] = inbox_id
        model.order.append(inbox_id)
        model.states[inbox_id] = InboxState.ACCEPTED
        model.session_of[inbox_id] = model.sessions[chat]
        model.tries[inbox_id] = 0
        assert accepted.session_id == model.sessions[chat]
        assert accepted.queued == len(model.waiting(accepted.session_id))

    async def rotate(self, chat, number):
        await self.accept(chat, number, rotate=True)

    async def take(self, chat, _):
        model, session_id = self.model, self.model.sessions.get(chat)
        if session_id is None:
            return
        waiting = model.waiting(session_id)
        if waiting and session_id in model.running:
            try:
                await self.store.take(session_id)
            except Conflict:
                return
            raise AssertionError("two turns of one session")
        taken = await self.store.take(session_id)
        if not waiting:
            assert taken is None
            return
        inbox_id = waiting[0]
        model.states[inbox_id] = InboxState.TURNED
        model.tries[inbox_id] += 1
        model.gens[session_id] += 1
        text = next(text for text, known in model.known.items() if known == inbox_id)
        said = [entry for entry in model.said[session_id] if entry != (inbox_id, text)]
        if model.tries[inbox_id] == 1:
            model.said[session_id].append((inbox_id, text))
        assert [entry.content for entry in taken.history] == [entry[1] for entry in said] + [text]
        assert (taken.inbox_id, taken.tries, taken.turn_gen) == (
            inbox_id, model.tries[inbox_id], model.gens[session_id],
        )  # fmt: skip
        model.running[session_id] = taken

    async def end(self, chat, how):
        state, again = how
        model, session_id = self.model, self.model.sessions.get(chat)
        taken = model.running.pop(session_id, None)
        if taken is None:
            return
        text = f"answer {taken.turn_gen}" if state is TurnState.COMMITTED else None
        delivery = NewDelivery(
            delivery_id=f"{taken.turn_id}-{taken.turn_gen}",
            peer="p",
            route=Route(platform="discord", chat_id=chat),
            content=text or "sorry",
        )
        fields = {
            "text": text,
            "delivery": delivery,
            "interrupted_text": None if text else "half",
            "again": again,
        }
        row = await self.store.end(taken, state, **fields)
        assert await self.store.end(taken, state, **fields) == row
        assert (row.state, row.text) == (state, text)
        if text is not None:
            model.said[session_id].append((None, text))
        model.delivered.append(delivery.delivery_id)
        if again:
            model.states[taken.inbox_id] = InboxState.ACCEPTED

    async def bury(self, chat, _):
        model = self.model
        waiting = model.waiting(model.sessions.get(chat))
        if waiting:
            assert await self.store.ask(BuryMessage(inbox_id=waiting[-1], reason="user", at=1.0))
            assert await self.store.ask(BuryMessage(inbox_id=waiting[-1], reason="user", at=1.0))
            assert not await self.store.ask(BuryMessage(inbox_id=waiting[-1], reason="user", at=2.0))
            model.states[waiting[-1]] = InboxState.DEAD

    async def reopen(self, *_):
        await self.store.reopen()

    async def check(self):
        model = self.model
        for chat, session_id in model.sessions.items():
            row = await self.store.ask(GetSession(session_id=session_id))
            assert (row.session_key, row.run_state) == (chat, RunState.ACTIVE)
            assert (row.queued, row.turn_gen) == (len(model.waiting(session_id)), model.gens[session_id])
            rows = await self.store.ask(ReadHistory(session_id=session_id, limit=1000))
            assert [row.content for row in rows if row.kind == "message"] == [
                text for _, text in model.said[session_id]
            ]
        mail = await self.store.ask(SessionsWithMail())
        assert set(mail) == {
            model.session_of[i] for i in model.order if model.states[i] is InboxState.ACCEPTED
        }
        running = {
            turn.turn_id for turn, _, _ in await self.store.ask(Unfinished()) if turn.state == "running"
        }
        assert running == {taken.turn_id for taken in model.running.values()}
        deliveries = await self.store.ask(ListDeliveries(limit=1000))
        assert [row.delivery_id for row in reversed(deliveries)] == model.delivered
        for inbox_id in model.order:
            turn = await self.store.ask(GetTurn(inbox_id=inbox_id))
            # The receipt of a message ends with it.
            if model.states[inbox_id] in (InboxState.UNDELIVERED, InboxState.DEAD):
                assert turn.state in ENDED_TURNS


@settings(max_examples=40, deadline=None)
@given(OPERATIONS)
def test_every_message_is_accounted_for(operations):
    async def live():
        with tempfile.TemporaryDirectory() as directory:
            store = await StoreBox(Path(directory) / "data").open()
            life = Life(store)
            for operation, chat, detail in operations:
                await getattr(life, operation)(chat, detail)
            await life.check()
            await store.close()

    asyncio.run(live())
