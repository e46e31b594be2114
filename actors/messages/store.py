"""
What can be asked of /store, the only owner of the database.

A write carries ids that the caller chose, so that after a late answer the caller can ask again instead of guessing: a
repetition is answered with what is stored under them (actors.keep). Each write is one transaction; those that arrive
together share a commit. Answers come after the commit. All may fail with StoreUnavailable (nothing of the request was
kept) or with a RuntimeFault such as DeadlineExceeded or OutcomeUnknown (it may have been kept).
"""

from typing import Any, TypeVar

import msgspec

from actors.messages.base import Request
from actors.messages.events import Event
from actors.messages.inbound import InboundEvent
from actors.messages.rows import (
    Accepted,
    Binding,
    DeliveryRow,
    DeliveryState,
    Entry,
    HistoryRow,
    KeyRow,
    KeyScope,
    NewDelivery,
    Origin,
    PeerRole,
    PeerRow,
    Route,
    Row,
    Said,
    SessionKind,
    SessionRow,
    TakenTurn,
    ToolCall,
    TurnRow,
    TurnState,
)
from actors.messages.secret import Secret

R = TypeVar("R")


class Read(Request[R], frozen=True, kw_only=True):
    """Sees every write that was answered before it was sent."""


class Write(Request[R], frozen=True, kw_only=True):
    """Durable when it is answered. ``at`` is unix seconds, by the caller's clock."""

    at: float


# Inbox


class AcceptMessage(Write[Accepted], frozen=True, kw_only=True):
    """
    Keep a message: duplicate check, binding, session and inbox row in one transaction (RLY-11, RLY-12).

    A duplicate is the same ``inbox_id``, the same (peer, scope, chat_id, message_id), or the same buffer id of that peer
    with the same body hash; kept 48 h; without any of them every message is new. The chat_id is the route's, empty
    without one. The binding is resolved on (peer, scope, key); an absent scope matches the chat's only one, and with
    several, or none, it opens its own (KEY-6). A chat whose session has ended gets a fresh one.

    Refused: Busy (``session_busy``) when ``max_queued`` messages of the session wait already; Conflict
    (``idempotency_key_conflict``) when an API's message_id, its Idempotency-Key, comes with another body hash (API-12);
    Invalid (``unknown_tool_call``) for a tool's result whose call is not in the session. Nothing is written then.
    """

    inbox_id: str
    origin: Origin
    peer: str
    """The relay peer's name, ``console`` or ``api:<owner>``: each its own name space of chats."""
    scope: str | None
    session_key: str
    new_session_id: str
    """The id that the chat's session gets if it has none yet, or if it is rotated."""
    kind: SessionKind = SessionKind.CHAT
    entries: tuple[Entry, ...]
    seed: tuple[Entry, ...] = ()
    """History that the client brought; kept only if the session has none."""
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    route: Route | None = None
    event: InboundEvent | None = None
    message_id: str | None = None
    buffer_id: str | None = None
    body_hash: str | None = None
    detached: bool = True
    """Whether the turn goes on without the one who asked. False: it ends with its client, also at a restart (API-12)."""
    turn_id: str | None = None
    """If set, a turn row ``admitted`` is written along: the receipt."""
    rotate: bool = False
    """
    Bind the chat to a fresh session first (/new). The old one ends; what waits in it is undelivered, its admitted turns
    are cancelled(new_session), and a turn that runs is left to whoever rotates.
    """
    max_queued: int | None = None


class RotateChat(Write[Accepted], frozen=True, kw_only=True):
    """
    Bind a chat to a fresh session without a message: a bare ``/new`` (API-8). The old one ends as with ``rotate``.

    The answer's ``inbox_id`` is empty. Repeating it with the same ``new_session_id`` is a ``duplicate``, also once the
    chat has gone on in yet another session.
    """

    peer: str
    scope: str | None
    session_key: str
    new_session_id: str


