"""The store against a model of plain Python: what was acknowledged is there, whatever order, crash or reopening."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.exceptions import Conflict, RuntimeFault
from actors.messages.rows import InboxState, NewDelivery, Route, TurnState
from actors.messages.store import (
    BuryMessage,
    EndTurn,
    FlushPartial,
    ListDeliveries,
    ListTurns,
    TakeTurn,
)
from tests.storage.box import StoreBox

CHATS = ("C1", "C2")
ENDS = (TurnState.COMMITTED, TurnState.CANCELLED, TurnState.FAILED, TurnState.INTERRUPTED)
MAX_TRIES = 1

chats = st.sampled_from(CHATS)
numbers = st.integers(0, 5)


class Message:
    """An accepted message as it should be."""

    def __init__(self, inbox_id, chat):
        self.inbox_id, self.chat = inbox_id, chat
        self.state, self.tries = InboxState.ACCEPTED, 0


class Turn:
    """A turn as it should be."""

    def __init__(self, taken, message):
        self.turn_id, self.gen, self.message = taken.turn_id, taken.turn_gen, message
        self.state, self.text, self.partial = TurnState.RUNNING, None, ""


class StoreMachine(RuleBasedStateMachine):
    """Every rule asks the real store, and then the model."""

    @initialize()
    def begin(self):
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.box = StoreBox(Path(self.directory.name))
        # Of each chat; in the order of acceptance.
        self.sessions: dict[str, str] = {}
        self.messages: dict[str, Message] = {}
        self.said: dict[tuple[str, int], Message] = {}
        self.turns: list[Turn] = []
        self.gens: dict[str, int] = {}
        self.delivered: set[str] = set()
        self.run(self.box.open())

    def run(self, work):
        return self.loop.run_until_complete(work)

    # What the store is asked

    def request(self, chat, number):
        """A platform's message; the same number is the same message again."""
        return self.box.message(
            f"{chat} {number}",
            session_key=f"agent:main:discord:group:{chat}",
            route=Route(platform="discord", chat_id=chat),
            message_id=f"m{number}",
        )

    def accepted(self, chat, number, answer):
        """Note what was acknowledged."""
        first = self.said.get((chat, number))
        if first is not None:
            assert (answer.duplicate, answer.inbox_id, answer.state) == (True, first.inbox_id, first.state)
            return
        assert not answer.duplicate
        assert self.sessions.setdefault(chat, answer.session_id) == answer.session_id
        message = self.messages[answer.inbox_id] = Message(answer.inbox_id, chat)
        self.said[chat, number] = message

    def running(self, chat):
        found = [t for t in self.turns if t.message.chat == chat and t.state is TurnState.RUNNING]
        assert len(found) <= 1
        return found[0] if found else None

    def waiting(self, chat):
        return [m for m in self.messages.values() if m.chat == chat and m.state is InboxState.ACCEPTED]

    @rule(chat=chats, number=numbers)
    def accept(self, chat, number):
        self.accepted(chat, number, self.run(self.box.ask(self.request(chat, number))))

    @rule(chat=chats)
    def take(self, chat):
        if chat not in self.sessions:
            return
        waiting, running = self.waiting(chat), self.running(chat)
        asked = TakeTurn(session_id=self.sessions[chat], turn_id=self.box.id("t"), at=self.box.now)
        if waiting and running is not None:
            with pytest.raises(Conflict):
                self.run(self.box.ask(asked))
            return
        taken = self.run(self.box.ask(asked))
        if not waiting:
            assert taken is None
            return
        message = waiting[0]
        assert (taken.inbox_id, taken.tries) == (message.inbox_id, message.tries + 1)
        assert taken.turn_gen == self.gens.get(chat, 0) + 1
        self.gens[chat] = taken.turn_gen
        message.state, message.tries = InboxState.TURNED, message.tries + 1
        self.turns.append(Turn(taken, message))

    @rule(chat=chats, text=st.text("ab", max_size=3), stale=st.booleans())
    def flush(self, chat, text, stale):
        turn = self.running(chat)
        if turn is not None:
            gen = turn.gen - 1 if stale else turn.gen
            flush = FlushPartial(turn_id=turn.turn_id, turn_gen=gen, text=text, at=self.box.now)
            with pytest.raises(Conflict) if stale else contextlib.nullcontext():
                self.run(self.box.ask(flush))
            turn.partial = turn.partial if stale else text

    @rule(
        chat=chats,
        state=st.sampled_from(ENDS),
        said=st.sampled_from(["once", "twice", "otherwise"]),
        again=st.booleans(),
    )
    def end(self, chat, state, said, again):
        turn = self.running(chat)
        if turn is None:
            return
        delivery = NewDelivery(
            delivery_id=f"{turn.turn_id}-{turn.gen}",
            peer="p",
            route=Route(platform="discord", chat_id=chat),
            content="answer",
        )
        ended = EndTurn(
            turn_id=turn.turn_id,
            turn_gen=turn.gen,
            state=state,
            text="answer" if state is TurnState.COMMITTED else None,
            delivery=delivery if state is TurnState.COMMITTED else None,
            again=again and turn.message.tries <= MAX_TRIES,
            at=self.box.now,
        )
        row = self.run(self.box.ask(ended))
        assert row.state is state
        turn.state, turn.text = state, ended.text
        if ended.again:
            turn.message.state = InboxState.ACCEPTED
        if state is TurnState.COMMITTED:
            # The answer is whole: what had been flushed of it is in there.
            turn.partial = ""
            self.delivered.add(delivery.delivery_id)
        if said == "twice":
            assert self.run(self.box.ask(ended)) == row
        elif said == "otherwise":
            other = TurnState.FAILED if state is not TurnState.FAILED else TurnState.COMMITTED
            with pytest.raises(Conflict):
                self.run(
                    self.box.ask(
                        EndTurn(turn_id=turn.turn_id, turn_gen=turn.gen, state=other, at=self.box.now)
                    )
                )

    @rule(data=st.data())
    def bury(self, data):
        if not self.messages:
            return
        message = data.draw(st.sampled_from(list(self.messages.values())))
        self.box.now += 1
        done = self.run(self.box.ask(BuryMessage(inbox_id=message.inbox_id, reason="test", at=self.box.now)))
        assert done is (message.state is InboxState.ACCEPTED)
        if done:
            message.state = InboxState.DEAD

    # What happens to it

    @rule()
    def reopen(self):
        self.run(self.box.reopen())

    @rule(chat=chats, new=st.lists(numbers, min_size=1, max_size=4, unique=True), turns=st.integers(0, 40))
    def crash(self, chat, new, turns):
        """Kill the store while it accepts: what it acknowledged counts, of the rest nobody knows until it is asked."""

        async def kill():
            asked = {number: self.box.send(self.request(chat, number)) for number in new}
            for _ in range(turns):
                await asyncio.sleep(0)
            self.box.system.kill("/store")
            await self.box.database.disconnect()
            self.box.database.close()
            answers = await asyncio.gather(*asked.values(), return_exceptions=True)
            await self.box.open()
            return dict(zip(asked, answers, strict=True))

        for number, answer in self.run(kill()).items():
            if isinstance(answer, BaseException):
                assert isinstance(answer, RuntimeFault)
                stored = self.run(self.box.raw(lambda raw, n=number: found(raw, chat, n)))
                if stored is not None and (chat, number) not in self.said:
                    self.sessions.setdefault(chat, stored["session_id"])
                    self.messages[stored["inbox_id"]] = Message(stored["inbox_id"], chat)
                    self.said[chat, number] = self.messages[stored["inbox_id"]]
            else:
                self.accepted(chat, number, answer)

    # What always holds

    @invariant()
    def every_message_is_as_it_was_acknowledged(self):
        rows = self.run(self.box.raw(lambda raw: raw.execute("SELECT * FROM inbox ORDER BY seq").fetchall()))
        stored = {row["inbox_id"]: (row["session_id"], row["state"], row["tries"]) for row in rows}
        expected = {
            m.inbox_id: (self.sessions[m.chat], m.state.value, m.tries) for m in self.messages.values()
        }
        assert stored == expected
        # Those that were asked for together are in the order of asking, too: the model's order is the store's.
        assert list(stored) == list(expected)

    @invariant()
    def every_turn_is_as_it_was_left(self):
        rows = self.run(self.box.ask(ListTurns(limit=1000)))
        stored = {row.turn_id: (row.inbox_id, row.turn_gen, row.state, row.text, row.partial) for row in rows}
        expected = {t.turn_id: (t.message.inbox_id, t.gen, t.state, t.text, t.partial) for t in self.turns}
        assert stored == expected

    @invariant()
    def one_delivery_for_each_answer(self):
        rows = self.run(self.box.ask(ListDeliveries()))
        assert {row.delivery_id for row in rows} == self.delivered and len(rows) == len(self.delivered)

    def teardown(self):
        if hasattr(self, "box"):
            self.run(self.box.close())
            self.loop.close()
            self.directory.cleanup()


def found(raw, chat, number):
    """Return the inbox row of a platform's message, if it was stored."""
    return raw.execute(
        "SELECT i.inbox_id, i.session_id FROM seen s JOIN inbox i ON i.inbox_id = s.inbox_id"
        " WHERE s.chat_id = ? AND s.message_id = ?",
        (chat, f"m{number}"),
    ).fetchone()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
