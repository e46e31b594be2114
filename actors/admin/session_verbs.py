"""Verbs about conversations: reading, speaking, watching and stopping."""

import hashlib
from typing import Any

import msgspec

from actors.admin.edges import Call, Verb
from actors.exceptions import Conflict, Invalid, NotFound, OutcomeUnknown
from actors.keep import keep
from actors.messages.admin import (
    AdminRequest,
    Answer,
    FollowSession,
    ListAllSessions,
    OpenChat,
    SendText,
    ShowHistory,
    ShowSession,
    StopSessionTurn,
    UnfollowSession,
    WatchTurn,
)
from actors.messages.inbound import Source
from actors.messages.rows import ENDED_TURNS, Binding, Entry, Origin, SessionRow, TurnRow, TurnState
from actors.messages.session import AttachWatcher, InboxReady, LiveSessions, StopTurn
from actors.messages.store import (
    AcceptMessage,
    FindBindings,
    GetSession,
    ListSessions,
    ListTurns,
    OpenSession,
    ReadHistory,
)
from actors.session.key import KeyRules, session_key

CONSOLE = "console"
"""The name space of chats that are led here."""

LAST_TURNS = 10


async def list_sessions(request: ListAllSessions, call: Call) -> Answer:
    """Return rows, each with whether its actor lives."""
    rows = await call.edges.store.ask(
        ListSessions(peer=request.peer, limit=request.limit, offset=request.offset), call.budget
    )
    live = await _live(call)
    return {"sessions": [_session_view(row, row.session_id in live) for row in rows]}


async def show_session(request: ShowSession, call: Call) -> Answer:
    """Return a row with the last turns, without their texts."""
    row = await _session(request.session_id, call)
    turns = await call.edges.store.ask(ListTurns(session_id=row.session_id, limit=LAST_TURNS), call.budget)
    live = row.session_id in await _live(call)
    return {"session": _session_view(row, live), "turns": [_turn_view(turn) for turn in turns]}


async def open_chat(request: OpenChat, call: Call) -> Answer:
    """Return the row of a console chat's session."""
    row = await keep(
        call.edges.store,
        OpenSession(
            at=call.now(),
            peer=CONSOLE,
            scope=None,
            session_key=_console_key(request.platform, request.chat),
            new_session_id=call.edges.system.new_id(),
            title=request.chat,
        ),
        call.budget,
    )
    return {"session": _session_view(row)}


async def send_text(request: SendText, call: Call) -> Answer:
    """
    Accept a message and wake its session; the turn's events go to the watcher if it wants them.

    While the daemon drains the message is kept all the same, and its turn begins after the next start.
    """
    peer, scope, key = await _place(request, call)
    edges = call.edges
    message = AcceptMessage(
        at=call.now(),
        inbox_id=edges.system.new_id(),
        origin=Origin.CONSOLE,
        peer=peer,
        scope=scope,
        session_key=key,
        new_session_id=edges.system.new_id(),
        entries=(Entry(role="user", content=request.text),),
        # A name space of its own beside the buffer ids of the relay peer whose session it may be.
        buffer_id=f"admin:{call.caller.key_id}:{request.message_id or edges.system.new_id()}",
        body_hash=hashlib.sha256(f"{key}\0{request.text}".encode()).hexdigest(),
    )
    try:
        accepted = await keep(edges.store, message, call.budget)
    except OutcomeUnknown:
        # If it was kept, nobody else would tell its session.
        call.follow_up(
            FindBindings(peer=peer, session_key=key, scope=scope), lambda found: _wake(found, call)
        )
        raise
    if request.watch:
        edges.sessions.tell(_attach(accepted.session_id, accepted.inbox_id, call))
    edges.sessions.tell(InboxReady(session_id=accepted.session_id))
    return {"accepted": accepted, "draining": not edges.admitting()}


async def show_history(request: ShowHistory, call: Call) -> Answer:
    """Return the newest rows."""
    row = await _session(request.session_id, call)
    history = await call.edges.store.ask(
        ReadHistory(session_id=row.session_id, limit=request.limit, before=request.before), call.budget
    )
    return {"session_id": row.session_id, "history": history}


