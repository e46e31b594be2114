"""Messages that were accepted."""

from typing import Any

import msgspec

from actors.messages.inbound import InboundEvent
from actors.messages.rows import Accepted, Entry, Origin, Route, SessionKind
from actors.messages.store.request import Read, Write


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
