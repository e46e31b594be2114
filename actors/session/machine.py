"""
One conversation as a pure machine: (state, event) → (state, effects).

| phase | holds | leaves by |
|---|---|---|
| idle | no turn, no known mail | mail → taking; idle too long → leaving |
| taking | TakeTurn is asked | a turn → running; none → idle; failure → waiting |
| waiting | the store failed | retry → taking, once it is sure that no turn began unseen |
| running | exactly one turn | its end → taking (there may be mail) or, on hold, → leaving |
| leaving | passivation is asked | granted → gone; refused → taking |

So at most one turn runs (TRN-53), a stop is served in every phase, and mail that arrives at any moment is looked for
again before the session rests.
"""

import enum

import msgspec

from actors.messages.lifecycle import DownReason
from actors.messages.rows import TakenTurn, TurnRow, TurnState


class Phase(enum.IntEnum):
    """What the session is at."""

    IDLE = 0
    TAKING = 1
    WAITING = 2
    RUNNING = 3
    LEAVING = 4
    GONE = 5


class State(msgspec.Struct, frozen=True):
    """All that decides."""

    phase: Phase = Phase.IDLE
    mail: bool = False
    """Mail arrived since the inbox was last looked into."""
    turn: TakenTurn | None = None
    ended: TurnState | None = None
    """The durable end of ``turn``, whose actor has not gone yet."""
    lost: bool = False
    """The actor of ``turn`` has gone without one, and it is this session that has to make sure of it."""
    stop_by: str | None = None
    """A stop that came while a turn was being taken: it hits that turn."""
    holding: bool = False
    """No turn begins any more."""
    failures: int = 0
    unsure: bool = False
    """A turn may have begun whose beginning was answered too late."""


# Events


class Event(msgspec.Struct, frozen=True):
    """Something that happened to the session."""


class Mail(Event, frozen=True):
    """There may be accepted messages."""


class Taken(Event, frozen=True):
    """The store began a turn, or found none to begin."""

    turn: TakenTurn | None


class TakeRefused(Event, frozen=True):
    """The store did not begin one; or did not say so in time, so that it is ``unsure``."""

    unsure: bool


class UnseenRead(Event, frozen=True):
    """The store's answer about turns that began unseen; None if it failed."""

    turns: tuple[TurnRow, ...] | None


class Reclaimed(Event, frozen=True):
    """The store's answer about the end of a turn that began unseen: whether that one runs no longer."""

    done: bool


class Retry(Event, frozen=True):
    """The wait after a failure, of the inbox, a lost turn's end or an outcome that is waited for, is over."""


class EndStored(Event, frozen=True):
    """The turn's end is durable."""

    turn_gen: int
    state: TurnState
    peer_to_deliver: str | None


class TurnGone(Event, frozen=True):
    """The turn's actor has ended."""

    reason: DownReason


class LostEndStored(Event, frozen=True):
    """The end of a turn whose actor crashed is durable; or, not stored, is to be tried again."""

    turn_gen: int
    stored: bool


class StopAsked(Event, frozen=True):
    """Somebody wants the turn stopped, or only the one over ``inbox_id``."""

    by: str
    inbox_id: str | None


class Rested(Event, frozen=True):
    """Nothing has happened for the idle time."""


class LeaveAnswered(Event, frozen=True):
    """The router's answer to a passivation."""

    granted: bool


class Held(Event, frozen=True):
    """The daemon drains: begin no turn any more."""


class Cut(Event, frozen=True):
    """The drain's share is over: interrupt."""


# Effects


class Effect(msgspec.Struct, frozen=True):
    """Something for the actor to do."""


class Take(Effect, frozen=True):
    """Ask the store for the next turn."""


class FindUnseen(Effect, frozen=True):
    """Ask the store for turns that run without this session knowing."""


class Reclaim(Effect, frozen=True):
    """End a turn that began unseen, give its message back, and say whether that is stored."""

    turn: TurnRow


