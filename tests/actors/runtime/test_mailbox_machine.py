"""A mailbox against a plain model: whatever is put, from the loop or from a thread, is handled once, in order, or answered."""

import asyncio
import threading

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.exceptions import ActorStopped, MailboxFull
from actors.messages.lifecycle import Resume, StopStatus, Suspend
from actors.runtime import Budget, Overflow, System
from tests.actors.runtime.conftest import Do, Note, Scribe, UrgentNote
from tests.clock import StillClock

BOUND = 3


class MailboxMachine(RuleBasedStateMachine):
    """The loop stands still while something is put, so a thread's put falls at one place of the order."""

    @initialize(overflow=st.sampled_from([Overflow.REFUSE, Overflow.DROP_OLDEST]))
    def begin(self, overflow):
        self.loop = asyncio.new_event_loop()
        self.clock = StillClock()
        self.drops = overflow is Overflow.DROP_OLDEST
        self.words = []
        self.system = self.run(self.make())
        words = self.words

        class Shared(Scribe):
            def __init__(self):
                super().__init__()
                self.words = words

        self.ref = self.system.spawn("/a", Shared, bound=BOUND, overflow=overflow)
        self.run(self.system.idle())
        self.control, self.ordinary, self.handled = [], [], []
        self.held = self.stopped = False
        self.asked = []
        self.number = 0

    async def make(self):
        return System(self.clock)

    def run(self, work):
        return self.loop.run_until_complete(work)

    def put(self, work, from_thread):
        """Put from here or from a thread; return what it raised."""
        outcome = []

        def attempt():
            try:
                work()
            except (ActorStopped, MailboxFull) as error:
                outcome.append(type(error))

        if from_thread:
            thread = threading.Thread(target=attempt)
            thread.start()
            thread.join()
        else:
            attempt()
        return outcome[0] if outcome else None

    def word(self):
        self.number += 1
        return str(self.number)

    def into_ordinary(self, word):
        """The model's bounded lane; False if there is no room."""
        if len(self.ordinary) >= BOUND:
            if not self.drops:
                return False
            self.ordinary.pop(0)
        self.ordinary.append(word)
        return True

    @rule(from_thread=st.booleans())
    def tell(self, from_thread):
        word = self.word()
        raised = self.put(lambda: self.ref.tell(Note(word=word)), from_thread)
        if self.stopped:
            assert raised is ActorStopped
        else:
            assert raised is (None if self.into_ordinary(word) else MailboxFull)

    @rule(from_thread=st.booleans())
    def tell_urgently(self, from_thread):
        word = self.word()
        raised = self.put(lambda: self.ref.tell(UrgentNote(word=word)), from_thread)
        assert raised is (ActorStopped if self.stopped else None)
        if not self.stopped:
            self.control.append(word)

    @rule(from_thread=st.booleans())
    def ask(self, from_thread):
        word, words = self.word(), self.words
        ask = Do(work=lambda a: words.append(word))
        self.put(lambda: self.asked.append(self.ref.ask(ask, Budget.of(self.clock, 60))), from_thread)
        if not self.stopped:
            self.into_ordinary(word)

    @precondition(lambda self: not self.stopped)
    @rule(hold=st.booleans())
    def hold(self, hold):
        self.ref.tell(Suspend() if hold else Resume())
        # All control before it is served; what was released is served after all control.
        self.control.append(hold)

    @rule()
    def settle(self):
        self.run(self.system.idle())
        # What a thread has called for comes one turn later.
        self.run(asyncio.sleep(0))
        self.run(self.system.idle())
        for entry in self.control:
            if isinstance(entry, bool):
                self.held = entry
            else:
                self.handled.append(entry)
        self.control = []
        if not self.held:
            self.handled += self.ordinary
            self.ordinary = []
        assert self.words == self.handled

    @precondition(lambda self: not self.stopped)
    @rule()
    def stop(self):
        self.settle()
        status = self.run(self.system.stop(self.ref, Budget.of(self.clock, 60)))
        assert status is StopStatus.STOPPED
        self.stopped = True
        self.ordinary = []

    @invariant()
    def once_it_has_ended_every_ask_is_answered(self):
        if getattr(self, "stopped", False):
            # An answer to a thread comes one turn later.
            self.run(asyncio.sleep(0))
            assert all(reply.done() for reply in self.asked)
            assert self.system.actors() == []

    def teardown(self):
        if hasattr(self, "loop"):
            if not self.stopped:
                self.stop()
            assert self.words == self.handled
            self.once_it_has_ended_every_ask_is_answered()
            self.loop.close()


TestMailboxMachine = MailboxMachine.TestCase
