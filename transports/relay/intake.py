"""
One socket's incoming messages on their way into the store: in order, several at once, acknowledged once they are kept.

A message whose peer buffers it is tried as long as the socket lives: without its acknowledgement the peer sends it
again. Any other is tried for a while even after the socket's end, and its loss is an event. Only what the store says of
the message itself counts against the message; that the store is away does not.
"""

import asyncio
import contextlib
import hashlib
from collections import Counter
from typing import Any

import msgspec
import structlog

from actors.backoff import Backoff
from actors.exceptions import ActorStopped, DeadlineExceeded, MailboxFull, RuntimeFault, StoreFault
from actors.messages.inbound import InboundEvent
from actors.messages.lifecycle import DeadLetterReason
from actors.messages.link import WriteInboundAck
from actors.messages.rows import Accepted, Entry, InboxState, Origin, PeerRow, Route
from actors.messages.session import InboxReady
from actors.messages.store import AcceptMessage
from actors.relay.settings import RelaySettings
from actors.runtime import Budget, Ref, Reply, System
from actors.session.key import KeyRules, session_key
from transports.relay.wire import Wire

log = structlog.get_logger("turnkeep.relay")

STORE_AWAY = (StoreFault, ActorStopped, DeadlineExceeded, MailboxFull)
"""Failures that are the store's, whatever the message."""


class Entering(msgspec.Struct):
    """A message on its way. Without a request it was refused, and is only to be acknowledged in its turn."""

    request: AcceptMessage | None
    reply: Reply[Accepted] | None
    buffer_id: str | None
    deadline: float
    """Monotonic seconds: until then it is kept if nobody sends it again."""