async def stop_turn(request: StopSessionTurn, call: Call) -> Answer:
    """Say whether there was something to stop."""
    row = await _session(request.session_id, call)
    stopped = await call.edges.sessions.ask(
        StopTurn(session_id=row.session_id, by="user", inbox_id=request.inbox_id), call.budget
    )
    return {"session_id": row.session_id, "stopped": stopped}


async def watch_turn(request: WatchTurn, call: Call) -> Answer:
    """Attach the watcher to a turn; None where no turn is named and none runs."""
    row = await _session(request.session_id, call)
    inbox_id = request.inbox_id or await _running(row.session_id, call)
    if inbox_id is None:
        return {"session_id": row.session_id, "inbox_id": None}
    call.edges.sessions.tell(_attach(row.session_id, inbox_id, call))
    return {"session_id": row.session_id, "inbox_id": inbox_id}


async def follow_session(request: FollowSession, call: Call) -> Answer:
    """Return the whole id and the last turn that has ended: the events are the connection's business."""
    if request.after_seq and request.after_gen is None:
        raise Invalid("after_seq counts the events of one turn: name that turn in after_gen")
    row = await _session(request.session_id, call)
    ended = ListTurns(session_id=row.session_id, states=tuple(sorted(ENDED_TURNS)))
    turns = await call.edges.store.ask(ended, call.budget)
    return {"session_id": row.session_id, "turn_gen": max((turn.turn_gen for turn in turns), default=0)}


async def unfollow_session(request: UnfollowSession, call: Call) -> Answer:
    """Return the whole id."""
    return {"session_id": (await _session(request.session_id, call)).session_id}


def _console_key(platform: str, chat: str) -> str:
    return session_key(Source(platform=platform, chat_id=chat, chat_type="dm"), KeyRules())


def _attach(session_id: str, inbox_id: str, call: Call) -> AttachWatcher:
    return AttachWatcher(session_id=session_id, inbox_id=inbox_id, watcher=call.watcher)


async def _session(session_id: str, call: Call) -> SessionRow:
    row = await call.edges.store.ask(GetSession(session_id=session_id), call.budget)
    if row is None:
        raise NotFound(f"there is no session {session_id}, or several begin like that")
    return row


async def _live(call: Call) -> frozenset[str]:
    """Return the ids of sessions whose actor lives."""
    ids = await call.edges.sessions.ask(LiveSessions(), call.budget)
    return frozenset(ids)


async def _place(request: SendText, call: Call) -> tuple[str, str | None, str]:
    """Return peer, scope and key of the chat that is meant."""
    if (request.session_id is None) == (request.chat is None):
        raise Invalid("name either a session_id or a chat")
    if request.chat is not None:
        return CONSOLE, None, _console_key(request.platform, request.chat)
    row = await _session(str(request.session_id), call)
    bindings = await call.edges.store.ask(
        FindBindings(peer=row.peer, session_key=row.session_key, scope=row.scope), call.budget
    )
    # A message is addressed to a chat, and the chat may have gone on in another session.
    if all(binding.session_id != row.session_id for binding in bindings):
        now = ", ".join(binding.session_id for binding in bindings) or "none"
        raise Conflict(f"the chat of session {row.session_id} has been given a new one: {now}")
    return row.peer, row.scope, row.session_key


def _wake(bindings: tuple[Binding, ...], call: Call) -> None:
    for binding in bindings:
        call.edges.sessions.tell(InboxReady(session_id=binding.session_id))


async def _running(session_id: str, call: Call) -> str | None:
    turns = await call.edges.store.ask(
        ListTurns(session_id=session_id, states=(TurnState.RUNNING,), limit=1), call.budget
    )
    return turns[0].inbox_id if turns else None


def _session_view(row: SessionRow, live: bool | None = None) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(row)
    return view if live is None else {**view, "live": live}


def _turn_view(row: TurnRow) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(row)
    for text in ("text", "partial"):
        del view[text]
    return view


SESSION_VERBS: dict[type[AdminRequest], Verb] = {
    ListAllSessions: list_sessions,
    ShowSession: show_session,
    OpenChat: open_chat,
    SendText: send_text,
    ShowHistory: show_history,
    StopSessionTurn: stop_turn,
    WatchTurn: watch_turn,
    FollowSession: follow_session,
    UnfollowSession: unfollow_session,
}
