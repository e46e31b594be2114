"""What is shown of an answer that is being made: when it begins, how often it is edited, and what is never said."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.descriptor import LenUnit
from actors.relay import live
from actors.relay.live import (
    AttemptBegan,
    Begin,
    BeginningLost,
    BeginningNotSent,
    BeginningShown,
    CaughtUp,
    Discarded,
    Due,
    Edit,
    EditDone,
    EditRefused,
    EditUnanswered,
    End,
    Heard,
    Kept,
    LinkCame,
    NotKept,
    Phase,
    State,
    TurnOver,
    Wait,
    Withdraw,
    Withdrawn,
    step,
)
from actors.relay.settings import RelaySettings

SETTINGS = RelaySettings(edit_delay_s=0.5, edit_interval_s=1.0, edit_slowest_s=30.0)
NEW = State(limit=10, unit=LenUnit.CHARS)


def run(state, *timed):
    """Let events happen, each a pair of a moment and an event; return the state and the effects of the last one."""
    effects = ()
    for now, event in timed:
        state, effects = step(state, event, now, SETTINGS)
    return state, effects


def begun():
    """The beginning "Hel" is on its way since 0.5."""
    state, effects = run(NEW, (0.0, Heard("Hel")), (0.5, Due()))
    assert effects == (Begin("Hel"),)
    return run(state, (0.5, Kept()))[0]


def shown():
    """A message shows "Hel" since 1.0."""
    return run(begun(), (1.0, BeginningShown("s1")))[0]


# The beginning


def test_the_first_text_waits_in_case_it_is_all():
    state, effects = run(NEW, (0.0, Heard("Hel")))
    assert effects == (Wait(0.5),)
    state, effects = run(state, (0.2, Heard("lo")))
    assert effects == ()
    assert run(state, (0.5, Due()))[1] == (Begin("Hello"),)


def test_a_turn_that_ends_before_that_begins_nothing():
    state, effects = run(NEW, (0.0, Heard("Hello")), (0.4, TurnOver()))
    assert effects == (End(),)
    assert run(state, (0.5, Due()))[1] == ()


def test_blanks_are_nothing_to_be_seen():
    state, effects = run(NEW, (0.0, Heard(" \n")), (0.5, Due()))
    assert (state.phase, effects) == (Phase.HEARING, ())
    # The wait has been done.
    assert run(state, (9.0, Heard("x")))[1] == (Begin(" \nx"),)


def test_what_comes_while_the_beginning_is_on_its_way_is_shown_after_it():
    state, effects = run(begun(), (0.6, Heard("lo")), (1.0, BeginningShown("s1")))
    assert effects == (Wait(1.0),)
    assert run(state, (2.0, Due()))[1] == (Edit("s1", "Hello"),)


def test_what_was_said_before_anybody_listened_has_waited_already():
    assert run(NEW, (0.0, CaughtUp(7, "Hello")))[1] == (Begin("Hello"),)
    state, effects = run(NEW, (0.0, CaughtUp(2, "")))
    assert effects == ()
    assert run(state, (0.1, Heard("x")))[1] == (Wait(0.5),)


def test_an_earlier_run_s_message_goes_on():
    state, _ = run(NEW, (0.0, Heard("Hel")), (0.5, Due()))
    assert run(state, (0.6, Kept("s0")))[1] == (Edit("s0", "Hel"),)


def test_a_beginning_that_was_not_sent_is_tried_later_with_what_there_is_then():
    state, effects = run(begun(), (0.6, Heard("lo")), (1.0, BeginningNotSent()))
    assert effects == (Wait(2.0),)
    assert run(state, (3.0, Due()))[1] == (Begin("Hello"),)


def test_a_beginning_that_the_store_has_not_kept_is_tried_later():
    state, _ = run(NEW, (0.0, Heard("Hel")), (0.5, Due()))
    assert run(state, (1.0, NotKept(running=True)))[1] == (Wait(2.0),)
    # If it has kept it after all, it is shown.
    kept, _ = run(state, (1.0, NotKept(running=True)), (1.2, BeginningShown("s1")))
    assert (kept.phase, kept.message_id) == (Phase.SHOWN, "s1")


@pytest.mark.parametrize("event", [BeginningLost(), TurnOver(), NotKept(running=False)], ids=repr)
def test_a_beginning_that_cannot_be_edited_is_the_last_that_is_shown(event):
    state, effects = run(begun(), (1.0, event))
    assert (state.phase, effects) == (Phase.OVER, (End(),))


# Edits


def test_edits_keep_the_interval_and_go_one_at_a_time():
    state, effects = run(shown(), (1.2, Heard("lo")))
    assert effects == (Wait(0.8),)
    state, effects = run(state, (2.0, Due()))
    assert effects == (Edit("s1", "Hello"),)
    # Not answered yet, however long that takes.
    state, effects = run(state, (9.0, Heard("!")), (9.0, Due()))
    assert effects == ()
    state, effects = run(state, (9.5, EditDone()))
    assert effects == (Wait(1.0),)
    assert run(state, (10.5, Due()))[1] == (Edit("s1", "Hello!"),)


def test_the_same_text_is_not_shown_twice():
    assert run(shown(), (5.0, Heard("")))[1] == ()
    assert run(shown(), (5.0, Heard("  ")), (5.0, EditDone()))[0].shown == "Hel  "


def test_refusals_make_the_waits_longer_up_to_a_bound_and_success_ends_that():
    state, now, waits = shown(), 1.0, []
    state, _ = run(state, (now, Heard("lo")))
    for _ in range(7):
        now += 100.0
        state, effects = run(state, (now, Due()))
        assert effects == (Edit("s1", "Hello"),)
        state, (wait,) = run(state, (now, EditRefused()))
        waits.append(wait.seconds)
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    state, _ = run(state, (now + 100, Due()), (now + 100, EditDone()))
    assert run(state, (now + 100, Heard("!")))[1] == (Wait(1.0),)


@pytest.mark.parametrize(("asked", "wait"), [(0.0, 2.0), (5.0, 5.0), (1e9, 30.0)])
def test_a_peer_may_ask_for_a_longer_wait(asked, wait):
    state, _ = run(shown(), (1.0, Heard("lo")), (2.0, Due()))
    assert run(state, (2.0, EditRefused(asked)))[1] == (Wait(wait),)


def test_another_link_ends_the_long_waits():
    state, _ = run(shown(), (1.0, Heard("lo")), (2.0, Due()), (2.0, EditRefused(30.0)))
    assert run(state, (3.0, LinkCame()))[1] == (Edit("s1", "Hello"),)
    assert run(NEW, (3.0, LinkCame())) == (NEW, ())


def test_a_peer_that_says_nothing_to_edits_gets_no_more():
    state, effects = run(shown(), (1.0, Heard("lo")), (2.0, Due()), (32.0, EditUnanswered()))
    assert (state.phase, effects) == (Phase.OVER, (End(),))


def test_a_message_stops_growing_at_the_limit():
    state, effects = run(shown(), (1.0, Heard("lo wonderful")), (2.0, Due()))
    assert effects == (Edit("s1", "Hello"),)
    state, _ = run(state, (2.1, EditDone()))
    for n in range(50):
        state, effects = run(state, (4.0 + n, Heard(" world")))
        assert effects == ()
    assert len(state.text) <= 2 * NEW.limit


def test_the_limit_is_counted_as_the_platform_does():
    state = msgspec.structs.replace(NEW, unit=LenUnit.UTF16)
    _, effects = run(state, (0.0, Heard("\U0001f600" * 8)), (0.5, Due()))
    assert effects == (Begin("\U0001f600" * 5),)


# What is void


def test_what_an_attempt_said_gives_way_to_the_next_one_s():
    state, effects = run(
        shown(), (1.0, AttemptBegan(2)), (1.1, Heard("lo")), (1.2, Discarded(1)), (2.0, Due())
    )
    assert effects == (), "what is shown stays until there is more to say"
    assert run(state, (2.5, Heard("Good")))[1] == (Edit("s1", "HelGood"),)
    state, _ = run(NEW, (0.0, AttemptBegan(2)), (0.0, Heard("dead")), (0.1, Discarded(1)))
    assert run(state, (0.5, Due()), (0.6, AttemptBegan(9)), (0.6, Heard("Good")))[1] == (Begin("Good"),)


def test_what_was_said_before_the_attempt_stays():
    assert run(shown(), (1.0, AttemptBegan(5)), (1.0, Discarded(5)))[0].text == "Hel"


def test_a_beginning_that_waits_is_withdrawn_with_what_it_says():
    state, effects = run(begun(), (0.6, Discarded(-1)))
    assert effects == (Withdraw(),)
    state, effects = run(state, (0.7, Heard("Good")))
    assert effects == ()
    assert run(state, (2.0, Withdrawn(gone=True)))[1] == (Begin("Good"),)


def test_one_that_was_on_its_way_already_is_edited_as_soon_as_that_can_be_done():
    state, _ = run(begun(), (0.6, Discarded(-1)), (0.7, Withdrawn(gone=False)), (0.8, Heard("Good")))
    state, effects = run(state, (1.0, BeginningShown("s1")))
    assert effects == (Wait(1.0),)
    assert run(state, (2.0, Due()))[1] == (Edit("s1", "Good"),)


def test_a_beginning_whose_text_is_void_before_it_is_kept_is_withdrawn_then():
    state, effects = run(NEW, (0.0, Heard("dead")), (0.5, Due()), (0.6, Discarded(-1)))
    assert effects == ()
    assert run(state, (0.7, Kept()))[1] == (Withdraw(),)


def test_an_outcome_that_crosses_a_withdrawal_is_no_confusion():
    state, _ = run(begun(), (0.6, Discarded(-1)), (0.7, BeginningShown("s1")), (0.8, Heard("Good")))
    assert state.asking
    state, effects = run(state, (5.0, Withdrawn(gone=False)))
    assert effects == (Edit("s1", "Good"),)
    state, _ = run(begun(), (0.6, Discarded(-1)), (0.7, BeginningNotSent()), (0.8, Heard("Good")))
    assert run(state, (5.0, Withdrawn(gone=True)))[1] == (Begin("Good"),)


# All of it


def test_nothing_is_done_once_it_is_over():
    state, _ = run(shown(), (1.0, TurnOver()))
    for event in EVENTS:
        assert run(state, (99.0, event)) == (state, ())


EVENTS = (
    Heard("x"), CaughtUp(3, "y"), AttemptBegan(4), Discarded(3), Kept(), Kept("s0"), NotKept(running=True),
    NotKept(running=False), Withdrawn(gone=True), Withdrawn(gone=False), BeginningShown("s1"), BeginningNotSent(),
    BeginningLost(), EditDone(), EditRefused(), EditUnanswered(), LinkCame(), Due(), TurnOver(),
)  # fmt: skip


def test_every_state_knows_every_event():
    assert {type(event) for event in EVENTS} == set(live.Event.__subclasses__())
    for state in (NEW, begun(), shown()):
        for event in EVENTS:
            step(state, event, 99.0, SETTINGS)
    with pytest.raises(TypeError):
        step(NEW, live.Event(), 0.0, SETTINGS)


class World:
    """A turn, a store and a peer that do what they like, within what they promise."""

    def __init__(self):
        self.state = NEW
        self.now = 0.0
        self.seq = 1
        self.letters = "abcdefghij"
        self.attempt = 0
        self.text = ""
        # What is under way: an action without its answer, a beginning without its outcome, a timer.
        self.action = None
        self.beginning = None
        self.due_at = None
        self.shown_at = None
        # The store has the beginning, sent or not.
        self.stored = False
        self.ended = False

    def happen(self, event):
        self.state, effects = step(self.state, event, self.now, SETTINGS)
        for effect in effects:
            assert not self.ended
            self.take(effect)
        self.check()

    def take(self, effect):
        match effect:
            case Wait(seconds=seconds):
                assert seconds > 0
                assert self.due_at is None
                self.due_at = self.now + seconds
            case End():
                self.ended = True
            case Withdraw():
                assert self.action is None and self.beginning is not None
                self.action = effect
            case Begin(content=content) | Edit(content=content):
                assert self.action is None and self.beginning is None
                assert content.strip() and len(content) <= NEW.limit
                # Only what the present attempt has said.
                assert self.text.startswith(content)
                if isinstance(effect, Edit):
                    assert self.shown_at is None or self.now >= self.shown_at + SETTINGS.edit_interval_s
                self.action = effect

    def check(self):
        """There is never something to show and nothing that would lead to it."""
        more = self.text[: NEW.limit] and self.state.shown is None
        waiting = self.action or self.beginning or self.due_at is not None or self.ended
        assert waiting or not more

    def choose(self, pick):
        """Let one of the things happen that may happen now."""
        self.now += (pick % 7) * 0.2
        may = [self.say, self.say, self.begin_again]
        if self.action is not None:
            may += [self.answer, self.answer]
        if self.beginning is not None and not isinstance(self.action, Begin):
            may += [self.settle]
        if self.due_at is not None:
            may += [self.due]
        if pick % 31 == 30:
            may = [lambda pick: self.happen(LinkCame())]
        may[pick % len(may)](pick)

    def say(self, pick):
        piece = self.letters[self.attempt % 10] * (1 + pick % 3)
        self.seq += 1
        self.text += piece
        self.happen(Heard(piece))

    def begin_again(self, pick):
        if self.attempt:
            self.text = ""
            self.seq += 1
            self.happen(Discarded(self.began - 1))
        self.attempt += 1
        self.seq += 1
        self.began = self.seq
        self.happen(AttemptBegan(self.seq))

    def due(self, pick):
        self.now = max(self.now, self.due_at)
        self.due_at = None
        self.happen(Due())

    def answer(self, pick):
        action, self.action = self.action, None
        match action:
            case Begin() if pick % 5 == 4:
                self.happen(NotKept(running=True))
            case Begin():
                self.beginning = action
                self.stored = True
                self.happen(Kept())
            case Withdraw():
                if self.beginning is not None and pick % 2 == 0:
                    self.beginning, self.stored = None, False
                self.happen(Withdrawn(gone=not self.stored))
            case Edit():
                self.shown_at = self.now
                self.happen(EditDone() if pick % 3 else EditRefused(pick % 4))

    def settle(self, pick):
        self.beginning = None
        if pick % 3 == 2:
            self.stored = False
            self.happen(BeginningNotSent())
        else:
            self.shown_at = self.now
            self.happen(BeginningShown("s1"))


@given(st.lists(st.integers(min_value=0, max_value=400), max_size=150))
def test_whatever_happens_only_what_holds_is_shown_and_one_thing_at_a_time(picks):
    world = World()
    world.begin_again(0)
    for pick in picks:
        world.choose(pick)
    # Left alone, it comes to rest with the present text shown.
    for _ in range(50):
        if world.action is not None:
            world.answer(1)
        elif world.beginning is not None:
            world.settle(1)
        elif world.due_at is not None:
            world.due(1)
    if world.text:
        assert world.state.phase is Phase.SHOWN
        assert world.state.shown == world.text[: NEW.limit]
