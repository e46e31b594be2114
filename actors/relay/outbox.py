"""
A connector peer's deliveries as a pure machine: (state, event) → (state, effects).

Each chat has at most one delivery in hand, so that a chat keeps its order; chats go in parallel. A delivery in hand is
sending (its parts go one after the other), settling (its outcome is on its way to the store, and is sent there until
the store has it), and then gone. After a definite failure its chat rests, with a wait that doubles.

| result of a part | delivery |
|---|---|
| success | the next part; after the last one delivered |
| ambiguous | unknown: never sent again blindly, blocks nothing |
| egress declined | dead(egress_declined) |
| any other failure | pending, from that part on |

Attempts that the store has and nobody holds are settled first: unknown after a crash, as nobody saw their outcome;
pending if the answer to a claim was lost, as nothing of them was sent.
"""

import enum

import msgspec

from actors.messages.relay import Result
from actors.messages.rows import DeliveryRow, DeliveryState
from actors.relay import results


class Doubt(enum.Enum):
    """Why the store may hold attempts that are not in hand."""

    CRASH = "crash"
    """An earlier incarnation held them."""
    LOST_CLAIM = "lost_claim"
    """The answer to a claim did not come."""


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome for the store."""

    delivery_id: str
    chat: str
    state: DeliveryState
    reason: str | None = None
    message_id: str | None = None
    parts_done: int = 0
    advance: bool = False
    """Whether the store has to take ``parts_done`` first, as the rest will be sent from there."""
    attempts: int
    """Which attempt it is about."""
    failures: int = 0
    """How often the store has not taken it."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose parts are being sent. ``done`` of them have succeeded."""

    delivery: DeliveryRow
    parts: tuple[str, ...]
    done: int