class BuryMessage(Write[bool], frozen=True, kw_only=True):
    """
    End an accepted message (dead); its admitted turn, if any, ends ``cancelled`` with the reason. Says whether.

    Repeating it, with the same reason and moment, says the same.
    """

    inbox_id: str
    reason: str


class SessionsWithMail(Read[tuple[str, ...]], frozen=True, kw_only=True):
    """The ids of sessions that have accepted messages, oldest message first."""


# Turns


class TakeTurn(Write[TakenTurn | None], frozen=True, kw_only=True):
    """
    Begin a turn on the session's oldest accepted message: message turned, user rows, turn ``running`` under the next
    turn_gen, in one transaction. None if no message waits. Refused with Conflict while another turn runs.
    """

    session_id: str
    turn_id: str
    """The id of the new turn row, unless the message was admitted with one."""


class FlushPartial(Write[None], frozen=True, kw_only=True):
    """Keep what a running turn has produced so far. Conflict if it has ended, or if its gen is stale."""

    turn_id: str
    turn_gen: int
    text: str


class EndTurn(Write[TurnRow], frozen=True, kw_only=True):
    """
    End a turn: its state, its history rows, its delivery and what becomes of its message in one transaction.

    Repeating it answers the stored row. Refused with Conflict if the turn is not running under ``turn_gen``, also if
    there is none, and Invalid if ``state`` is no end.
    """

    turn_id: str
    turn_gen: int
    state: TurnState
    reason: str | None = None
    text: str | None = None
    """The assistant row: the answer of a committed turn, partial and marker of a cancelled one."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls that the assistant row asks for."""
    interrupted_text: str | None = None
    """Partial text that people see and no model gets."""
    notice: str | None = None
    """Our own sentence, kept in the history beside (CHAT-1)."""
    usage: dict[str, int] | None = None
    estimated: bool = False
    error: str | None = None
    """Why a failed one failed: class and wording of ours, for whoever looks after Turnkeep."""
    delivery: NewDelivery | None = None
    """It takes the place of the answer's beginning, if one was shown; one that was not shown yet never will be."""
    again: bool = False
    """Whether the message waits for another turn."""


class GetTurn(Read[TurnRow | None], frozen=True, kw_only=True):
    """The turn of that id, or the newest one of that inbox row."""

    turn_id: str | None = None
    inbox_id: str | None = None


class ListTurns(Read[tuple[TurnRow, ...]], frozen=True, kw_only=True):
    """Turns in the given states, newest first; of one session or of all."""

    states: tuple[TurnState, ...] = ()
    session_id: str | None = None
    limit: int = 100


class Unfinished(Read[tuple[tuple[TurnRow, str, Route | None], ...]], frozen=True, kw_only=True):
    """Turns admitted or running, with their peer and route: what a restart has to decide about."""


# Sessions and history


class OpenSession(Write[SessionRow], frozen=True, kw_only=True):
    """The session bound to (peer, scope, key); made if there is none."""

    peer: str
    scope: str | None
    session_key: str
    new_session_id: str
    kind: SessionKind = SessionKind.CHAT
    title: str = ""


class GetSession(Read[SessionRow | None], frozen=True, kw_only=True):
    """A session by its id, or by a prefix of it that is unique."""

    session_id: str


class ListSessions(Read[tuple[SessionRow, ...]], frozen=True, kw_only=True):
    """Sessions, the most recently active first; of one peer or of all."""

    peer: str | None = None
    limit: int = 100
    offset: int = 0


class FindBindings(Read[tuple[Binding, ...]], frozen=True, kw_only=True):
    """The bindings of a key of one peer, over all scopes or in one."""

    peer: str
    session_key: str
    scope: str | None = None


class ReadHistory(Read[tuple[HistoryRow, ...]], frozen=True, kw_only=True):
    """The newest ``limit`` rows of a session, oldest of them first."""

    session_id: str
    limit: int = 100
    before: int | None = None
    """Only rows with a smaller seq."""


# Compaction


