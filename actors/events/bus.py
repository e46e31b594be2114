"""/events: numbers what is published, tells it to subscribers, and keeps it in memory and, a little later, in the store."""

from collections.abc import Iterable
from typing import Any

import structlog

from actors.backoff import Backoff
from actors.events.ring import Ring, position, told, wanted
from actors.events.settings import EventSettings
from actors.exceptions import ActorStopped, RuntimeFault, TurnkeepError
from actors.messages.base import ControlMessage
from actors.messages.events import Event, Gap, Page, Publish, ReadBack, Subscribe, Unsubscribe
from actors.messages.lifecycle import DownReason
from actors.messages.store import AppendEvents, LastEventSeq, ReadEvents, ReadEventsBefore
from actors.runtime import DEFERRED, Actor, Address, Ref, Reply

log = structlog.get_logger("turnkeep.events")

FLUSH = "flush"

OPENED = "events.opened"
"""The first event of each incarnation, stored before it takes any other: a record is never empty from then on."""

CLOSED = "events.closed"
"""The last event of an ordered stop: everything before it is stored."""

SKIPPED_NUMBERS = 1_000_000
"""
Left out after a stop that was not ordered: subscribers may have seen numbers that the store never got, and a number
given twice would hide a gap. A replay across the hole says ``gap``.
"""


class FlushDue(ControlMessage, frozen=True, kw_only=True):
    """Events have waited long enough to be stored."""


