"""
What becomes of turns that a restart or a crash left unfinished: pure.

| turn | asked by | becomes |
|---|---|---|
| admitted | an HTTP client that waited for it | cancelled(client_gone): its client went with the process (API-12) |
| admitted | anybody else | stays: its message is turned |
| running | – | interrupted, with what was flushed of it; its chat is told (TRN-54, CHAT-1) |
| running, ``retry``, first try, detached | – | interrupted, and its message is queued again, once |
"""

from typing import Any

from actors.messages.rows import NewDelivery, Origin, Route, Row, TurnRow, TurnState
from actors.messages.store import BuryMessage, EndTurn, Write
from actors.notifier.notice import Cause, notice


class CutTurn(Row, frozen=True, kw_only=True):
    """A turn that was cut off: what its end needs to know."""

    turn_id: str
    turn_gen: int
    origin: Origin
    peer: str
    route: Route | None
    partial: str = ""
    """What was flushed of it."""


MAX_TRIES = 1
"""How often a message may have been turned before it is queued again."""

INTERRUPTED_MARK = "[interrupted by restart]"


def recover(
    unfinished: tuple[tuple[TurnRow, str, Route | None], ...], *, policy: str, clients_gone: bool, now: float
) -> tuple[Write[Any], ...]:
    """
    Return the writes that settle the turns, in order. ``now`` is unix seconds.

    ``clients_gone`` says whether the process is a new one, so that no HTTP client of before can still be waiting.
    """
    writes: list[Write[Any]] = []
    for turn, peer, route in unfinished:
        if turn.state is TurnState.ADMITTED:
            if clients_gone and turn.origin is Origin.API and not turn.detached:
                writes.append(BuryMessage(inbox_id=turn.inbox_id, reason="client_gone", at=now))
            continue
        again = (
            policy == "retry" and turn.tries <= MAX_TRIES and (turn.detached or turn.origin is not Origin.API)
        )
        cut = CutTurn(
            turn_id=turn.turn_id,
            turn_gen=turn.turn_gen,
            origin=turn.origin,
            peer=peer,
            route=route,
            partial=turn.partial,
        )
        writes.append(interruption(cut, Cause.RESTART if clients_gone else Cause.CRASH, again, now))
    return tuple(writes)


def reclaim(turn: TurnRow, now: float) -> EndTurn:
    """
    Return the end of a turn whose beginning nobody saw, as its answer came too late: its message is given back.

    Its backend was never asked, so that the message is turned again however often this happens.
    """
    return EndTurn(
        turn_id=turn.turn_id,
        turn_gen=turn.turn_gen,
        state=TurnState.INTERRUPTED,
        reason="unseen",
        again=True,
        at=now,
    )


def interruption(cut: CutTurn, cause: Cause, again: bool, now: float) -> EndTurn:
    """Return the end of a turn that was cut off; its chat is told unless the message is turned ``again``."""
    text = notice(cause)
    interrupted_text = f"{cut.partial}\n\n{INTERRUPTED_MARK}" if cut.partial else None
    delivery = None
    if cut.origin is Origin.RELAY and cut.route is not None and not again:
        # Named after the turn, so that a repeated end stores no second one.
        name = f"{cut.turn_id}-notice-{cut.turn_gen}"
        delivery = NewDelivery(
            delivery_id=name,
            peer=cut.peer,
            route=cut.route,
            content=text,
            in_place=f"{interrupted_text}\n\n{text}" if interrupted_text is not None else None,
        )
    return EndTurn(
        turn_id=cut.turn_id,
        turn_gen=cut.turn_gen,
        state=TurnState.INTERRUPTED,
        reason=str(cause),
        interrupted_text=interrupted_text,
        notice=None if again else text,
        delivery=delivery,
        again=again,
        at=now,
    )