class ReadConversation(Read[tuple[Said, ...]], frozen=True, kw_only=True):
    """
    What a model gets of a session before the message of ``inbox_id``, oldest first, a summary before all others.

    Of a message that is turned again only what had been said before it; nothing that came since.
    """

    session_id: str
    inbox_id: str


class CompactHistory(Write[tuple[Entry, ...]], frozen=True, kw_only=True):
    """
    Let models get ``summary`` in place of all messages up to the one with the seq ``upto``. Answers what the turn's model
    gets from here on, its message last.

    Only the running turn may, so that nothing of a lost one changes what its successor got: else Conflict. Invalid if the
    turn's own message is among those. Once a summary stands up to there, repeating it changes nothing.
    """

    turn_id: str
    turn_gen: int
    upto: int
    summary: str


# The console's chats


class PostToChat(Write[HistoryRow], frozen=True, kw_only=True):
    """
    Append what a gateway sent to a console chat; opens a ``gateway`` session if the chat has none.

    Repeating it, with the same ``post_id``, answers the stored row.
    """

    peer: str
    scope: str | None
    session_key: str
    new_session_id: str
    post_id: str
    author: str
    content: str


class EditPost(Write[bool], frozen=True, kw_only=True):
    """Replace the text of a row that ``author`` posted. False if there is no such row."""

    seq: int
    author: str
    content: str


# Deliveries


class PutDelivery(Write[DeliveryRow], frozen=True, kw_only=True):
    """Keep a delivery of its own. Repeating it answers the stored row."""

    delivery: NewDelivery


class BeginAnswer(Write[DeliveryRow], frozen=True, kw_only=True):
    """
    Keep the beginning of a running turn's answer as a delivery, to be shown while the rest is being made.

    Answers the row of the message that shows a beginning to the same inbox row already, if there is one: it goes on
    there. Repeating it answers the stored row. Refused with Conflict if the turn is not running under ``turn_gen``.
    """

    turn_id: str
    turn_gen: int
    delivery: NewDelivery


class WithdrawBeginning(Write[bool], frozen=True, kw_only=True):
    """Forget a beginning that is still pending. Says whether it was never sent. Repeating it is harmless."""

    delivery_id: str


class ClaimDeliveries(Write[tuple[DeliveryRow, ...]], frozen=True, kw_only=True):
    """
    Turn pending deliveries of a peer into ``attempting`` and answer them: of each chat the oldest unsettled one.

    A chat with an attempt under way, or named in ``busy_chats``, gets none, so that chats keep their order; ``unknown``
    ones block nothing.
    """

    peer: str
    busy_chats: tuple[str, ...] = ()
    limit: int = 100


class AdvanceDelivery(Write[None], frozen=True, kw_only=True):
    """Note that ``parts_done`` pieces of a long delivery were delivered."""

    delivery_id: str
    parts_done: int


class SettleDelivery(Write[DeliveryRow], frozen=True, kw_only=True):
    """
    Leave ``attempting`` for pending (a definite failure), unknown, delivered or dead. Repeating it is harmless.

    An unknown one may still become any of these, and a pending one dead. Everything else is refused with Conflict.
    A beginning that would be pending again is forgotten: the next one says more.
    """

    delivery_id: str
    state: DeliveryState
    reason: str | None = None
    message_id: str | None = None
    attempt: int | None = None
    """The ``attempts`` of the claim that it is about: once it is claimed again, an older outcome is refused."""


class LoseAttempts(Write[int], frozen=True, kw_only=True):
    """
    At a start: what was ``attempting`` is ``unknown``, as nobody saw the outcome. Answers how many.

    Repeating it, with the same moment, answers the same.
    """


class ListDeliveries(Read[tuple[DeliveryRow, ...]], frozen=True, kw_only=True):
    """Deliveries in the given states (empty: all), newest first."""

    states: tuple[DeliveryState, ...] = ()
    peer: str | None = None
    limit: int = 100