class StartTurn(Effect, frozen=True):
    """Start the turn's actor."""

    turn: TakenTurn


class StopRunning(Effect, frozen=True):
    """Tell the turn's actor to stop."""

    by: str


class BuryQueued(Effect, frozen=True):
    """Cancel a message that still waits, and answer the one who asked with the outcome."""

    inbox_id: str
    by: str


class AnswerStop(Effect, frozen=True):
    """Say whether there was something to stop."""

    stopped: bool


class EndLost(Effect, frozen=True):
    """Store the end of a turn whose actor crashed."""

    turn: TakenTurn


class RetryLater(Effect, frozen=True):
    """Wait after the n-th failure in a row."""

    failures: int


class Deliver(Effect, frozen=True):
    """Tell the relays that a peer has something pending."""

    peer: str


class SettleWatchers(Effect, frozen=True):
    """The inbox is empty: whoever still waits for a turn gets its stored outcome."""


class ArmRest(Effect, frozen=True):
    """Start the idle time."""


class DisarmRest(Effect, frozen=True):
    """Stop the idle time."""


class AskToLeave(Effect, frozen=True):
    """Ask the router to be passivated."""


class Leave(Effect, frozen=True):
    """End, passivated."""


Step = tuple[State, tuple[Effect, ...]]


def step(state: State, event: Event) -> Step:
    """Return what becomes of the session, and what is to be done, in order."""
    new, effects = _react(state, event)
    if new.holding and new.phase is Phase.IDLE:
        new, leaving = _leave(new)
        return new, (*effects, *leaving)
    return new, effects


def _react(state: State, event: Event) -> Step:
    match event:
        case Mail():
            return _mail(state)
        case Taken(turn=turn):
            return _taken(state, turn)
        case TakeRefused(unsure=unsure):
            return _fail(msgspec.structs.replace(state, unsure=state.unsure or unsure))
        case UnseenRead(turns=turns):
            return _unseen_read(state, turns)
        case Reclaimed(done=done):
            return _reclaimed(state, done)
        case Retry():
            return _retry(state)
        case EndStored():
            return _end_stored(state, event)
        case TurnGone():
            return _turn_gone(state)
        case LostEndStored():
            return _lost_end(state, event)
        case StopAsked():
            return _stop(state, event)
        case Rested():
            return _leave(state) if state.phase is Phase.IDLE and not state.mail else (state, ())
        case LeaveAnswered(granted=granted):
            return _leave_answered(state, granted)
        case Held():
            return _hold(state)
        case Cut():
            return _cut(state)
    raise TypeError(f"no such event: {event!r}")


def _mail(state: State) -> Step:
    if state.phase is Phase.IDLE and not state.holding:
        return _look(state, DisarmRest())
    return msgspec.structs.replace(state, mail=True), ()


def _look(state: State, *before: Effect) -> Step:
    if state.holding:
        return _leave(state)
    # The flag is lowered before the look, so that mail that arrives during it is looked for again.
    return msgspec.structs.replace(state, phase=Phase.TAKING, mail=False), (*before, Take())


def _taken(state: State, turn: TakenTurn | None) -> Step:
    if turn is not None:
        running = msgspec.structs.replace(
            state, phase=Phase.RUNNING, turn=turn, ended=None, mail=True, failures=0, stop_by=None
        )
        stop = (StopRunning(state.stop_by),) if state.stop_by is not None else ()
        return running, (StartTurn(turn), *stop)
    rested = msgspec.structs.replace(state, phase=Phase.IDLE, failures=0, stop_by=None)
    if rested.holding:
        return _leave(rested)
    if rested.mail:
        return _look(rested)
    return rested, (SettleWatchers(), ArmRest())


def _fail(state: State) -> Step:
    failures = state.failures + 1
    waiting = msgspec.structs.replace(state, phase=Phase.WAITING, failures=failures, stop_by=None)
    if state.holding:
        return _leave(waiting)
    return waiting, (RetryLater(failures),)