class State(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides. Mappings are copied, never changed."""

    live: bool = False
    """A link is up."""
    holding: bool = False
    """The daemon drains: nothing more is claimed."""
    doubt: Doubt | None = Doubt.CRASH
    asking: bool = False
    """The store was asked for a claim, or for attempts in doubt."""
    wanted: bool = False
    """Something may be pending that no claim has looked at."""
    failures: int = 0
    """How often in a row the store has not answered."""
    waiting: bool = False
    """The wait after such a failure is not over."""
    sending: dict[str, Sending] = {}
    settling: dict[str, Settlement] = {}
    resting: frozenset[str] = frozenset()
    """Chats in the wait after a failure."""

    def busy_chats(self) -> tuple[str, ...]:
        """
        The chats from which nothing is to be claimed.

        The store serves in order, so a claim sees the outcomes that went before it. But one that makes a delivery pending
        may be given to the store again, and must not meet a later attempt: until it is stored, its chat waits.
        """
        sending = (entry.delivery.chat for entry in self.sending.values())
        pending = (entry.chat for entry in self.settling.values() if entry.state is DeliveryState.PENDING)
        return tuple({*sending, *pending, *self.resting})


# Events


class Event(msgspec.Struct, frozen=True):
    """Something that happened to the peer's deliveries."""


class LinkRose(Event, frozen=True):
    """A link has come up, or another one has taken over."""


class LinkFell(Event, frozen=True):
    """No link is up any more."""


class Held(Event, frozen=True):
    """The daemon drains."""


class MailCame(Event, frozen=True):
    """Something may be pending."""


class Claimed(Event, frozen=True):
    """The store's answer to a claim, split into parts; more may wait if it was ``full``."""

    sendings: tuple[Sending, ...]
    full: bool


class AttemptsListed(Event, frozen=True):
    """The store's answer about attempts in doubt."""

    deliveries: tuple[DeliveryRow, ...]


class AskFailed(Event, frozen=True):
    """The store did not answer a claim or a list. ``unknown``: a claim may have been made all the same."""

    unknown: bool


class AskDue(Event, frozen=True):
    """The wait after such a failure is over."""


class PartAnswered(Event, frozen=True):
    """The result of the part in hand."""

    delivery_id: str
    result: Result


class Settled(Event, frozen=True):
    """The store has taken an outcome, or refused it for good."""

    delivery_id: str


class SettleFailed(Event, frozen=True):
    """The store did not take an outcome, or did not say so in time."""

    delivery_id: str


class ChatRested(Event, frozen=True):
    """The wait after a failure in a chat is over."""

    chat: str


# Effects


class Effect(msgspec.Struct, frozen=True):
    """Something for the actor to do."""


class Claim(Effect, frozen=True):
    """Ask the store for deliveries."""

    busy_chats: tuple[str, ...]
    limit: int


class ListAttempts(Effect, frozen=True):
    """Ask the store what it holds as being attempted."""


class AskLater(Effect, frozen=True):
    """Ask again after the n-th failure in a row."""

    failures: int


class SendPart(Effect, frozen=True):
    """Send one part; the first one answers the route's message."""

    delivery: DeliveryRow
    index: int
    content: str


class Advance(Effect, frozen=True):
    """Let the store know how many parts are done."""

    delivery_id: str
    parts_done: int


class Settle(Effect, frozen=True):
    """Give an outcome to the store; after the n-th failure, with a wait."""

    settlement: Settlement


class RestChat(Effect, frozen=True):
    """Wait after the ``attempts``-th attempt in a chat."""

    chat: str
    attempts: int


class EndRests(Effect, frozen=True):
    """Forget the waits of these chats."""

    chats: frozenset[str]


Step = tuple[State, tuple[Effect, ...]]


def step(state: State, event: Event, limit: int) -> Step:
    """Return what becomes of the deliveries, and what is to be done, in order. ``limit``: how many at once."""
    new, effects = _react(state, event)
    new, asked = _ask(new, limit)
    return new, (*effects, *asked)


def _react(state: State, event: Event) -> Step:
    match event:
        case LinkRose():
            # Rests were made on what another link said.
            rose = msgspec.structs.replace(state, live=True, wanted=True, resting=frozenset())
            return rose, (EndRests(state.resting),) if state.resting else ()
        case LinkFell():
            return msgspec.structs.replace(state, live=False), ()
        case Held():
            return msgspec.structs.replace(state, holding=True), ()
        case MailCame():
            return msgspec.structs.replace(state, wanted=True), ()
        case Claimed():
            return _claimed(state, event)
        case AttemptsListed(deliveries=deliveries):
            return _listed(state, deliveries)
        case AskFailed(unknown=unknown):
            return _ask_failed(state, unknown)
        case AskDue():
            return msgspec.structs.replace(state, waiting=False), ()
        case PartAnswered():
            return _answered(state, event)
        case Settled(delivery_id=delivery_id):
            return _settled(state, delivery_id)
        case SettleFailed(delivery_id=delivery_id):
            return _settle_failed(state, delivery_id)
        case ChatRested(chat=chat):
            return msgspec.structs.replace(state, resting=state.resting - {chat}, wanted=True), ()
    raise TypeError(f"no such event: {event!r}")


def _ask(state: State, limit: int) -> Step:
    """Ask the store whenever there may be something that can be sent now. Only one question is out at a time."""
    if state.asking or state.waiting:
        return state, ()
    if state.doubt is not None:
        return msgspec.structs.replace(state, asking=True), (ListAttempts(),)
    room = limit - len(state.sending) - len(state.settling)
    if not (state.wanted and state.live and not state.holding and room > 0):
        return state, ()
    # The flag is lowered before the look, so that mail that arrives during it is looked for again.
    asking = msgspec.structs.replace(state, asking=True, wanted=False)
    return asking, (Claim(state.busy_chats(), room),)


def _ask_failed(state: State, unknown: bool) -> Step:
    failures = state.failures + 1
    doubt = state.doubt or (Doubt.LOST_CLAIM if unknown else None)
    failed = msgspec.structs.replace(
        state, asking=False, wanted=True, doubt=doubt, failures=failures, waiting=True
    )
    return failed, (AskLater(failures),)


def _claimed(state: State, event: Claimed) -> Step:
    sending = dict(state.sending)
    sends: list[Effect] = []
    for entry in event.sendings:
        sending[entry.delivery.delivery_id] = entry
        sends.append(SendPart(entry.delivery, entry.done, entry.parts[entry.done]))
    claimed = msgspec.structs.replace(
        state, asking=False, failures=0, wanted=state.wanted or event.full, sending=sending
    )
    return claimed, tuple(sends)


def _listed(state: State, deliveries: tuple[DeliveryRow, ...]) -> Step:
    crashed = state.doubt is Doubt.CRASH
    settling = dict(state.settling)
    for row in deliveries:
        if row.delivery_id in state.sending or row.delivery_id in settling:
            continue
        settling[row.delivery_id] = Settlement(
            delivery_id=row.delivery_id,
            chat=row.chat,
            state=DeliveryState.UNKNOWN if crashed else DeliveryState.PENDING,
            reason="outcome_unknown" if crashed else "claim_lost",
            attempts=row.attempts,
        )
    new = tuple(Settle(entry) for key, entry in settling.items() if key not in state.settling)
    listed = msgspec.structs.replace(
        state, asking=False, failures=0, doubt=None, wanted=True, settling=settling
    )
    return listed, new


def _answered(state: State, event: PartAnswered) -> Step:
    entry = state.sending.get(event.delivery_id)
    if entry is None:
        return state, ()
    row = entry.delivery
    if event.result.get("success") is not True:
        return _settle(state, entry, _failure(entry, event.result))
    done = entry.done + 1
    advance = (Advance(row.delivery_id, done),) if len(entry.parts) > 1 else ()
    if done < len(entry.parts):
        sending = {**state.sending, row.delivery_id: msgspec.structs.replace(entry, done=done)}
        return msgspec.structs.replace(state, sending=sending), (
            SendPart(row, done, entry.parts[done]),
            *advance,
        )
    message_id = event.result.get("message_id")
    settlement = Settlement(
        delivery_id=row.delivery_id,
        chat=row.chat,
        state=DeliveryState.DELIVERED,
        message_id=str(message_id) if message_id is not None else None,
        attempts=row.attempts,
    )
    state, effects = _settle(state, entry, settlement)
    return state, (*advance, *effects)


def _failure(entry: Sending, result: Result) -> Settlement:
    row = entry.delivery
    if result.get("ambiguous") is True:
        state, reason = DeliveryState.UNKNOWN, "outcome_unknown"
    elif results.declined(result):
        state, reason = DeliveryState.DEAD, "egress_declined"
    else:
        state, reason = DeliveryState.PENDING, "send_failed"
    return Settlement(
        delivery_id=row.delivery_id,
        chat=row.chat,
        state=state,
        reason=reason,
        parts_done=entry.done,
        advance=state is DeliveryState.PENDING and entry.done > row.parts_done,
        attempts=row.attempts,
    )


def _settle(state: State, entry: Sending, settlement: Settlement) -> Step:
    delivery_id = settlement.delivery_id
    sending = {other: kept for other, kept in state.sending.items() if other != delivery_id}
    settling = {**state.settling, delivery_id: settlement}
    new = msgspec.structs.replace(state, sending=sending, settling=settling, wanted=True)
    if settlement.state is DeliveryState.PENDING:
        chat = entry.delivery.chat
        rest = (RestChat(chat, settlement.attempts),) if state.live else ()
        resting = new.resting | {chat} if state.live else new.resting
        return msgspec.structs.replace(new, resting=resting), (Settle(settlement), *rest)
    return new, (Settle(settlement),)


def _settled(state: State, delivery_id: str) -> Step:
    entry = state.settling.get(delivery_id)
    if entry is None:
        return state, ()
    settling = {other: kept for other, kept in state.settling.items() if other != delivery_id}
    # The claim that went right behind the first try has not seen an outcome that came later, or a chat that waited.
    wanted = state.wanted or entry.failures > 0 or entry.state is DeliveryState.PENDING
    return msgspec.structs.replace(state, settling=settling, wanted=wanted), ()


def _settle_failed(state: State, delivery_id: str) -> Step:
    entry = state.settling.get(delivery_id)
    if entry is None:
        return state, ()
    again = msgspec.structs.replace(entry, failures=entry.failures + 1)
    return msgspec.structs.replace(state, settling={**state.settling, delivery_id: again}), (Settle(again),)
