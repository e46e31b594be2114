"""How the end of a turn is stored, and what its chat gets of it. Pure."""

from actors.messages.rows import NewDelivery, Origin, TakenTurn, TurnState
from actors.messages.store import EndTurn
from actors.turn.state import End


def write(taken: TakenTurn, end: End, now: float) -> EndTurn:
    """Return what makes an end durable; ``now`` is unix seconds."""
    return EndTurn(
        turn_id=taken.turn_id,
        turn_gen=taken.turn_gen,
        state=end.state,
        reason=end.reason,
        text=end.text,
        tool_calls=end.tool_calls,
        interrupted_text=end.interrupted_text,
        notice=end.notice,
        usage=end.usage,
        estimated=end.estimated,
        error=end.error,
        delivery=delivery(taken, end),
        at=now,
    )


def delivery(taken: TakenTurn, end: End) -> NewDelivery | None:
    """
    Return what the chat gets: the answer, or the sentence that says why there is none (CHAT-1).

    Where a beginning was shown, that stays with its marker; of a cancelled turn nothing else is said.
    """
    if taken.origin is not Origin.RELAY or taken.route is None:
        return None
    content, in_place = end.text or end.notice or "", None
    if end.state is TurnState.CANCELLED:
        content, in_place = "", end.text
    elif end.interrupted_text is not None:
        in_place = f"{end.interrupted_text}\n\n{end.notice}"
    if not (content or in_place):
        return None
    # Named after the turn, so that a repeated end stores no second one.
    delivery_id = f"{taken.turn_id}-answer-{taken.turn_gen}"
    return NewDelivery(
        delivery_id=delivery_id,
        peer=taken.peer,
        route=taken.route,
        content=content,
        in_place=in_place,
    )
