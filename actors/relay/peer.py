"""One relay peer: its links, of which the newest counts, and its outbox."""

import contextlib
from typing import Any

import msgspec
import structlog

from actors.backoff import Backoff
from actors.exceptions import ActorStopped, Forbidden, Invalid, Refusal, RuntimeFault, Unavailable
from actors.messages.descriptor import Descriptor
from actors.messages.lifecycle import Down
from actors.messages.link import CloseLink, DescribeLink, SendAction
from actors.messages.relay import (
    AttemptsRead,
    ChatRested,
    ClaimAgain,
    CloseLinks,
    DeliveriesClaimed,
    DeliveryAdvanced,
    DeliveryReady,
    DeliverySettled,
    LinkGenDrawn,
    LinkOpened,
    LinkUp,
    ListLinks,
    OpenLink,
    PartAnswered,
    PeerRead,
    PeerRevoked,
    PerformAction,
    PlatformsKnown,
    SettleAgain,
)
from actors.messages.rows import DeliveryRow, DeliveryState, NewDelivery, PeerRole, PeerRow, Route
from actors.messages.store import (
    AdvanceDelivery,
    ClaimDeliveries,
    GetPeer,
    ListDeliveries,
    NextLinkGen,
    PutDelivery,
    SettleDelivery,
)
from actors.relay import outbox, results
from actors.relay.actions import Send, read, send_to
from actors.relay.gathering import answer_all, copy_answer
from actors.relay.link import Link
from actors.relay.link_decisions import bot_of
from actors.relay.settings import RelaySettings
from actors.relay.split import split
from actors.runtime import DEFERRED, Actor, Budget, Ref

log = structlog.get_logger("turnkeep.relay")

TAKEN_OVER = 4409
REVOKED = 4401

ASK_TIMER = "ask"
ALL_ATTEMPTS = 10_000
"""More attempts than one peer can have under way."""


class PeerLink(msgspec.Struct, frozen=True):
    """A link as its peer knows it; ``descriptors`` once the handshake is done."""

    ref: Ref
    role: PeerRole
    row: PeerRow
    descriptors: tuple[Descriptor, ...] | None = None


