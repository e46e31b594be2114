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

The end of an answer whose beginning is shown edits that message with its first part, unless it shows that already. While
an edit of the message is on its way, or too short a time ago, it waits for that. An edit that the peer refuses is no
failure yet: the whole is sent instead, unless the message may show it; or the edit is pending, a few times, if the peer
only wants it later.

Attempts that the store has and nobody holds are settled first: unknown after a crash, as nobody saw their outcome;
pending if the answer to a claim was lost, as nothing of them was sent.
"""

import msgspec

from actors.messages.relay import Result
from actors.messages.rows import DeliveryRow, DeliveryState
from actors.relay import results
from actors.relay.outbox_state import (
    Advance,
    AskDue,
    AskFailed,
    AskLater,
    AttemptsListed,
    ChatRested,
    Claim,
    Claimed,
    Doubt,
    EditBegan,
    EditDone,
    EditOver,
    Effect,
    EndRests,
    Event,
    Held,
    LinkFell,
    LinkRose,
    ListAttempts,
    MailCame,
    PartAnswered,
    Place,
    RestChat,
    Sending,
    Settle,
    Settled,
    SettleFailed,
    Settlement,
    Shown,
    State,
)

EDIT_TRIES = 3
"""How often an edit that a peer wants to be asked for later is tried before the whole is sent."""

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
        case EditBegan(place=place, text=text):
            editing = msgspec.structs.replace(state, editing=state.editing | {place})
            return _show(editing, place, Shown(text, sure=False)), ()
        case EditDone(place=place):
            return _edit_done(state, place)
        case EditOver():
            return _edit_over(state, event)
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
    state = msgspec.structs.replace(state, asking=False, failures=0, wanted=state.wanted or event.full)
    effects: list[Effect] = []
    for entry in event.sendings:
        if entry.place is not None and state.showing.get(entry.place) == Shown(entry.parts[0], sure=True):
            state, more = _part_done(state, entry, None)
        elif entry.place in state.editing:
            state, more = _hold(state, msgspec.structs.replace(entry, waits=True)), ()
        elif entry.place is not None and not entry.editable:
            state, more = _send_instead(state, entry)
        else:
            state, more = _hold(state, entry), (entry.send(),)
        effects += more
    return state, tuple(effects)


def _hold(state: State, entry: Sending) -> State:
    return msgspec.structs.replace(state, sending={**state.sending, entry.delivery.delivery_id: entry})


def _show(state: State, place: Place, shown: Shown | None) -> State:
    showing = {other: known for other, known in state.showing.items() if other != place}
    return msgspec.structs.replace(state, showing={**showing, place: shown} if shown is not None else showing)


def _waiting(state: State, place: Place) -> Sending | None:
    # A chat has one delivery in hand.
    return next((one for one in state.sending.values() if one.waits and one.place == place), None)


def _edit_done(state: State, place: Place) -> Step:
    shown = state.showing.get(place)
    if shown is None:
        return state, ()
    state = _show(state, place, Shown(shown.text, sure=True))
    entry = _waiting(state, place)
    if entry is None or entry.parts[0] != shown.text:
        return state, ()
    return _part_done(state, msgspec.structs.replace(entry, waits=False), None)


def _edit_over(state: State, event: EditOver) -> Step:
    place = event.place
    state = msgspec.structs.replace(state, editing=state.editing - {place})
    if event.unsent:
        state = _show(state, place, None)
    entry = _waiting(state, place)
    if entry is None:
        return state, ()
    entry = msgspec.structs.replace(entry, waits=False)
    if entry.whole and not (event.answered and entry.editable):
        return _send_instead(state, entry)
    return _hold(state, entry), (entry.send(),)


def _send_instead(state: State, entry: Sending) -> Step:
    """Send the whole in the place of an edit; if the message may show it all, it is not said blindly a second time."""
    assert entry.place is not None
    if entry.whole == entry.parts == (_text(state.showing.get(entry.place)),):
        return _settle(state, entry, _failure(entry, results.timed_out(ambiguous=True)))
    entry = entry.instead()
    return _hold(state, entry), (entry.send(),)


def _text(shown: Shown | None) -> str | None:
    return shown.text if shown is not None else None


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
    if event.result.get("success") is not True:
        if _says_no_to_edit(entry, event.result) and entry.whole:
            return _send_instead(state, entry)
        return _settle(state, entry, _failure(entry, event.result))
    return _part_done(state, entry, event.result.get("message_id"))


def _part_done(state: State, entry: Sending, message_id: object) -> Step:
    row, done = entry.delivery, entry.done + 1
    if message_id is None and entry.place is not None:
        message_id = entry.edits
    advance = (Advance(row.delivery_id, done),) if len(entry.parts) > 1 else ()
    if done < len(entry.parts):
        entry = msgspec.structs.replace(entry, done=done)
        return _hold(state, entry), (entry.send(), *advance)
    settlement = Settlement(
        delivery_id=row.delivery_id,
        chat=row.chat,
        state=DeliveryState.DELIVERED,
        message_id=str(message_id) if message_id is not None else None,
        attempts=row.attempts,
    )
    if row.begins and settlement.message_id is not None:
        state = _show(state, (row.chat, settlement.message_id), Shown(entry.parts[0], sure=True))
    state, effects = _settle(state, entry, settlement)
    return state, (*advance, *effects)


def _says_no_to_edit(entry: Sending, result: Result) -> bool:
    if entry.place is None or result.get("ambiguous") is True or results.unsent(result):
        return False
    return results.wait_asked(result) is None or entry.delivery.attempts >= EDIT_TRIES


def _failure(entry: Sending, result: Result) -> Settlement:
    row = entry.delivery
    if result.get("ambiguous") is True:
        state, reason = DeliveryState.UNKNOWN, "outcome_unknown"
    elif _says_no_to_edit(entry, result):
        state, reason = DeliveryState.DEAD, "edit_refused"
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
        rest_s=results.wait_asked(result) or 0.0,
        attempts=row.attempts,
    )


def _settle(state: State, entry: Sending, settlement: Settlement) -> Step:
    delivery_id = settlement.delivery_id
    sending = {other: kept for other, kept in state.sending.items() if other != delivery_id}
    settling = {**state.settling, delivery_id: settlement}
    new = msgspec.structs.replace(state, sending=sending, settling=settling, wanted=True)
    if entry.edits is not None and settlement.state is not DeliveryState.PENDING:
        new = _show(new, (entry.delivery.chat, entry.edits), None)
    if settlement.state is DeliveryState.PENDING:
        chat = entry.delivery.chat
        rest = (RestChat(chat, settlement.attempts, settlement.rest_s),) if state.live else ()
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
