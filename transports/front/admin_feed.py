"""What one connection hears of the event bus: the past at its own pace, then what comes."""

import contextlib
from collections.abc import Awaitable, Callable

from actors.exceptions import DeadlineExceeded, RuntimeFault
from actors.messages.admin import SubscribeEvents
from actors.messages.base import Message
from actors.messages.events import Event, Gap, Page, ReadBack, Subscribe, Unsubscribe
from actors.runtime import Budget, Ref, System
from transports.front import admin_frames as frames
from transports.front.admin_settings import AdminSocketSettings


class CaughtUp(Message, frozen=True, kw_only=True):
    """Everything up to ``seq`` has been told."""

    seq: int


class EventFeed:
    """
    One subscription.

    It is renewed from time to time, from where it stands: a bus that was restarted has forgotten its subscribers, and
    one that was not tells nothing twice.
    """

    def __init__(
        self,
        request: SubscribeEvents,
        *,
        system: System,
        events: Ref,
        settings: AdminSocketSettings,
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._kinds = request.kinds
        self._from_seq = request.from_seq
        self._system = system
        self._events = events
        self._settings = settings
        self._write = write
        self._port = system.port("/admin/feed", settings.queue)
        # The first page of the past, if any of it was asked for.
        self._page: Page | None = None
        # Everything before it is written, or lies in the port.
        self._next_seq = 0
        self._written = 0

    async def begin(self) -> int:
        """Subscribe, or read the first page. Return the number of the last event so far. Raises RuntimeFault."""
        if self._from_seq is None:
            return await self._subscribe(None)
        self._page = await self._read(self._from_seq)
        return self._page.last_seq

    async def run(self) -> None:
        """Write until cancelled. Raises MailboxFull once too much waits, another RuntimeFault if the past is not read."""
        if self._page is not None:
            await self._catch_up(self._page)
        while True:
            await self._pump()

    def close(self) -> None:
        """Hear nothing more."""
        self._port.close()
        with contextlib.suppress(RuntimeFault):
            self._events.tell(Unsubscribe(subscriber=self._port))

    async def _catch_up(self, page: Page) -> None:
        await self._write_past(page)
        while page.next_seq <= page.last_seq:
            page = await self._read(page.next_seq)
            await self._write_past(page)
        last = await self._subscribe(page.next_seq)
        self._port.tell(CaughtUp(seq=last))

    async def _write_past(self, page: Page) -> None:
        for entry in page.entries:
            await self._write_entry(entry)

    async def _pump(self) -> None:
        try:
            message = await self._port.receive(Budget.of(self._system.clock, self._settings.recheck_s))
        except DeadlineExceeded:
            await self._renew()
            return
        if isinstance(message, CaughtUp):
            await self._write(frames.event("events.live", message.seq, self._system.clock.wall(), {}))
        elif isinstance(message, Event | Gap):
            await self._write_entry(message)

    async def _renew(self) -> None:
        try:
            await self._subscribe(self._next_seq)
        except RuntimeFault:
            # The bus is being restarted: the next renewal finds it.
            return

    async def _write_entry(self, entry: Event | Gap) -> None:
        if isinstance(entry, Event):
            if entry.seq <= self._written:
                return
            self._written = entry.seq
            self._next_seq = max(self._next_seq, entry.seq + 1)
        await self._write(frames.happened(entry, self._system.clock.wall()))

    async def _subscribe(self, from_seq: int | None) -> int:
        last = await self._events.ask(
            Subscribe(subscriber=self._port, from_seq=from_seq, kinds=self._kinds), self._budget()
        )
        self._next_seq = max(self._next_seq, last + 1)
        return last

    async def _read(self, from_seq: int) -> Page:
        request = ReadBack(from_seq=from_seq, kinds=self._kinds, limit=self._settings.page)
        return await self._events.ask(request, self._budget())

    def _budget(self) -> Budget:
        return Budget.of(self._system.clock, self._settings.request_s)