class Intake:
    """Takes messages from a socket's reader; ``run`` sees each of them through, in order."""

    def __init__(
        self,
        system: System,
        peer: PeerRow,
        wire: Wire,
        *,
        store: Ref,
        sessions: Ref,
        settings: RelaySettings,
        counts: Counter[str],
    ) -> None:
        self._system = system
        self._peer = peer
        self._wire = wire
        self._store = store
        self._sessions = sessions
        self._settings = settings
        self._counts = counts
        self._keys = KeyRules(
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        self._backoff = Backoff(settings.retry_base_s, settings.retry_cap_s)
        self._entering: asyncio.Queue[Entering | None] = asyncio.Queue()
        self._window = asyncio.Semaphore(settings.accept_window)
        # Set when the socket has gone.
        self._ended = asyncio.Event()
        # Tries in a row that failed for the store's own reasons.
        self._failures = 0

    async def take(self, event: InboundEvent, buffer_id: str | None) -> None:
        """Begin to accept a message; waits while as many as may be are on their way."""
        await self._window.acquire()
        deadline = self._system.clock.monotonic() + self._settings.live_retry_s
        reason = self._why_refused(event)
        if reason is not None:
            self._refuse(reason)
            self._entering.put_nowait(Entering(None, None, buffer_id, deadline))
            return
        request = self._request(event, buffer_id)
        self._entering.put_nowait(Entering(request, self._ask(request), buffer_id, deadline))

    def end(self) -> None:
        """No more will be taken: the socket has gone."""
        self._ended.set()
        self._entering.put_nowait(None)

    async def run(self) -> None:
        """See every message through; returns after ``end`` when none is left."""
        while (entering := await self._entering.get()) is not None:
            await self._finish(entering)
            self._window.release()

    # What is asked of the store

    def _why_refused(self, event: InboundEvent) -> str | None:
        """Scope and platforms come from the stored record, never from a frame."""
        if event.source.platform not in self._peer.platforms():
            return "platform not owned"
        if not self._peer.owns_scope(event.source.scope_id):
            return "scope not owned"
        return None

    def _refuse(self, reason: str) -> None:
        self._counts["not_owned"] += 1
        self._system.dead_letters.add(self._wire.path, "AcceptMessage", DeadLetterReason.REFUSED)
        self._publish("relay.inbound_refused", reason)

    def _request(self, event: InboundEvent, buffer_id: str | None) -> AcceptMessage:
        source = event.source
        body_hash = hashlib.sha256(msgspec.json.encode(event)).hexdigest() if buffer_id is not None else None
        return AcceptMessage(
            at=self._system.clock.wall(),
            inbox_id=self._system.new_id(),
            origin=Origin.RELAY,
            peer=self._peer.name,
            scope=source.scope_id,
            session_key=session_key(source, self._keys),
            new_session_id=self._system.new_id(),
            entries=(Entry(role="user", content=event.text),),
            route=Route(
                platform=source.platform,
                chat_id=source.chat_id,
                chat_type=source.chat_type,
                thread_id=source.thread_id,
                user_id=source.user_id,
                user_name=source.user_name,
                scope_id=source.scope_id,
                profile=source.profile,
                message_id=event.message_id,
            ),
            event=event,
            message_id=event.message_id,
            buffer_id=buffer_id,
            body_hash=body_hash,
        )

    def _ask(self, request: AcceptMessage) -> Reply[Accepted]:
        return self._store.ask(request, Budget.of(self._system.clock, self._settings.store_s))

    # What comes of it

    async def _finish(self, entering: Entering) -> None:
        accepted: Accepted | None = None
        if entering.request is not None:
            done, accepted = await self._see_through(entering)
            if not done:
                return
        self._system.failpoints.hit("relay.before_ack")
        if entering.buffer_id is not None:
            self._acknowledge(entering.buffer_id)
        if accepted is not None and accepted.state is InboxState.ACCEPTED:
            await self._wake(accepted.session_id)

    async def _see_through(self, entering: Entering) -> tuple[bool, Accepted | None]:
        """Return whether the peer may forget the message, and the store's answer if the store has it."""
        assert entering.request is not None
        reply, blamed = entering.reply, 0
        while True:
            try:
                self._system.failpoints.hit("relay.accept")
                accepted = await (reply or self._ask(entering.request))
            except Exception as error:
                reply = None
                if isinstance(error, STORE_AWAY):
                    self._failures += 1
                    if self._given_up(entering):
                        return False, None
                    # The first try after a failure comes at once: a store that is back has refused what was under way.
                    await self._pause(self._failures - 1)
                    continue
                blamed += 1
                if blamed > self._settings.accept_retries:
                    self._bury(error)
                    return True, None
                await self._pause(blamed)
            else:
                self._failures = 0
                self._counts["duplicate" if accepted.duplicate else "accepted"] += 1
                return True, accepted

    def _given_up(self, entering: Entering) -> bool:
        if entering.buffer_id is not None:
            return self._ended.is_set()
        if self._system.clock.monotonic() < entering.deadline:
            return False
        self._counts["lost"] += 1
        self._publish("relay.inbound_lost", "the store was away")
        return True

    def _bury(self, error: Exception) -> None:
        self._counts["dead"] += 1
        log.error("relay.inbound_dead", peer=self._peer.name, error=type(error).__name__)
        self._system.dead_letters.add(self._wire.path, "AcceptMessage", DeadLetterReason.REFUSED)
        self._publish("relay.inbound_dead", type(error).__name__)

    async def _pause(self, failures: int) -> None:
        """Wait after so many failures in a row; the socket's end cuts the wait short."""
        if not failures:
            return
        delay = self._backoff.delay(failures, self._system.random.random())
        if self._ended.is_set():
            await asyncio.sleep(delay)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._ended.wait()

    def _acknowledge(self, buffer_id: str) -> None:
        try:
            self._wire.tell(WriteInboundAck(buffer_id=buffer_id))
        except ActorStopped:
            # The peer sends it again, and gets its acknowledgement then.
            return

    async def _wake(self, session_id: str) -> None:
        """Tell the session's router. If that is busy, wait: a message that is kept must be looked at."""
        ready = InboxReady(session_id=session_id)
        while True:
            try:
                await self._sessions.send(ready, Budget.of(self._system.clock, self._settings.store_s))
            except ActorStopped:
                # The daemon is going down; its next start looks for what waits.
                return
            except RuntimeFault:
                log.warning("relay.sessions_busy", peer=self._peer.name)
            else:
                return

    def _publish(self, kind: str, reason: str) -> None:
        data: dict[str, Any] = {"peer": self._peer.name, "reason": reason}
        self._system.publish(kind, self._wire.path, data)
