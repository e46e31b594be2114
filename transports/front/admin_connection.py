"""One open connection to /admin: reads requests, several under way at once, and writes answers and events."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, NoReturn

import structlog

from actors.admin.scope import demand
from actors.exceptions import Busy, MailboxFull, RuntimeFault, TurnkeepError
from actors.messages.admin import (
    AdminRequest,
    Answer,
    FollowSession,
    Perform,
    SubscribeEvents,
    TraceActor,
    UnfollowSession,
    UnsubscribeEvents,
)
from actors.messages.rows import KeyRow
from actors.messages.session import TurnOutcome
from actors.messages.store import FindKey
from actors.messages.turn import TurnEvent
from actors.runtime import Budget, Ref, System
from transports.front import admin_frames as frames
from transports.front.admin_feed import EventFeed
from transports.front.admin_follow import TurnFeed
from transports.front.admin_settings import AdminSocketSettings
from transports.front.admin_trace import TraceFeed

log = structlog.get_logger("turnkeep.admin")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TOO_SLOW = 1008
TOO_BIG = 1009
TRY_AGAIN = 1013
UNAUTHORIZED = 4401


class Ending(Exception):
    """The connection is over; ``code`` is what it is closed with, None if the other side has gone."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class AdminConnection:
    """Serves one accepted socket of a known key."""

    def __init__(
        self,
        *,
        system: System,
        admin: Ref,
        store: Ref,
        events: Ref,
        sessions: Ref,
        settings: AdminSocketSettings,
        key: KeyRow,
        key_hash: str,
        receive: Receive,
        send: Send,
    ) -> None:
        self._system = system
        self._admin = admin
        self._store = store
        self._events = events
        self._sessions = sessions
        self._settings = settings
        self._key = key
        self._key_hash = key_hash
        self._receive = receive
        self._send = send
        # Hears the turns that this connection watches.
        self._port = system.port(f"/admin/{key.key_id}", settings.queue)
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(settings.in_flight)
        # The one subscription to the event bus, and the task that writes what it hears.
        self._feed: EventFeed | None = None
        self._feeding: asyncio.Task[None] | None = None
        # The one trace of an actor, and the task that writes it.
        self._trace_feed: TraceFeed | None = None
        self._tracing: asyncio.Task[None] | None = None
        # The sessions that it follows, each with the task that writes what it hears.
        self._follows: dict[str, tuple[TurnFeed, asyncio.Task[None]]] = {}

    async def serve(self) -> None:
        """Serve until either side ends it."""
        code: int | None = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump())
                group.create_task(self._recheck())
                await self._read(group)
        except* Ending as endings:
            code = _code(endings)
        finally:
            self._end_feed()
            self._end_trace()
            for session_id in list(self._follows):
                self._end_follow(session_id)
            self._port.close()
        if code is not None:
            await self._close(code)

    # Requests

    async def _read(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._slots.acquire()
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                raise Ending(None)
            text = message.get("text")
            raw = text.encode() if text is not None else bytes(message.get("bytes") or b"")
            if len(raw) > self._settings.max_message:
                raise Ending(TOO_BIG)
            group.create_task(self._serve_one(raw, group))

    async def _serve_one(self, raw: bytes, group: asyncio.TaskGroup) -> None:
        try:
            request = frames.read(raw)
            if isinstance(request, frames.BadFrame):
                await self._write(frames.refusal(request.id, request.code, request.message))
                return
            await self._check_key()
            try:
                await self._answer(request, group)
            except TurnkeepError as error:
                await self._write(frames.failure(request.id, error))
        finally:
            self._slots.release()

    async def _answer(self, request: AdminRequest, group: asyncio.TaskGroup) -> None:
        match request:
            case SubscribeEvents():
                demand(request, self._key)
                await self._subscribe(request, group)
            case TraceActor():
                await self._trace(request, group)
            case FollowSession():
                await self._follow(request, group)
            case UnfollowSession():
                result = await self._perform(request)
                self._end_follow(str(result["session_id"]))
                await self._write(frames.answer(request.id, result))
            case UnsubscribeEvents():
                demand(request, self._key)
                self._end_feed()
                await self._write(frames.answer(request.id, {}))
            case _:
                await self._write(frames.answer(request.id, await self._perform(request)))

    async def _perform(self, request: AdminRequest) -> Answer:
        perform = Perform(request=request, caller=self._key, watcher=self._port)
        return await self._admin.ask(perform, self._budget(request.patience_s or self._settings.request_s))

    async def _check_key(self) -> None:
        """Let a key that was revoked meanwhile do nothing more."""
        try:
            key = await self._store.ask(
                FindKey(key_hash=self._key_hash), self._budget(self._settings.store_s)
            )
        except TurnkeepError:
            # Whoever is here may still look and steer while the store is away.
            return
        if key is None:
            raise Ending(UNAUTHORIZED)
        self._key = key

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(self._settings.recheck_s)
            await self._check_key()

    # Events

    async def _subscribe(self, request: SubscribeEvents, group: asyncio.TaskGroup) -> None:
        feed = EventFeed(
            request, system=self._system, events=self._events, settings=self._settings, write=self._write
        )
        try:
            last = await feed.begin()
            await self._write(frames.answer(request.id, {"seq": last}))
        except BaseException:
            feed.close()
            raise
        self._end_feed()
        self._feed = feed
        self._feeding = group.create_task(self._run_feed(feed))

    async def _run_feed(self, feed: EventFeed) -> None:
        try:
            await feed.run()
        except MailboxFull:
            await self._drop("too_slow", TOO_SLOW)
        except RuntimeFault:
            await self._drop("events_unavailable", TRY_AGAIN)

    def _end_feed(self) -> None:
        if self._feed is not None and self._feeding is not None:
            self._feed.close()
            self._feeding.cancel()
            self._feed = self._feeding = None

    # Traces

    async def _trace(self, request: TraceActor, group: asyncio.TaskGroup) -> None:
        result = await self._perform(request)
        feed = TraceFeed(request, system=self._system, queue=self._settings.queue, write=self._write)
        self._end_trace()
        # Nothing is awaited from here to the task that ends it.
        feed.begin()
        self._trace_feed = feed
        self._tracing = group.create_task(self._run_answered(feed, frames.answer(request.id, result)))

    async def _run_answered(self, feed: TraceFeed | TurnFeed, answer: bytes) -> None:
        try:
            await self._write(answer)
            await feed.run()
        except MailboxFull:
            await self._drop("too_slow", TOO_SLOW)
        finally:
            feed.close()

    def _end_trace(self) -> None:
        if self._trace_feed is not None and self._tracing is not None:
            self._trace_feed.close()
            self._tracing.cancel()
            self._trace_feed = self._tracing = None

    # Sessions that are followed

    async def _follow(self, request: FollowSession, group: asyncio.TaskGroup) -> None:
        result = await self._perform(request)
        session_id = str(result["session_id"])
        self._end_follow(session_id)
        if len(self._follows) >= self._settings.followed:
            raise Busy(f"this connection follows {len(self._follows)} sessions already; use another one")
        # Nothing is told of what ended before, unless an event is named after which to go on.
        ended = 0 if request.after_gen is not None else int(result["turn_gen"])
        feed = TurnFeed(
            session_id,
            after_gen=ended if request.after_gen is None else request.after_gen,
            after_seq=request.after_seq,
            ended_gen=ended,
            system=self._system,
            sessions=self._sessions,
            settings=self._settings,
            write=self._write,
        )
        task = group.create_task(self._run_answered(feed, frames.answer(request.id, result)))
        self._follows[session_id] = (feed, task)

    def _end_follow(self, session_id: str) -> None:
        feed, task = self._follows.pop(session_id, (None, None))
        if feed is not None and task is not None:
            feed.close()
            task.cancel()

    async def _pump(self) -> None:
        while True:
            try:
                message = await self._port.receive()
            except MailboxFull:
                await self._drop("too_slow", TOO_SLOW)
            if isinstance(message, TurnEvent | TurnOutcome):
                await self._write(frames.turn_event(message, self._system.clock.wall()))

    # Writing

    async def _drop(self, reason: str, code: int) -> NoReturn:
        """Say that events are missing from here on, and end (ADM-4)."""
        log.warning("admin.observer_dropped", key=self._key.name, reason=reason)
        await self._write(frames.event("dropped", None, self._system.clock.wall(), {"reason": reason}))
        raise Ending(code)

    async def _write(self, frame: bytes) -> None:
        async with self._writing:
            try:
                async with asyncio.timeout(self._settings.stall_s):
                    await self._send({"type": "websocket.send", "text": frame.decode()})
            except TimeoutError:
                raise Ending(TOO_SLOW) from None
            except OSError:
                raise Ending(None) from None

    async def _close(self, code: int) -> None:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(self._settings.close_s):
                await self._send({"type": "websocket.close", "code": code})

    def _budget(self, seconds: float) -> Budget:
        return Budget.of(self._system.clock, seconds)


def _code(endings: BaseExceptionGroup[Ending]) -> int | None:
    """Return what the connection is closed with: nothing if any of its tasks saw the other side gone."""
    codes = [leaf.code for leaf in _leaves(endings)]
    return None if None in codes else codes[0]


def _leaves(group: BaseExceptionGroup[Ending]) -> Iterator[Ending]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one
