"""
POST /v1/chat/completions: a body becomes a kept message, and the events of its turn become the response.

Admission comes first: the message is stored, with its session, binding and receipt, before anything is sent and before a
backend is called. What fails earlier writes nothing.
"""

import asyncio
from typing import Any

import msgspec
import structlog

from actors.exceptions import DeadlineExceeded, RuntimeFault, TurnkeepError
from actors.messages.rows import KeyRow, KeyScope, Origin
from actors.messages.session import AttachWatcher, DetachWatcher, StopTurn
from actors.messages.store import AcceptMessage, FindBindings, GetTurn, RotateChat
from actors.runtime import Port
from transports.front import session_header
from transports.front.auth import authenticate
from transports.front.chunks import DONE, KEEPALIVE, Chunks, whole
from transports.front.completion_request import CompletionRequest, parse
from transports.front.edges import Edges, LaneRef
from transports.front.errors import RETRY_AFTER, SHOULD_NOT_RETRY, ApiError, draining, from_fault
from transports.front.feed import End, Feed, Gone, Silence, Text
from transports.front.response import ClientLeft, Exchange, Pairs

log = structlog.get_logger("turnkeep.front")

FRESH = "A fresh session has begun."
DEFAULT_MODEL = "turnkeep"
"""The model name that means the first lane."""
DETACH = b"x-turnkeep-detach"
STREAM_HEADERS: Pairs = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """The chat that a request is about."""

    token: str
    key: KeyRow

    @property
    def peer(self) -> str:
        """The name space of its owner's chats."""
        return f"api:{self.key.owner}"

    @property
    def headers(self) -> Pairs:
        """Both session headers."""
        return session_header.response_headers(self.token)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was admitted, as its response needs it."""

    inbox_id: str
    session_id: str
    detached: bool
    completion_id: str
    created: int
    model: str
    include_usage: bool


class Completions:
    """A raw ASGI callable."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._settings = edges.settings

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        exchange = Exchange(scope, receive, send)
        token: str | None = None
        try:
            key = await authenticate(
                exchange.headers, KeyScope.API, self._edges.store, self._edges.within(self._settings.store_s)
            )
            token = session_header.supplied_token(exchange.headers)
            request = parse(await exchange.body(self._settings.max_body_bytes))
            if not self._edges.admission.open:
                raise draining()
            lane = self._lane(request.model)
            token = token or session_header.minted_token(self._edges.system.random.getrandbits(160))
            await self._serve(exchange, Chat(token=token, key=key), request, lane)
        except ClientLeft:
            return
        except TurnkeepError as error:
            await exchange.refuse(from_fault(error), session_header.response_headers(token), token)

    def _lane(self, model: str | None) -> LaneRef:
        lanes = self._edges.lanes
        if not lanes:
            raise ApiError(
                503, "backend_unavailable", "No model is configured; add a [[lane]].", headers=(RETRY_AFTER,)
            )
        if model is None or model == DEFAULT_MODEL:
            return lanes[0]
        for lane in lanes:
            if model in (lane.name, lane.model):
                return lane
        names = ", ".join((DEFAULT_MODEL, *(lane.name for lane in lanes)))
        raise ApiError(
            404, "model_not_found", f"There is no model of that name; there are: {names}.", param="model"
        )

    # Admission

    async def _serve(self, exchange: Exchange, chat: Chat, request: CompletionRequest, lane: LaneRef) -> None:
        rotate, text = session_header.read_command(request.entries[-1].content)
        former = await self._bound_sessions(chat) if rotate else ()
        if rotate and not text:
            await self._rotate(exchange, chat, request, lane)
            await self._supersede(former)
            return
        if rotate:
            last = msgspec.structs.replace(request.entries[-1], content=text)
            request = msgspec.structs.replace(request, entries=(last,), seed=())
        turn = await self._admit(exchange, chat, request, lane, rotate)
        await self._supersede(former)
        await self._run(exchange, chat, request, turn)

    async def _bound_sessions(self, chat: Chat) -> tuple[str, ...]:
        bindings = await self._edges.store.ask(
            FindBindings(peer=chat.peer, session_key=chat.token), self._edges.within(self._settings.store_s)
        )
        return tuple(binding.session_id for binding in bindings)

    async def _supersede(self, sessions: tuple[str, ...]) -> None:
        """Stop what still runs in the sessions that a chat has left (API-9)."""
        for session_id in sessions:
            await self._stop(session_id, None, "superseded")

    async def _rotate(
        self, exchange: Exchange, chat: Chat, request: CompletionRequest, lane: LaneRef
    ) -> None:
        system = self._edges.system
        rotation = RotateChat(
            peer=chat.peer,
            scope=None,
            session_key=chat.token,
            new_session_id=system.new_id(),
            at=system.clock.wall(),
        )
        accepted = await self._edges.store.ask(rotation, self._edges.within(self._settings.store_s))
        turn = self._turn("", accepted.session_id, True, request, lane)
        if not request.stream:
            body = whole(turn.completion_id, turn.created, turn.model, FRESH, "stop", None)
            await exchange.answer(200, body, chat.headers)
            return
        chunks = Chunks(turn.completion_id, turn.created, turn.model)
        await exchange.start(200, (*STREAM_HEADERS, *chat.headers))
        usage = chunks.usage(None) if turn.include_usage else b""
        await exchange.write(chunks.role() + chunks.content(FRESH) + chunks.finish("stop") + usage + DONE)
        await exchange.end()

    async def _admit(
        self, exchange: Exchange, chat: Chat, request: CompletionRequest, lane: LaneRef, rotate: bool
    ) -> Turn:
        system = self._edges.system
        inbox_id, turn_id = system.new_id(), system.new_id()
        detached = exchange.header(DETACH) in ("1", "true")
        message = AcceptMessage(
            inbox_id=inbox_id,
            origin=Origin.API,
            peer=chat.peer,
            scope=None,
            session_key=chat.token,
            new_session_id=system.new_id(),
            entries=request.entries,
            seed=request.seed,
            params={**request.params, "model": lane.name},
            detached=detached,
            turn_id=turn_id,
            rotate=rotate,
            max_queued=self._settings.max_queued,
            at=system.clock.wall(),
        )
        budget = self._edges.within(self._settings.store_s)
        first = budget.share(1 - self._settings.store_reserve)
        try:
            session_id = (await self._edges.store.ask(message, first)).session_id
        except DeadlineExceeded:
            # Unknown is not "no": look for what the write would have left behind.
            row = await self._edges.store.ask(GetTurn(turn_id=turn_id), budget)
            if row is None:
                raise
            session_id = row.session_id
        return self._turn(inbox_id, session_id, detached, request, lane)

    def _turn(
        self, inbox_id: str, session_id: str, detached: bool, request: CompletionRequest, lane: LaneRef
    ) -> Turn:
        system = self._edges.system
        return Turn(
            inbox_id=inbox_id,
            session_id=session_id,
            detached=detached,
            completion_id=f"chatcmpl-{system.new_id()}",
            created=int(system.clock.wall()),
            model=request.model or lane.name,
            include_usage=request.include_usage,
        )

    # The turn

    async def _run(self, exchange: Exchange, chat: Chat, request: CompletionRequest, turn: Turn) -> None:
        port = self._edges.system.port(f"/front/{turn.inbox_id}", self._settings.stream_queue)
        watching = asyncio.ensure_future(exchange.watch(port))
        try:
            self._edges.sessions.tell(
                AttachWatcher(session_id=turn.session_id, inbox_id=turn.inbox_id, watcher=port)
            )
            feed = Feed(port)
            if request.stream:
                gone = await self._stream(exchange, chat, turn, feed, port)
            else:
                gone = await self._buffer(exchange, chat, turn, feed, port)
            if gone and not turn.detached:
                await self._stop(turn.session_id, turn.inbox_id, "client_gone")
        except Exception:
            # The client's own socket failed in the middle of a write: it is as gone as one that said so.
            if not turn.detached:
                await self._stop(turn.session_id, turn.inbox_id, "client_gone")
            raise
        finally:
            watching.cancel()
            port.close()
            self._detach(turn, port)

    async def _buffer(self, exchange: Exchange, chat: Chat, turn: Turn, feed: Feed, port: Port) -> bool:
        """Answer once the turn has ended; True if the client went first."""
        parts: list[str] = []
        budget = self._edges.within(self._settings.request_s)
        while True:
            heard = await feed.next(budget.at_most(self._settings.keepalive_s))
            match heard:
                case Text(text=text):
                    parts.append(text)
                case Gone():
                    return True
                case Silence() if not budget.expired():
                    self._attach_again(turn, port)
                case Silence():
                    await self._fail(exchange, chat, "The turn took too long.")
                    return True
                case End(failed=True, message=message):
                    await self._fail(exchange, chat, message)
                    return False
                case End():
                    reason = heard.finish_reason or "stop"
                    body = whole(
                        turn.completion_id, turn.created, turn.model, "".join(parts), reason, heard.usage
                    )
                    await exchange.answer(200, body, chat.headers)
                    return False

    async def _stream(self, exchange: Exchange, chat: Chat, turn: Turn, feed: Feed, port: Port) -> bool:
        """Stream; True if the client went before the end."""
        chunks = Chunks(turn.completion_id, turn.created, turn.model)
        budget = self._edges.within(self._settings.request_s)
        heard = await feed.next(budget.at_most(self._settings.early_error_s))
        if isinstance(heard, End) and heard.failed:
            await self._fail(exchange, chat, heard.message)
            return False
        if isinstance(heard, Gone):
            return True
        await exchange.start(200, (*STREAM_HEADERS, *chat.headers))
        await exchange.write(chunks.role())
        partial = False
        while True:
            match heard:
                case Text(text=text):
                    partial = True
                    await exchange.write(chunks.content(text))
                case Gone():
                    return True
                case Silence() if not budget.expired():
                    await exchange.write(KEEPALIVE)
                    self._attach_again(turn, port)
                case Silence():
                    failure = End(code="turn_failed", message="The turn took too long.")
                    await self._end_stream(exchange, chat, turn, chunks, failure, partial)
                    return True
                case End():
                    await self._end_stream(exchange, chat, turn, chunks, heard, partial)
                    return heard.code == "slow_reader"
            heard = await feed.next(budget.at_most(self._settings.keepalive_s))

    async def _end_stream(
        self, exchange: Exchange, chat: Chat, turn: Turn, chunks: Chunks, end: End, partial: bool
    ) -> None:
        if end.code is not None:
            last = chunks.failure(
                end.message, end.code, chat.token, partial=partial, hermes=self._settings.compat_hermes
            )
        else:
            last = chunks.finish(end.finish_reason or "stop")
            if turn.include_usage:
                last += chunks.usage(end.usage)
        await exchange.write(last + DONE)
        await exchange.end()

    async def _fail(self, exchange: Exchange, chat: Chat, message: str) -> None:
        # The message is kept and its turn is over: the client's own retry would be a second turn.
        error = ApiError(500, "turn_failed", message, headers=(SHOULD_NOT_RETRY,))
        await exchange.refuse(error, chat.headers, chat.token)

    def _attach_again(self, turn: Turn, port: Port) -> None:
        """Whoever has heard nothing for a while asks again: its session may have been restarted under it."""
        try:
            self._edges.sessions.tell(
                AttachWatcher(session_id=turn.session_id, inbox_id=turn.inbox_id, watcher=port)
            )
        except RuntimeFault as fault:
            log.warning("front.attach_failed", error=type(fault).__name__)

    def _detach(self, turn: Turn, port: Port) -> None:
        try:
            self._edges.sessions.tell(
                DetachWatcher(session_id=turn.session_id, inbox_id=turn.inbox_id, watcher=port)
            )
        except RuntimeFault as fault:
            log.debug("front.detach_failed", error=type(fault).__name__)

    async def _stop(self, session_id: str, inbox_id: str | None, by: str) -> None:
        try:
            await self._edges.sessions.ask(
                StopTurn(session_id=session_id, inbox_id=inbox_id, by=by),
                self._edges.within(self._settings.store_s),
            )
        except RuntimeFault as fault:
            log.warning("front.stop_failed", error=type(fault).__name__)