class PeersWithDeliveries(Read[tuple[str, ...]], frozen=True, kw_only=True):
    """Names of peers for which something is pending."""


# Peers and keys


class PutPeer(Write[PeerRow], frozen=True, kw_only=True):
    """
    Add a peer. Refused with Conflict if the name exists, or another connector claims one of the identities.

    Repeating it, with the same secret, answers the stored row.
    """

    name: str
    role: PeerRole
    identities: tuple[str, ...]
    scopes: tuple[str, ...]
    secret: Secret


class RotatePeer(Write[PeerRow], frozen=True, kw_only=True):
    """Make ``secret`` the primary one; the former primary stays as secondary. NotFound if there is no such peer."""

    name: str
    secret: Secret


class RevokePeer(Write[PeerRow], frozen=True, kw_only=True):
    """Refuse the peer from now on. NotFound if there is no such peer."""

    name: str


class GetPeer(Read[PeerRow | None], frozen=True, kw_only=True):
    """A peer by name, revoked ones too."""

    name: str


class FindPeerBySecret(Read[PeerRow | None], frozen=True, kw_only=True):
    """The unrevoked peer with that plain secret."""

    secret: Secret


class ListPeers(Read[tuple[PeerRow, ...]], frozen=True, kw_only=True):
    """All peers by name; their secrets are left out."""


class NextLinkGen(Write[int], frozen=True, kw_only=True):
    """The number of a peer's new link; it only grows."""

    peer: str


class PutKey(Write[KeyRow], frozen=True, kw_only=True):
    """
    Keep a key's hash. Refused with Conflict if the name is taken by a key that is not revoked.

    Repeating it answers the stored row.
    """

    key_id: str
    name: str
    owner: str
    scopes: tuple[KeyScope, ...]
    key_hash: str
    """Hex SHA-256 of the key."""


class FindKey(Read[KeyRow | None], frozen=True, kw_only=True):
    """The unrevoked key with that hash."""

    key_hash: str


class RevokeKey(Write[KeyRow], frozen=True, kw_only=True):
    """Refuse the key from now on; by id or by name. NotFound if there is none."""

    key: str


class ListKeys(Read[tuple[KeyRow, ...]], frozen=True, kw_only=True):
    """All keys, newest first."""


# Events and the store itself


class AppendEvents(Write[None], frozen=True, kw_only=True):
    """Keep events; those that are there already are left alone."""

    events: tuple[Event, ...]


class LastEventSeq(Read[int], frozen=True, kw_only=True):
    """The number of the newest event kept, 0 if none."""


class ReadEvents(Read[tuple[Event, ...]], frozen=True, kw_only=True):
    """Events from ``from_seq`` on, oldest first."""

    from_seq: int
    limit: int = 1000


class ReadEventsBefore(Read[tuple[Event, ...]], frozen=True, kw_only=True):
    """The ``count`` newest events before ``seq``, oldest first, or fewer if there are not so many; of them ``limit``."""

    seq: int
    count: int
    limit: int = 1000


class BackUp(Request["BackedUp"], frozen=True, kw_only=True):
    """
    Copy the database to a new file (0600), as it is now, while writes go on.

    It takes as long as the asker's budget; then, and after any failure, nothing is left of it. Refused: Invalid for a path
    that is not absolute, Conflict for one that exists, Busy during another backup, Unavailable (``backup_failed``) if
    the file cannot be written.
    """

    path: str


class BackedUp(Row, frozen=True, kw_only=True):
    """A finished backup."""

    path: str
    bytes: int


class CheckStore(Read[None], frozen=True, kw_only=True):
    """Whether it can write: fails with StoreUnavailable, and the cause, from a fault until a write has succeeded."""


class StoreInfo(Read[dict[str, Any]], frozen=True, kw_only=True):
    """
    What the store is: schema (its version), path, bytes (of the file and its log), rows (of each table), commits and
    writes (since the actor started).
    """

    rows: bool = True
    """Whether rows are counted: that takes as long as there are many."""