def _retry(state: State) -> Step:
    if state.lost and state.turn is not None:
        return state, (EndLost(state.turn),)
    if state.phase is Phase.WAITING and state.unsure:
        return state, (FindUnseen(),)
    return _look(state, DisarmRest()) if state.phase in (Phase.IDLE, Phase.WAITING) else (state, ())


def _unseen_read(state: State, turns: tuple[TurnRow, ...] | None) -> Step:
    if state.phase is not Phase.WAITING:
        return state, ()
    if turns is None:
        return _fail(state)
    if turns:
        # It is none of this session's: in this phase it has no turn. Only one can run at a time.
        return state, (Reclaim(turns[0]),)
    return _look(msgspec.structs.replace(state, unsure=False))


def _reclaimed(state: State, done: bool) -> Step:
    if state.phase is not Phase.WAITING:
        return state, ()
    if not done:
        return _fail(state)
    # It is sure once the store has been seen to run nothing.
    return state, (FindUnseen(),)


def _end_stored(state: State, event: EndStored) -> Step:
    if state.turn is None or event.turn_gen != state.turn.turn_gen:
        return state, ()
    deliver = (Deliver(event.peer_to_deliver),) if event.peer_to_deliver is not None else ()
    return msgspec.structs.replace(state, ended=event.state), deliver


def _turn_gone(state: State) -> Step:
    if state.phase is not Phase.RUNNING or state.turn is None:
        return state, ()
    if state.ended is None:
        # Its actor crashed before the end was durable: the session ends it, and begins no other until that is stored.
        return msgspec.structs.replace(state, lost=True), (EndLost(state.turn),)
    return _look(msgspec.structs.replace(state, turn=None, ended=None))


def _lost_end(state: State, event: LostEndStored) -> Step:
    # A retry may have asked twice: what comes second is about a turn that is over.
    if not state.lost or state.turn is None or event.turn_gen != state.turn.turn_gen:
        return state, ()
    if not event.stored:
        failures = state.failures + 1
        return msgspec.structs.replace(state, failures=failures), (RetryLater(failures),)
    return _look(msgspec.structs.replace(state, turn=None, ended=None, lost=False, failures=0))


def _stop(state: State, event: StopAsked) -> Step:
    mine = state.turn is not None and event.inbox_id in (None, state.turn.inbox_id)
    if state.phase is Phase.RUNNING and mine:
        if state.ended is not None:
            return state, (AnswerStop(False),)
        return state, (StopRunning(event.by), AnswerStop(True))
    if event.inbox_id is not None:
        return state, (BuryQueued(event.inbox_id, event.by),)
    if state.phase is Phase.TAKING:
        return msgspec.structs.replace(state, stop_by=event.by), (AnswerStop(True),)
    return state, (AnswerStop(False),)


def _leave(state: State) -> Step:
    return msgspec.structs.replace(state, phase=Phase.LEAVING), (DisarmRest(), AskToLeave())


def _leave_answered(state: State, granted: bool) -> Step:
    if state.phase is not Phase.LEAVING:
        return state, ()
    if granted:
        return msgspec.structs.replace(state, phase=Phase.GONE), (Leave(),)
    if state.holding:
        # Something is on its way; it must be seen, though no turn begins.
        return msgspec.structs.replace(state, phase=Phase.IDLE), ()
    return _look(state)


def _hold(state: State) -> Step:
    held = msgspec.structs.replace(state, holding=True)
    if state.phase in (Phase.IDLE, Phase.WAITING):
        return _leave(held)
    return held, ()


def _cut(state: State) -> Step:
    if state.phase is Phase.RUNNING and state.ended is None:
        return state, (StopRunning("shutdown"),)
    if state.phase is Phase.TAKING:
        return msgspec.structs.replace(state, stop_by="shutdown"), ()
    return state, ()
