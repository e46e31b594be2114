"""
An answer that is shown while it is being made, as a pure machine: (state, event, now) → (state, effects).

| phase | holds | leaves by |
|---|---|---|
| hearing | nothing is shown | text that has waited long enough → beginning |
| beginning | a first text is on its way as a delivery | its message's id → shown; not sent → hearing; unknown → over |
| shown | a message shows it, and is edited | the end of the turn → over; an edit that nobody answers → over |
| over | the delivery of the turn's end has the word | |

At most one action is under way, and the next edit comes no earlier than the interval after the last one was answered.
An edit that is refused makes the waits longer; it is never the turn's concern. What an attempt said that is void is not
begun with any more, and where it is shown, the next text takes its place.
"""

import enum

import msgspec

from actors.messages.descriptor import LenUnit
from actors.relay.settings import RelaySettings
from actors.relay.split import split_text


class Phase(enum.IntEnum):
    """What is shown, in order; only a beginning that was not sent goes back."""

    HEARING = 0
    BEGINNING = 1
    SHOWN = 2
    OVER = 3


class State(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides. Times are monotonic seconds."""

    limit: int
    unit: LenUnit
    phase: Phase = Phase.HEARING
    text: str = ""
    """What the turn has said, as far as one message may show it."""
    attempt_seq: int = 0
    """The event with which the attempt began."""
    attempt_at: int = 0
    """Where its text begins."""
    asking: bool = False
    """An action of ours is not answered yet."""
    void: bool = False
    """What the beginning says is void; it is withdrawn as soon as that can be asked."""
    shown: str | None = None
    """The last text that was shown, or is about to be; None if that is not known."""
    message_id: str | None = None
    wait: float = 0.0
    """The present interval, once an action was refused; 0: the usual one."""
    due_at: float | None = None
    """When the next action may come; None as long as there was no text."""
    timed: bool = False
    """A wait for that is under way."""


# Events


class Event(msgspec.Struct, frozen=True):
    """Something that happened to the answer."""


class Heard(Event, frozen=True):
    """The turn goes on with a piece of text."""

    text: str


class CaughtUp(Event, frozen=True):
    """All that the turn has said so far; ``seq`` is its last event."""

    seq: int
    text: str


class AttemptBegan(Event, frozen=True):
    """Another attempt at the answer begins with event ``seq``."""

    seq: int


class Discarded(Event, frozen=True):
    """What came with events after ``keep_upto`` is void."""

    keep_upto: int


class Kept(Event, frozen=True):
    """The store has the beginning, to be sent in its turn; or a message of an earlier run that shows one."""

    message_id: str | None = None


class NotKept(Event, frozen=True):
    """The store does not have the beginning, or does not say so; not ``running``: the turn has ended."""

    running: bool


class Withdrawn(Event, frozen=True):
    """What became of a withdrawal: not ``gone`` if the beginning was on its way already."""

    gone: bool


class BeginningShown(Event, frozen=True):
    """The message with the beginning is there, and its id durable."""

    message_id: str


class BeginningNotSent(Event, frozen=True):
    """The beginning was refused, and is forgotten."""


class BeginningLost(Event, frozen=True):
    """Nobody knows whether the beginning is shown, or it cannot be edited."""


class EditDone(Event, frozen=True):
    """The message shows what it was to show."""


class EditRefused(Event, frozen=True):
    """It does not, or nobody knows; the peer wants to be asked no earlier than in ``retry_after`` seconds."""

    retry_after: float = 0.0


class EditUnanswered(Event, frozen=True):
    """The peer says nothing to edits."""


class LinkCame(Event, frozen=True):
    """Another link is up: what an earlier one refused says little."""


class Due(Event, frozen=True):
    """The wait is over."""


class TurnOver(Event, frozen=True):
    """The turn has ended, or the delivery of its end is being sent."""


# Effects


class Effect(msgspec.Struct, frozen=True):
    """Something for the actor to do."""


class Begin(Effect, frozen=True):
    """Keep a beginning as a delivery."""

    content: str


class Withdraw(Effect, frozen=True):
    """Forget the beginning, unless it is on its way."""


class Edit(Effect, frozen=True):
    """Edit the message."""

    message_id: str
    content: str


class Wait(Effect, frozen=True):
    """Say Due in so many seconds."""

    seconds: float


class End(Effect, frozen=True):
    """Show nothing more."""


Step = tuple[State, tuple[Effect, ...]]


def step(state: State, event: Event, now: float, settings: RelaySettings) -> Step:
    """Return what becomes of the answer's message at ``now``, and what is to be done, in order."""
    if state.phase is Phase.OVER:
        return state, ()
    if isinstance(event, Heard) and len(state.text) >= _bound(state):
        return state, ()
    state = _react(state, event, now, settings)
    if state.phase is Phase.OVER:
        return state, (End(),)
    return _act(state, now, settings)


def _react(state: State, event: Event, now: float, settings: RelaySettings) -> State:
    replace = msgspec.structs.replace
    match event:
        case Heard(text=text):
            return replace(state, text=_bounded(state, state.text + text))
        case CaughtUp(seq=seq, text=text):
            # It may have waited for as long as text has to wait, before anybody listened.
            due_at = state.due_at if state.due_at is not None or not text else now
            return replace(state, text=_bounded(state, text), attempt_seq=seq, attempt_at=0, due_at=due_at)
        case AttemptBegan(seq=seq):
            return replace(state, attempt_seq=seq, attempt_at=len(state.text))
        case Discarded(keep_upto=keep_upto):
            return _discard(state, keep_upto)
        case Kept(message_id=None):
            return replace(state, asking=False)
        case Kept(message_id=message_id):
            # What it shows is an earlier run's.
            return replace(state, asking=False, phase=Phase.SHOWN, message_id=message_id, shown=None)
        case NotKept(running=True):
            return _slow_down(replace(state, asking=False, phase=Phase.HEARING), 0.0, now, settings)
        case Withdrawn(gone=True):
            return replace(state, asking=False, void=False, phase=Phase.HEARING, shown=None)
        case Withdrawn():
            return replace(state, asking=False, void=False)
        case BeginningShown(message_id=message_id):
            shown = replace(state, phase=Phase.SHOWN, message_id=message_id, void=False)
            return replace(shown, due_at=now + settings.edit_interval_s)
        case BeginningNotSent():
            return _slow_down(replace(state, phase=Phase.HEARING, void=False), 0.0, now, settings)
        case EditDone():
            return replace(state, asking=False, wait=0.0, due_at=now + settings.edit_interval_s)
        case EditRefused(retry_after=retry_after):
            return _slow_down(replace(state, asking=False), retry_after, now, settings)
        case LinkCame():
            return replace(state, wait=0.0, due_at=state.due_at and min(state.due_at, now))
        case Due():
            return replace(state, timed=False)
        case TurnOver() | BeginningLost() | EditUnanswered() | NotKept():
            return replace(state, phase=Phase.OVER)
    raise TypeError(f"no such event: {event!r}")


def _discard(state: State, keep_upto: int) -> State:
    if keep_upto >= state.attempt_seq:
        return state
    text = state.text[: state.attempt_at]
    void = state.phase is Phase.BEGINNING and text != state.text
    return msgspec.structs.replace(state, text=text, void=state.void or void)


def _slow_down(state: State, at_least: float, now: float, settings: RelaySettings) -> State:
    wait = min(2 * (state.wait or settings.edit_interval_s), settings.edit_slowest_s)
    due_at = now + max(wait, min(at_least, settings.edit_slowest_s))
    return msgspec.structs.replace(state, shown=None, wait=wait, due_at=due_at)


def _act(state: State, now: float, settings: RelaySettings) -> Step:
    replace = msgspec.structs.replace
    if state.asking:
        return state, ()
    if state.phase is Phase.BEGINNING:
        return (replace(state, asking=True), (Withdraw(),)) if state.void else (state, ())
    if not state.text or state.text == state.shown:
        return state, ()
    if state.due_at is None:
        state = replace(state, due_at=now + settings.edit_delay_s)
    assert state.due_at is not None
    if now < state.due_at:
        return (state, ()) if state.timed else (replace(state, timed=True), (Wait(state.due_at - now),))
    content = _content(state)
    if content in ("", state.shown):
        # A long text need not be split again with its every piece.
        return replace(state, due_at=now + settings.edit_interval_s), ()
    state = replace(state, asking=True, shown=content)
    if state.phase is Phase.HEARING:
        return replace(state, phase=Phase.BEGINNING), (Begin(content),)
    assert state.message_id is not None
    return state, (Edit(state.message_id, content),)


def _bounded(state: State, text: str) -> str:
    return text[: _bound(state)]


def _bound(state: State) -> int:
    """Return how many characters may show in one message, or decide where it ends."""
    return 2 * state.limit


def _content(state: State) -> str:
    """Return the text as far as one message takes it, empty if there is nothing to be seen in it."""
    parts = split_text(state.text, state.limit, state.unit)
    return parts[0] if parts else ""
