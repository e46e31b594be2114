"""Performs what a peer's outbox decides: asks the store and the link, and turns their answers into its events."""

from collections.abc import Callable
from typing import Any

import structlog

from actors.backoff import Backoff
from actors.exceptions import Refusal, RuntimeFault
from actors.messages.descriptor import Descriptor
from actors.messages.link import SendAction
from actors.messages.relay import (
    AnswerEdited,
    AttemptsRead,
    ChatRested,
    ClaimAgain,
    DeliveriesClaimed,
    DeliveryAdvanced,
    DeliveryReady,
    DeliverySettled,
    EditSpaced,
    PartAnswered,
    RunningRead,
    SettleAgain,
    ShowAnswer,
    ShowDue,
)
from actors.messages.rows import DeliveryRow, DeliveryState
from actors.messages.store import AdvanceDelivery, ClaimDeliveries, ListDeliveries, SettleDelivery
from actors.relay import outbox, outbox_state, results
from actors.relay.actions import edit_of, send_to
from actors.relay.link_decisions import bot_of
from actors.relay.live_answers import LiveAnswers
from actors.relay.peer_link import PeerLink, send_budget
from actors.relay.settings import RelaySettings
from actors.relay.split import split
from actors.runtime import Address, Budget, Context, Ref

log = structlog.get_logger("turnkeep.relay")

ASK_TIMER = "ask"
ALL_ATTEMPTS = 10_000
"""More attempts than one peer can have under way."""