class RelayPeer(Actor):
    """The parent of a peer's links."""

    kind = "peer"

    def __init__(self, name: str, *, store: Ref, relays: Ref, settings: RelaySettings) -> None:
        self._name = name
        self._store = store
        self._relays = relays
        self._settings = settings
        self._backoff = Backoff(settings.retry_base_s, settings.retry_cap_s)
        # Links by their number, those that are going included.
        self._links: dict[int, PeerLink] = {}
        self._outbox = outbox.State()
        self._revoked = False
        self._holding = False

    async def on_start(self) -> None:
        """Settle what an earlier incarnation left behind."""
        self._decide(outbox.MailCame())

    async def on_receive(self, message: Any) -> Any:
        """Serve links, actions and deliveries."""
        match message:
            case OpenLink():
                return self._open(message)
            case PeerRead():
                self._draw_gen(message)
            case LinkGenDrawn():
                self._start_link(message)
            case LinkUp():
                self._link_up(message)
            case Down():
                self._link_down(message)
            case PerformAction():
                return self._perform_action(message)
            case PeerRevoked():
                self._revoked = True
                for link in self._links.values():
                    link.ref.ask(
                        CloseLink(code=REVOKED, reason="revoked"), self.ctx.within(self._settings.close_s)
                    )
            case CloseLinks():
                return self._close_links(message)
            case ListLinks():
                return self._list_links()
            case _:
                self._hear_of_deliveries(message)
        return None

    def _hear_of_deliveries(self, message: Any) -> None:
        match message:
            case DeliveryReady():
                self._decide(outbox.MailCame())
            case DeliveriesClaimed():
                self._claimed(message)
            case AttemptsRead(deliveries=deliveries) if deliveries is not None:
                self._decide(outbox.AttemptsListed(deliveries))
            case AttemptsRead():
                self._decide(outbox.AskFailed(unknown=False))
            case ClaimAgain():
                self._decide(outbox.AskDue())
            case PartAnswered(delivery_id=delivery_id, result=result):
                self._decide(outbox.PartAnswered(delivery_id, result))
            case DeliveryAdvanced(delivery_id=delivery_id):
                self._store_outcome(delivery_id)
            case DeliverySettled():
                self._settled(message)
            case SettleAgain(delivery_id=delivery_id):
                self._store_settlement(delivery_id)
            case ChatRested(chat=chat):
                self._decide(outbox.ChatRested(chat))

    # Links

    def _open(self, message: OpenLink) -> Any:
        if self._holding:
            raise Unavailable("going down", code="draining")
        if message.role is not message.peer.role:
            raise Forbidden(f"the peer is a {message.peer.role}, not a {message.role}")
        reply = self.ctx.defer()
        self.ctx.pipe(
            self._store.ask(GetPeer(name=self._name), self._store_budget()),
            lambda row: PeerRead(peer=row, request=message, reply=reply),
            lambda error: PeerRead(peer=None, request=message, reply=reply),
        )
        return DEFERRED

    def _draw_gen(self, message: PeerRead) -> None:
        row, reply = message.peer, message.reply
        if row is None:
            reply.set_exception(Unavailable("the store is away"))
            return
        if row.revoked_at is not None:
            reply.set_exception(Forbidden("revoked", code="revoked"))
            return
        # The record as it is now, not as it was when the socket was opened.
        request = msgspec.structs.replace(message.request, peer=row)
        self.ctx.pipe(
            self._store.ask(NextLinkGen(at=self.ctx.wall(), peer=self._name), self._store_budget()),
            lambda gen: LinkGenDrawn(link_gen=gen, request=request, reply=reply),
            lambda error: LinkGenDrawn(link_gen=None, request=request, reply=reply),
        )

    def _start_link(self, message: LinkGenDrawn) -> None:
        gen, request, reply = message.link_gen, message.request, message.reply
        if self._revoked:
            reply.set_exception(Forbidden("revoked", code="revoked"))
            return
        if gen is None or self._holding:
            code = "draining" if self._holding else None
            reply.set_exception(Unavailable("not now", code=code))
            return
        for older in self._links.values():
            with contextlib.suppress(ActorStopped):
                older.ref.tell(CloseLink(code=TAKEN_OVER, reason="taken over by a newer link"))
        me = self.ctx.ref
        ref = self.ctx.spawn(
            f"link-{gen}",
            lambda: Link(
                request.peer,
                request.role,
                gen,
                wire=request.wire,
                owner=me,
                relays=self._relays,
                settings=self._settings,
            ),
        )
        self._links[gen] = PeerLink(ref, request.role, request.peer)
        reply.set(LinkOpened(link=ref, link_gen=gen))

    def _link_up(self, message: LinkUp) -> None:
        link = self._links.get(message.link_gen)
        if link is None:
            return
        self._links[message.link_gen] = msgspec.structs.replace(link, descriptors=message.descriptors)
        if link.role is PeerRole.CONNECTOR:
            self._relays.tell(PlatformsKnown(peer=self._name, descriptors=message.descriptors))
            self._decide(outbox.LinkRose())

    def _link_down(self, down: Down) -> None:
        gen = int(down.path.rsplit("-", 1)[1])
        self._links.pop(gen, None)
        if self._current() is None:
            self._decide(outbox.LinkFell())

    def _current(self) -> PeerLink | None:
        """The newest connector link whose handshake is done."""
        up = [
            gen
            for gen, link in self._links.items()
            if link.role is PeerRole.CONNECTOR and link.descriptors is not None
        ]
        return self._links[max(up)] if up else None

    def _close_links(self, message: CloseLinks) -> Any:
        if message.hold:
            self._holding = True
            self._decide(outbox.Held())
        if not self._links:
            return None
        reply = self.ctx.defer()
        budget = self.ctx.budget or self.ctx.within(self._settings.disconnect_s)
        close = CloseLink(code=message.code, reason=message.reason)
        closing = [link.ref.ask(close, budget) for link in self._links.values()]
        self.ctx.run(answer_all(reply, closing, lambda answers: None), "close-links")
        return DEFERRED

    def _list_links(self) -> Any:
        reply = self.ctx.defer()
        asked = [link.ref.ask(DescribeLink(), self._store_budget()) for link in self._links.values()]
        self.ctx.run(answer_all(reply, asked, tuple), "list-links")
        return DEFERRED

    # Actions of gateways

    def _perform_action(self, message: PerformAction) -> Any:
        link = self._current()
        if link is not None:
            action = SendAction(action=message.action, platform=message.platform, bot_id=message.bot_id)
            copy_answer(link.ref.ask(action, self._send_budget()), self.ctx.defer(), results.of_error)
            return DEFERRED
        if message.action.get("op") != "send":
            return results.not_connected()
        try:
            delivery = self._delivery_of(message)
        except Invalid as invalid:
            return results.failure(invalid.message)
        stored = self._store.ask(PutDelivery(at=self.ctx.wall(), delivery=delivery), self._store_budget())
        copy_answer(stored, self.ctx.defer(), results.of_error, lambda row: {"success": True})
        # The store serves in order: should a link come up meanwhile, its claim sees the delivery.
        self._decide(outbox.MailCame())
        return DEFERRED

    def _delivery_of(self, message: PerformAction) -> NewDelivery:
        send = read(message.action, Send)
        return NewDelivery(
            delivery_id=self.ctx.system.new_id(),
            peer=self._name,
            route=Route(
                platform=message.platform,
                chat_id=send.chat_id,
                thread_id=send.metadata.thread_id,
                user_id=send.metadata.user_id,
                scope_id=send.metadata.scope_id,
                message_id=send.reply_to,
            ),
            content=send.content,
        )

    # Deliveries

    def _decide(self, event: outbox.Event) -> None:
        self._outbox, effects = outbox.step(self._outbox, event, self._settings.deliveries_max)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: outbox.Effect) -> None:
        match effect:
            case outbox.Claim(busy_chats=busy_chats, limit=limit):
                self._claim(busy_chats, limit)
            case outbox.ListAttempts():
                self._list_attempts()
            case outbox.AskLater(failures=failures):
                self.ctx.set_timer(ASK_TIMER, self._delay(failures), ClaimAgain())
            case outbox.SendPart():
                self._send_part(effect)
            case outbox.Advance(delivery_id=delivery_id, parts_done=parts_done):
                advance = AdvanceDelivery(at=self.ctx.wall(), delivery_id=delivery_id, parts_done=parts_done)
                self._store.ask(advance, self._store_budget())
            case outbox.Settle(settlement=settlement):
                self._settle(settlement)
            case outbox.RestChat(chat=chat, attempts=attempts):
                self.ctx.set_timer(f"rest:{chat}", self._delay(max(1, attempts)), ChatRested(chat=chat))
            case outbox.EndRests(chats=chats):
                for chat in chats:
                    self.ctx.cancel_timer(f"rest:{chat}")

    def _claim(self, busy_chats: tuple[str, ...], limit: int) -> None:
        request = ClaimDeliveries(at=self.ctx.wall(), peer=self._name, busy_chats=busy_chats, limit=limit)
        self.ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda rows: DeliveriesClaimed(deliveries=rows, full=len(rows) >= limit),
            lambda error: DeliveriesClaimed(deliveries=None, unknown=isinstance(error, RuntimeFault)),
        )

    def _claimed(self, message: DeliveriesClaimed) -> None:
        if message.deliveries is None:
            self._decide(outbox.AskFailed(message.unknown))
            return
        self._decide(outbox.Claimed(tuple(self._sending(row) for row in message.deliveries), message.full))

    def _sending(self, row: DeliveryRow) -> outbox.Sending:
        link = self._current()
        descriptors = link.descriptors if link is not None and link.descriptors is not None else ()
        descriptor = next((known for known in descriptors if known.platform == row.route.platform), None)
        parts = split(row.content, descriptor) if descriptor is not None else ()
        # A blank text has no parts, yet its outcome is to be seen.
        parts = parts or (row.content,)
        # Another link may count otherwise: then at least the last part is sent.
        return outbox.Sending(delivery=row, parts=parts, done=min(row.parts_done, len(parts) - 1))

    def _list_attempts(self) -> None:
        request = ListDeliveries(states=(DeliveryState.ATTEMPTING,), peer=self._name, limit=ALL_ATTEMPTS)
        self.ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda rows: AttemptsRead(deliveries=rows),
            lambda error: AttemptsRead(deliveries=None),
        )

    def _send_part(self, effect: outbox.SendPart) -> None:
        delivery_id, route = effect.delivery.delivery_id, effect.delivery.route
        link = self._current()
        if link is None:
            # Told, not decided at once: one decision must not nest in another.
            self.ctx.ref.tell(PartAnswered(delivery_id=delivery_id, result=results.not_connected()))
            return
        request = SendAction(
            action=send_to(route, effect.content, first=effect.index == 0),
            platform=route.platform,
            bot_id=bot_of(link.row, route.platform),
        )
        self.ctx.pipe(
            link.ref.ask(request, self._send_budget()),
            lambda result: PartAnswered(delivery_id=delivery_id, result=result),
            lambda error: PartAnswered(delivery_id=delivery_id, result=results.of_error(error)),
        )

    def _settle(self, settlement: outbox.Settlement) -> None:
        delivery_id = settlement.delivery_id
        if settlement.failures:
            log.warning("relay.outcome_not_stored", peer=self._name, failures=settlement.failures)
            self.ctx.set_timer(
                f"settle:{delivery_id}",
                self._delay(settlement.failures),
                SettleAgain(delivery_id=delivery_id),
            )
            return
        self._store_settlement(delivery_id)

    def _store_settlement(self, delivery_id: str) -> None:
        settlement = self._outbox.settling[delivery_id]
        if not settlement.advance:
            self._store_outcome(delivery_id)
            return
        request = AdvanceDelivery(
            at=self.ctx.wall(), delivery_id=delivery_id, parts_done=settlement.parts_done
        )
        self.ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda _: DeliveryAdvanced(delivery_id=delivery_id),
            lambda error: self._not_stored(delivery_id, error),
        )

    def _store_outcome(self, delivery_id: str) -> None:
        settlement = self._outbox.settling[delivery_id]
        request = SettleDelivery(
            at=self.ctx.wall(),
            delivery_id=delivery_id,
            state=settlement.state,
            reason=settlement.reason,
            message_id=settlement.message_id,
        )
        self.ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda row: DeliverySettled(delivery_id=delivery_id, stored=True),
            lambda error: self._not_stored(delivery_id, error),
        )

    def _not_stored(self, delivery_id: str, error: Exception) -> DeliverySettled:
        if isinstance(error, Refusal):
            # Somebody else has decided about it meanwhile; the store keeps what it has.
            log.warning("relay.outcome_refused", peer=self._name, delivery_id=delivery_id, code=error.code)
        return DeliverySettled(delivery_id=delivery_id, stored=isinstance(error, Refusal))

    def _settled(self, message: DeliverySettled) -> None:
        if not message.stored:
            self._decide(outbox.SettleFailed(message.delivery_id))
            return
        settlement = self._outbox.settling.get(message.delivery_id)
        if settlement is not None and settlement.state in (DeliveryState.UNKNOWN, DeliveryState.DEAD):
            self.ctx.publish(
                f"delivery.{settlement.state.value}",
                peer=self._name,
                delivery_id=message.delivery_id,
                reason=settlement.reason,
            )
        self._decide(outbox.Settled(message.delivery_id))

    # Budgets and waits

    def _store_budget(self) -> Budget:
        return self.ctx.within(self._settings.store_s)

    def _send_budget(self) -> Budget:
        # The link answers each request in outbound_s, whatever happens; the rest is for its mailbox.
        return self.ctx.within(self._settings.outbound_s + self._settings.disconnect_s)

    def _delay(self, attempt: int) -> float:
        return self._backoff.delay(attempt, self.ctx.system.random.random())