class BatchStored(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a batch that ended with ``seq``."""

    seq: int
    stored: bool


class PastRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a subscriber that is behind the ring; None if it failed."""

    subscription: "Subscription"
    events: tuple[Event, ...] | None


class PageRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a ReadBack from behind the ring; None if it failed."""

    request: ReadBack
    from_seq: int
    reply: Reply[Page] | None
    events: tuple[Event, ...] | None


class Subscription:
    """Who gets which kinds, and the number that it has not been told yet."""

    def __init__(self, subscriber: Address, kinds: tuple[str, ...], next_seq: int) -> None:
        self.subscriber = subscriber
        self.kinds = kinds
        self.next_seq = next_seq


class EventBus(Actor):
    """Never waits for a subscriber or for the store: the one that falls behind loses, and is told or counted."""

    kind = "events"

    def __init__(self, *, store: Ref, settings: EventSettings) -> None:
        self._store = store
        self._settings = settings
        self._backoff = Backoff(settings.retry_base_s, settings.retry_cap_s)
        self._ring = Ring(settings.kept, 0)
        # Subscribers that have been told everything so far.
        self._live: list[Subscription] = []
        # Those that are still being told what the ring does not hold any more.
        self._behind: list[Subscription] = []
        # Whether a flush is set or under way.
        self._flushing = False
        self._failures = 0

    async def on_start(self) -> None:
        """Go on numbering where the store's record ends, and take what was published so far."""
        await self.ctx.system.failpoints.reach("events.start")
        budget = self.ctx.within(self._settings.store_s)
        last = await self._store.ask(LastEventSeq(), budget)
        newest = await self._store.ask(ReadEvents(from_seq=last, limit=1), budget)
        ordered = not newest or newest[-1].kind == CLOSED
        self._ring = Ring(self._settings.kept, last if ordered else last + SKIPPED_NUMBERS)
        opened = self._ring.add(self._own(OPENED, ordered=ordered))
        await self._store.ask(AppendEvents(at=self.ctx.wall(), events=(opened,)), budget)
        self._ring.mark_stored(opened.seq)
        self.ctx.system.publish_to(self.ctx.ref)

    async def on_receive(self, message: Any) -> Any:
        """Publish, subscribe, or go on with a flush or a replay."""
        match message:
            case Publish():
                self._publish(message)
            case Subscribe():
                return self._subscribe(message)
            case Unsubscribe(subscriber=subscriber):
                self._forget(subscriber)
            case ReadBack():
                return self._read_back(message)
            case FlushDue():
                self._flush()
            case BatchStored():
                self._batch_stored(message)
            case PastRead():
                self._past_read(message)
            case PageRead():
                self._page_read(message)
        return None

    async def on_stop(self, reason: DownReason) -> None:
        """Store what is left, and note that nothing is missing."""
        # What is published from here on waits for the next incarnation, if there is one.
        self.ctx.system.publish_to(None)
        self._publish(self._own(CLOSED))
        budget = self.ctx.within(self._settings.store_s)
        while batch := self._ring.unstored(self._settings.batch):
            try:
                await self._store.ask(AppendEvents(at=self.ctx.wall(), events=batch), budget)
            except TurnkeepError as error:
                log.warning("events.not_stored", error=type(error).__name__, events=len(batch))
                return
            self._ring.mark_stored(batch[-1].seq)

    # Publishing

    def _own(self, kind: str, **data: bool) -> Publish:
        return Publish(kind=kind, path=self.ctx.path, data={**data}, at=self.ctx.wall())

    def _publish(self, message: Publish) -> None:
        event = self._ring.add(message)
        for subscription in list(self._live):
            subscription.next_seq = event.seq + 1
            if wanted(event.kind, subscription.kinds):
                self._tell(subscription, (event,))
        self._arm(self._settings.flush_s)

    # The store

    def _arm(self, delay: float) -> None:
        if not self._flushing:
            self._flushing = True
            self.ctx.set_timer(FLUSH, delay, FlushDue())

    def _flush(self) -> None:
        self.ctx.system.failpoints.hit("events.flush")
        batch = self._ring.unstored(self._settings.batch)
        seq = batch[-1].seq
        self.ctx.pipe(
            self._store.ask(
                AppendEvents(at=self.ctx.wall(), events=batch), self.ctx.within(self._settings.store_s)
            ),
            lambda _: BatchStored(seq=seq, stored=True),
            lambda error: BatchStored(seq=seq, stored=False),
        )

    def _batch_stored(self, message: BatchStored) -> None:
        self.ctx.system.failpoints.hit("events.stored")
        self._flushing = False
        if not message.stored:
            self._failures += 1
            self._arm(self._backoff.delay(self._failures, self.ctx.system.random.random()))
            return
        self._failures = 0
        self._ring.mark_stored(message.seq)
        if lost := self._ring.take_lost():
            log.warning("events.lost", events=lost)
            self.ctx.publish("events.lost", events=lost)
        unstored = len(self._ring.unstored(self._settings.batch))
        if unstored:
            self._arm(0.0 if unstored == self._settings.batch else self._settings.flush_s)

    # Subscribers

    def _subscribe(self, message: Subscribe) -> int:
        self._forget(message.subscriber)
        last = self._ring.last_seq
        subscription = Subscription(message.subscriber, message.kinds, position(message.from_seq, last))
        if subscription.next_seq > last + 1:
            # Its numbers are not of this record: a database that was put back, for example.
            self._skip_to(subscription, last + 1)
        self._catch_up(subscription)
        return last

    def _catch_up(self, subscription: Subscription) -> None:
        if self._ring.holds(subscription.next_seq):
            self._live.append(subscription)
            self._tell_past(subscription, self._ring.since(subscription.next_seq))
            subscription.next_seq = self._ring.last_seq + 1
            return
        self._behind.append(subscription)
        self.ctx.pipe(
            self._ask_past(subscription.next_seq, self._settings.batch),
            lambda events: PastRead(subscription=subscription, events=events),
            lambda error: PastRead(subscription=subscription, events=None),
        )

    def _past_read(self, message: PastRead) -> None:
        subscription = message.subscription
        if subscription not in self._behind:
            return
        if message.events:
            self._tell_past(subscription, message.events)
            subscription.next_seq = message.events[-1].seq + 1
        else:
            self._skip_to(subscription, self._ring.first_seq)
        # Unless it was dropped as it did not take what it was told.
        if subscription in self._behind:
            self._behind.remove(subscription)
            self._catch_up(subscription)

    def _tell_past(self, subscription: Subscription, events: Iterable[Event]) -> None:
        self._tell(subscription, told(events, subscription.next_seq, subscription.kinds))

    def _skip_to(self, subscription: Subscription, seq: int) -> None:
        subscription.next_seq = seq
        self._tell(subscription, (Gap(next_seq=seq),))

    def _tell(self, subscription: Subscription, entries: Iterable[Event | Gap]) -> None:
        try:
            for entry in entries:
                subscription.subscriber.tell(entry)
        except RuntimeFault as fault:
            self._forget(subscription.subscriber)
            if not isinstance(fault, ActorStopped):
                log.warning("events.subscriber_dropped", path=subscription.subscriber.path)
                # By way of its own mailbox: the others have not all been told the event in hand.
                self.ctx.publish("events.subscriber_dropped", subscriber=subscription.subscriber.path)

    def _forget(self, subscriber: Address) -> None:
        self._live = [one for one in self._live if one.subscriber is not subscriber]
        self._behind = [one for one in self._behind if one.subscriber is not subscriber]

    # Reading back

    def _read_back(self, message: ReadBack) -> Any:
        last = self._ring.last_seq
        from_seq = min(position(message.from_seq, last), last + 1)
        if self._ring.holds(from_seq):
            return self._page(message, from_seq, self._ring.since(from_seq, message.limit))
        reply = self.ctx.defer()
        past = (
            self._ask_before(self._ring.first_seq - from_seq, message.limit)
            if message.from_seq < 0
            else self._ask_past(from_seq, message.limit)
        )
        self.ctx.pipe(
            past,
            lambda events: PageRead(request=message, from_seq=from_seq, reply=reply, events=events),
            lambda error: PageRead(request=message, from_seq=from_seq, reply=reply, events=None),
        )
        return DEFERRED

    def _page_read(self, message: PageRead) -> None:
        # The store has failed, or forgotten: what is left is in the ring.
        events = message.events or self._ring.since(message.from_seq, message.request.limit)
        from_seq = message.from_seq
        if message.request.from_seq < 0 and events:
            # What is counted back to is what there is: nothing is missing before it.
            from_seq = events[0].seq
        if message.reply is not None:
            message.reply.set(self._page(message.request, from_seq, events))

    def _page(self, request: ReadBack, from_seq: int, events: tuple[Event, ...]) -> Page:
        last = self._ring.last_seq
        if events:
            entries = told(events, from_seq, request.kinds)
            return Page(entries=entries, next_seq=events[-1].seq + 1, last_seq=last)
        gap = (Gap(next_seq=last + 1),) if from_seq <= last else ()
        return Page(entries=gap, next_seq=last + 1, last_seq=last)

    def _ask_before(self, count: int, limit: int) -> Reply[tuple[Event, ...]]:
        """Ask for so many of those that the ring does not hold any more."""
        before = ReadEventsBefore(seq=self._ring.first_seq, count=count, limit=limit)
        return self._store.ask(before, self.ctx.within(self._settings.store_s))

    def _ask_past(self, from_seq: int, limit: int) -> Reply[tuple[Event, ...]]:
        return self._store.ask(
            ReadEvents(from_seq=from_seq, limit=limit), self.ctx.within(self._settings.store_s)
        )
