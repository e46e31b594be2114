"""What can be said to /sessions, the router, and through it to one conversation."""

from typing import Any

from actors.exceptions import TurnkeepError
from actors.messages.base import ControlMessage, ControlRequest, Message, Request
from actors.messages.rows import TakenTurn, TurnRow, TurnState


class InboxReady(Message, frozen=True, kw_only=True):
    """The session has accepted messages. Coalesced: the session reads its rows."""

    session_id: str


class AttachWatcher(Message, frozen=True, kw_only=True):
    """
    Send ``watcher`` the events of the turn over one inbox row, whether it waits, runs or has ended.

    A turn that has ended already is answered with a TurnOutcome instead of events.
    """

    session_id: str
    inbox_id: str
    watcher: Any


class DetachWatcher(ControlMessage, frozen=True, kw_only=True):
    """Send it nothing more."""

    session_id: str
    inbox_id: str
    watcher: Any


class FollowTurns(Message, frozen=True, kw_only=True):
    """
    Send ``watcher`` the events of every turn of the session from now on, and first what came after the named one.

    That is how each turn ended whose end it may not have heard, as a TurnOutcome, and the events of the running one; a
    TurnGap or a Snapshot says where some are missing. To be said again within FOLLOWED_S, else it is taken to be gone;
    one that is known already is told nothing twice.
    """

    session_id: str
    watcher: Any
    after_gen: int
    after_seq: int


FOLLOWED_S = 60.0
"""How long a follower counts that does not say again that it is there, in seconds."""


class UnfollowTurns(ControlMessage, frozen=True, kw_only=True):
    """Send it nothing more."""

    session_id: str
    watcher: Any


class TurnGap(Message, frozen=True, kw_only=True):
    """More turns have ended than are told one by one: those after ``after_gen`` are left out, up to ``next_gen``."""

    session_id: str
    after_gen: int
    next_gen: int | None
    """The first that is told; None: none of them is."""


class TurnOutcome(Message, frozen=True, kw_only=True):
    """How the turn over an inbox row ended; None if the row was never turned and never will be."""

    inbox_id: str
    turn: TurnRow | None


class StopTurn(ControlRequest[bool], frozen=True, kw_only=True):
    """
    Stop the running turn (RLY-20), or only the one over ``inbox_id``; one that still waits is cancelled.

    Answers whether there was something to stop.
    """

    session_id: str
    by: str
    inbox_id: str | None = None


class DrainSessions(ControlRequest[int], frozen=True, kw_only=True):
    """
    Begin no turn any more; let the running ones go on until the budget's end, then interrupt them.

    Answers how many were interrupted.
    """


# Between the router and a session


class Passivate(ControlRequest[bool], frozen=True, kw_only=True):
    """
    A session asks its router to go: refused (False) while a message is on its way to it.

    ``seen`` counts the messages that the router has forwarded to this incarnation and that it has handled.
    """

    session_id: str
    seen: int
    session: Any
    """The ref of the one that asks: another may bear the same id by now."""


class Interrupt(ControlMessage, frozen=True, kw_only=True):
    """The daemon stops: end the running turn and keep what it has."""


class HoldTurns(ControlMessage, frozen=True, kw_only=True):
    """Begin no turn any more."""


class RecoveryRead(ControlMessage, frozen=True, kw_only=True):
    """What settles the turns that a lost session left behind; None if the store could not say."""

    session_id: str
    writes: tuple[Any, ...] | None


class RecoveryStored(ControlMessage, frozen=True, kw_only=True):
    """The writes that settle them are durable; None if it is not sure of all."""

    session_id: str
    writes: tuple[Any, ...] | None


class RecoverAgain(ControlMessage, frozen=True, kw_only=True):
    """The wait before another look at what a lost session left behind is over."""

    session_id: str


class Recovered(ControlMessage, frozen=True, kw_only=True):
    """What a lost session left behind is settled, and the wait before its return is over."""

    session_id: str


class RescanDue(ControlMessage, frozen=True, kw_only=True):
    """Look for messages that no session was told of."""


class MailFound(ControlMessage, frozen=True, kw_only=True):
    """The sessions that have mail; None if the store could not say."""

    sessions: tuple[str, ...] | None


class DrainShareOver(ControlMessage, frozen=True, kw_only=True):
    """Running turns have had their share of the shutdown's budget."""


class DrainOver(ControlMessage, frozen=True, kw_only=True):
    """The drain's budget is over."""


class MailWaits(ControlMessage, frozen=True, kw_only=True):
    """A rescan has found accepted messages of the session; a suspended one leaves them where they are."""


# Between a session and its turn, or the store


class TurnEnded(ControlMessage, frozen=True, kw_only=True):
    """The turn's end is durable."""

    turn_id: str
    turn_gen: int
    state: TurnState
    peer_to_deliver: str | None = None
    """The peer for which a delivery was stored along."""


class TurnTaken(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to TakeTurn."""

    turn: TakenTurn | None


class TakeFailed(ControlMessage, frozen=True, kw_only=True):
    """The store did not begin a turn, or did not say so in time."""

    unsure: bool
    """Whether a turn may have begun all the same."""


class UnseenTurns(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about turns that began without this session knowing; None if it failed."""

    turns: tuple[TurnRow, ...] | None


class TurnReclaimed(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the end of a turn that began without this session knowing."""

    done: bool


class PastRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the turns that a follower may have missed, newest first; None if there was none."""

    follow: FollowTurns
    turns: tuple[TurnRow, ...] | None


class EndRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the end of a turn to which these followers came late; None if there was none."""

    followers: tuple[Any, ...]
    turn: TurnRow | None


class OutcomeRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about a turn that a watcher came too late for; not ``known`` if there was none."""

    inbox_id: str
    turn: TurnRow | None
    known: bool = True


class RetryTake(ControlMessage, frozen=True, kw_only=True):
    """Look into the inbox again."""


class IdleTooLong(ControlMessage, frozen=True, kw_only=True):
    """Nothing has happened for the idle time."""


class MessageBuried(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about a waiting message that was cancelled."""

    inbox_id: str
    by: str
    buried: bool
    fault: TurnkeepError | None = None
    """Why the store could not say."""


class LostTurnEnded(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the end of a turn whose actor crashed."""

    turn_gen: int
    turn: TurnRow | None = None
    stored: bool = False
    """The turn has ended; False if that is to be tried again."""
    contradicted: bool = False
    """Its end was durable already, or it is not this session's any more: its row says which."""


class PassivationAnswered(ControlMessage, frozen=True, kw_only=True):
    """The router's answer to Passivate."""

    granted: bool


class LiveSessions(Request[tuple[str, ...]], frozen=True, kw_only=True):
    """The ids of sessions whose actor lives."""
