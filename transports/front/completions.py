"""
POST /v1/chat/completions: a body becomes a kept message, and the events of its turn become the response.

Admission comes first: the message is stored before anything is sent and before a backend is called. What fails earlier
writes nothing. A client that goes away takes its turn along, unless it asked with ``X-Turnkeep-Detach: 1`` to let it go
on: then the answer is found later in the session.
"""

import asyncio
from typing import Any

import msgspec
import structlog

from actors.exceptions import RuntimeFault, TurnkeepError
from actors.lane.health import ladder
from actors.messages.lane import TOOL_CALLS, LaneBinding, LaneTraits
from actors.messages.rows import KeyScope
from actors.runtime import Budget
from actors.turn.calls import Calls
from transports.front import session_header
from transports.front.auth import authenticate
from transports.front.chunks import Chunks, Head, whole
from transports.front.completion_request import CompletionRequest, parse
from transports.front.conversation import Places
from transports.front.edges import Edges
from transports.front.errors import RETRY_AFTER, ApiError, draining, from_fault, no_such_model, turn_failed
from transports.front.exchange import ClientLeft, Exchange
from transports.front.feed import FAILED, BegunAgain, Called, End, Gone, Silence, Text, Void
from transports.front.intake import Chat, Intake
from transports.front.stream import TOOK_TOO_LONG, ChunkStream
from transports.front.watch import CLIENT_GONE, Watch

log = structlog.get_logger("turnkeep.front")

FRESH = "A fresh session has begun."
DEFAULT_MODEL = "turnkeep"
"""The model name that means the first lane."""
DETACH = b"x-turnkeep-detach"
"""The request header that, with the value 1, lets a turn go on without its client."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose writes are done: only its answer is due."""

    request: CompletionRequest
    model: str
    """The name by which the client knows what answers."""
    detached: bool
    watch: Watch | None
    """None: there is nothing to ask (a bare ``/new``)."""