class Courier:
    """The deliveries of one peer, within its actor. ``current`` tells the link that counts, if there is one."""

    def __init__(
        self,
        ctx: Context,
        name: str,
        *,
        store: Ref,
        sessions: Address,
        settings: RelaySettings,
        current: Callable[[], PeerLink | None],
    ) -> None:
        self._ctx = ctx
        self._name = name
        self._store = store
        self._settings = settings
        self._current = current
        self._backoff = Backoff(settings.retry_base_s, settings.retry_cap_s)
        self._outbox = outbox_state.State()
        self.live = LiveAnswers(
            ctx,
            name,
            store=store,
            sessions=sessions,
            settings=settings,
            current=current,
            decide=self.decide,
        )
        # What an earlier incarnation left behind is settled first.
        self.decide(outbox_state.MailCame())

    def hear(self, message: Any) -> None:
        """Take an answer, a timer or the news of a delivery; anything else is not for it."""
        match message:
            case ShowAnswer():
                self.live.want(message)
            case ShowDue(turn_id=turn_id):
                self.live.show(turn_id)
            case RunningRead():
                self.live.show_running(message)
            case AnswerEdited():
                self.live.edited(message)
            case EditSpaced():
                self.live.spaced(message)
            case DeliveryReady():
                self.decide(outbox_state.MailCame())
            case DeliveriesClaimed():
                self._claimed(message)
            case AttemptsRead(deliveries=deliveries) if deliveries is not None:
                self.decide(outbox_state.AttemptsListed(deliveries))
            case AttemptsRead():
                self.decide(outbox_state.AskFailed(unknown=False))
            case ClaimAgain():
                self.decide(outbox_state.AskDue())
            case PartAnswered(delivery_id=delivery_id, result=result):
                self._ctx.system.failpoints.hit("relay.result")
                self.decide(outbox_state.PartAnswered(delivery_id, result))
            case DeliveryAdvanced(delivery_id=delivery_id):
                self._store_outcome(delivery_id)
            case DeliverySettled():
                self._settled(message)
            case SettleAgain(delivery_id=delivery_id):
                self._store_settlement(delivery_id)
            case ChatRested(chat=chat):
                self.decide(outbox_state.ChatRested(chat))

    def decide(self, event: outbox_state.Event) -> None:
        """Let something happen to the deliveries."""
        self._outbox, effects = outbox.step(self._outbox, event, self._settings.deliveries_max)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: outbox_state.Effect) -> None:
        match effect:
            case outbox_state.Claim(busy_chats=busy_chats, limit=limit):
                self._claim(busy_chats, limit)
            case outbox_state.ListAttempts():
                self._list_attempts()
            case outbox_state.AskLater(failures=failures):
                self._ctx.set_timer(ASK_TIMER, self._delay(failures), ClaimAgain())
            case outbox_state.SendPart():
                self._send_part(effect)
            case outbox_state.Advance(delivery_id=delivery_id, parts_done=parts_done):
                advance = AdvanceDelivery(at=self._ctx.wall(), delivery_id=delivery_id, parts_done=parts_done)
                self._store.ask(advance, self._store_budget())
            case outbox_state.Settle(settlement=settlement):
                self._settle(settlement)
            case outbox_state.RestChat(chat=chat, attempts=attempts, at_least=at_least):
                rest = max(self._delay(attempts), min(at_least, self._settings.retry_cap_s))
                self._ctx.set_timer(f"rest:{chat}", rest, ChatRested(chat=chat))
            case outbox_state.EndRests(chats=chats):
                for chat in chats:
                    self._ctx.cancel_timer(f"rest:{chat}")

    def _claim(self, busy_chats: tuple[str, ...], limit: int) -> None:
        self._ctx.system.failpoints.hit("relay.claim")
        request = ClaimDeliveries(at=self._ctx.wall(), peer=self._name, busy_chats=busy_chats, limit=limit)
        self._ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda rows: DeliveriesClaimed(deliveries=rows, full=len(rows) >= limit),
            lambda error: DeliveriesClaimed(deliveries=None, unknown=isinstance(error, RuntimeFault)),
        )

    def _claimed(self, message: DeliveriesClaimed) -> None:
        if message.deliveries is None:
            self.decide(outbox_state.AskFailed(message.unknown))
            return
        for row in message.deliveries:
            self.live.claimed(row)
        self.decide(
            outbox_state.Claimed(tuple(self._sending(row) for row in message.deliveries), message.full)
        )

    def _sending(self, row: DeliveryRow) -> outbox_state.Sending:
        link, platform = self._current(), row.route.platform
        descriptor = link.describes(platform) if link is not None else None
        in_place_only = row.in_place is not None and not row.content
        whole = () if in_place_only else _parts(row.content, descriptor)
        if row.edits is None and whole:
            # Of a beginning one message is shown; another link may count otherwise.
            parts = whole[:1] if row.begins else whole
        else:
            parts = _parts(row.in_place or row.content, descriptor)
        # Another link may count otherwise: then at least the last part is sent.
        done = min(row.parts_done, len(parts) - 1)
        editable = link is None or not whole or self.live.can_edit(link, platform)
        return outbox_state.Sending(
            delivery=row, parts=parts, done=done, edits=row.edits, whole=whole, editable=editable
        )

    def _list_attempts(self) -> None:
        request = ListDeliveries(states=(DeliveryState.ATTEMPTING,), peer=self._name, limit=ALL_ATTEMPTS)
        self._ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda rows: AttemptsRead(deliveries=rows),
            lambda error: AttemptsRead(deliveries=None),
        )

    def _send_part(self, effect: outbox_state.SendPart) -> None:
        self._ctx.system.failpoints.hit("relay.deliver")
        delivery_id, route = effect.delivery.delivery_id, effect.delivery.route
        link = self._current()
        if link is None:
            # Told, not decided at once: one decision must not nest in another.
            self._ctx.ref.tell(PartAnswered(delivery_id=delivery_id, result=results.not_connected()))
            return
        if effect.edits is not None:
            action = edit_of(route, effect.edits, effect.content)
        else:
            action = send_to(route, effect.content, first=effect.index == 0)
        request = SendAction(
            action=action,
            platform=route.platform,
            bot_id=bot_of(link.row, route.platform),
        )
        self._ctx.pipe(
            link.ref.ask(request, send_budget(self._ctx, self._settings)),
            lambda result: PartAnswered(delivery_id=delivery_id, result=result),
            lambda error: PartAnswered(delivery_id=delivery_id, result=results.of_error(error)),
        )

    def _settle(self, settlement: outbox_state.Settlement) -> None:
        delivery_id = settlement.delivery_id
        if settlement.failures:
            log.warning("relay.outcome_not_stored", peer=self._name, failures=settlement.failures)
            self._ctx.set_timer(
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
            at=self._ctx.wall(), delivery_id=delivery_id, parts_done=settlement.parts_done
        )
        self._ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda _: DeliveryAdvanced(delivery_id=delivery_id),
            lambda error: self._not_stored(delivery_id, error),
        )

    def _store_outcome(self, delivery_id: str) -> None:
        self._ctx.system.failpoints.hit("relay.settle")
        settlement = self._outbox.settling[delivery_id]
        request = SettleDelivery(
            at=self._ctx.wall(),
            delivery_id=delivery_id,
            state=settlement.state,
            reason=settlement.reason,
            message_id=settlement.message_id,
            attempt=settlement.attempts,
        )
        self._ctx.pipe(
            self._store.ask(request, self._store_budget()),
            lambda row: DeliverySettled(delivery_id=delivery_id, stored=True, row=row),
            lambda error: self._not_stored(delivery_id, error),
        )

    def _not_stored(self, delivery_id: str, error: Exception) -> DeliverySettled:
        if isinstance(error, Refusal):
            # Somebody else has decided about it meanwhile; the store keeps what it has.
            log.warning("relay.outcome_refused", peer=self._name, delivery_id=delivery_id, code=error.code)
        return DeliverySettled(delivery_id=delivery_id, stored=isinstance(error, Refusal))

    def _settled(self, message: DeliverySettled) -> None:
        if not message.stored:
            self.decide(outbox_state.SettleFailed(message.delivery_id))
            return
        if message.row is not None:
            self.live.settled(message.row)
        settlement = self._outbox.settling.get(message.delivery_id)
        if settlement is not None and settlement.state in (DeliveryState.UNKNOWN, DeliveryState.DEAD):
            self._ctx.publish(
                f"delivery.{settlement.state.value}",
                peer=self._name,
                delivery_id=message.delivery_id,
                reason=settlement.reason,
            )
        self.decide(outbox_state.Settled(message.delivery_id))

    # Budgets and waits

    def _store_budget(self) -> Budget:
        return self._ctx.within(self._settings.store_s)

    def _delay(self, attempt: int) -> float:
        return self._backoff.delay(attempt, self._ctx.system.random.random())


def _parts(content: str, descriptor: Descriptor | None) -> tuple[str, ...]:
    parts = split(content, descriptor) if descriptor is not None else ()
    # A blank text has no parts, yet its outcome is to be seen.
    return parts or (content,)