class Completions:
    """A raw ASGI callable."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._settings = edges.settings
        self._intake = Intake(edges)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        exchange = Exchange(scope, receive, send)
        budget = self._edges.within(self._settings.request_s)
        try:
            admitted = await self._admit(exchange, budget)
        except ClientLeft:
            return
        except TurnkeepError as error:
            await exchange.refuse(from_fault(error))
            return
        await self._answer(exchange, admitted, budget)

    # Admission

    async def _admit(self, exchange: Exchange, budget: Budget) -> Admitted:
        exchange.token = session_header.echoed_token(exchange.headers)
        key = await authenticate(
            exchange.headers, KeyScope.API, self._edges.store, budget.at_most(self._settings.store_s)
        )
        token = session_header.supplied_token(exchange.headers)
        if not self._edges.admission.open:
            raise draining()
        request = parse(await exchange.body(self._settings.max_body_bytes, self._settings.body_s))
        # A name that nobody has used is a chat that does not exist yet (API-4).
        token = token or session_header.minted_token(self._edges.system.random.getrandbits(160))
        exchange.token = token
        lanes = await self._lanes(budget)
        called = _lane_called(lanes, request.model)
        lane = _serving(lanes, called)
        _require_of(lane, request.needs)
        chat = Chat(token=token, owner=key.owner)
        detached = exchange.header(DETACH) in ("1", "true")
        await self._edges.system.failpoints.reach("front.admit")
        watch = await self._keep(chat, request, called, detached, budget)
        return Admitted(request=request, model=request.model or lane.name, detached=detached, watch=watch)

    async def _lanes(self, budget: Budget) -> tuple[LaneBinding, ...]:
        try:
            return await self._edges.bound_lanes(budget.at_most(self._settings.lanes_s))
        except RuntimeFault as fault:
            raise _no_lane("No model takes turns now; try again later.") from fault

    async def _keep(
        self, chat: Chat, request: CompletionRequest, called: str | None, detached: bool, budget: Budget
    ) -> Watch | None:
        afresh, text = session_header.read_command(request.said)
        left = await self._intake.bound_sessions(chat, budget) if afresh else ()
        watch: Watch | None = None
        if afresh and not text and not request.shown:
            await self._intake.rotate(chat, budget)
        else:
            kept = request.afresh(text) if afresh else request
            watch = await self._intake.keep(
                chat, kept, called, afresh=afresh, detached=detached, budget=budget
            )
            self._edges.system.failpoints.hit("front.admitted")
            watch.attach()
        self._intake.supersede(left)
        return watch

    # The answer

    async def _answer(self, exchange: Exchange, admitted: Admitted, budget: Budget) -> None:
        system = self._edges.system
        head = Head(id=f"chatcmpl-{system.new_id()}", created=int(system.clock.wall()), model=admitted.model)
        stream: ChunkStream | None = None
        if admitted.request.stream:
            stream = ChunkStream(
                exchange,
                Chunks(head),
                include_usage=admitted.request.include_usage,
                detached=admitted.detached,
                settings=self._settings,
            )
        if admitted.watch is not None:
            await self._follow(exchange, admitted.watch, head, stream, admitted.detached, budget)
        elif stream is not None:
            await stream.say(FRESH)
        else:
            await exchange.answer(200, whole(head, FRESH, "stop", None))

    async def _follow(
        self,
        exchange: Exchange,
        watch: Watch,
        head: Head,
        stream: ChunkStream | None,
        detached: bool,
        budget: Budget,
    ) -> None:
        watching = asyncio.ensure_future(exchange.watch(watch.port))
        # Why the rest of the turn is of no use; None once it is over.
        useless: str | None = CLIENT_GONE
        try:
            # A client may do neither: read, nor go.
            async with asyncio.timeout(budget.remaining() + self._settings.linger_s):
                if stream is not None:
                    useless = await stream.follow(watch, budget)
                else:
                    useless = await self._buffer(exchange, watch, head, budget)
        except TimeoutError:
            log.warning("front.client_stuck", session=exchange.token)
        finally:
            watching.cancel()
            if useless is None:
                watch.close()
            else:
                watch.let_go(None if detached else useless)

    async def _buffer(self, exchange: Exchange, watch: Watch, head: Head, budget: Budget) -> str | None:
        """Answer once the turn has ended; return why the rest of the turn is of no use, None if that is not so."""
        parts: list[str] = []
        calls = Calls()
        while True:
            heard = await watch.next(budget.at_most(self._settings.keepalive_s))
            match heard:
                case Text(text=text):
                    parts.append(text)
                case Called(calls=pieces):
                    calls = calls.feed(pieces)
                case Void(keep=keep):
                    parts, calls = ["".join(parts)[:keep]], Calls()
                case BegunAgain():
                    parts, calls = [], Calls()
                case Gone():
                    return CLIENT_GONE
                case End(failed=False):
                    # An answer that ends otherwise has lost the calls that it had begun (TRN-55).
                    asked = calls.calls if heard.finish_reason == TOOL_CALLS else ()
                    body = whole(head, "".join(parts), heard.finish_reason, heard.usage, asked)
                    await exchange.answer(200, body)
                    return None
                case End():
                    await exchange.refuse(turn_failed(heard.status, heard.code or FAILED, heard.message))
                    return None
                case Silence() if budget.expired():
                    await exchange.refuse(turn_failed(504, FAILED, TOOK_TOO_LONG.message))
                    return CLIENT_GONE


def _lane_called(lanes: tuple[LaneBinding, ...], model: str | None) -> str | None:
    """
    Return the name of the lane that a client means by its name, or by its backend's name of the model; None: the default.

    Raises ApiError 404.
    """
    if model is None or model == DEFAULT_MODEL:
        return None
    names = [lane.traits.name for lane in lanes]
    if model in names:
        return model
    for lane in lanes:
        if model == lane.traits.model:
            return lane.traits.name
    raise no_such_model((DEFAULT_MODEL, *(lane.traits.name for lane in lanes if lane.live)))


def _serving(lanes: tuple[LaneBinding, ...], called: str | None) -> LaneTraits:
    """Return the lane that is called so, or the default. Raises ApiError 503 if neither it nor a fallback takes turns."""
    chain = ladder(lanes, called)
    if not any(lane.live for lane in chain):
        if called is None:
            raise _no_lane("No model takes turns now: each lane is quarantined.")
        raise _no_lane(f"The model {called} is quarantined; try again later.")
    return next((lane.traits for lane in lanes if lane.traits.name == called), chain[0].traits)


def _require_of(lane: LaneTraits, needs: Places) -> None:
    """Raise ApiError 400 for the first thing that the lane does not take."""
    for capability, where in needs.items():
        if capability not in lane.capabilities:
            raise ApiError(
                400,
                "unsupported_content",
                f"{where}: the lane {lane.name} takes no {capability}; leave them out, ask for another model, or, "
                f'if its model does take them, add "{capability}" to the lane\'s capabilities.',
                param=where,
            )


def _no_lane(text: str) -> ApiError:
    return ApiError(503, "backend_unavailable", text, headers=(RETRY_AFTER,))
