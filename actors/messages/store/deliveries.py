"""Texts for chats, and the beginnings of answers."""

from actors.messages.rows import DeliveryRow, DeliveryState, NewDelivery
from actors.messages.store.request import Read, Write


class PutDelivery(Write[DeliveryRow], frozen=True, kw_only=True):
    """Keep a delivery of its own. Repeating it answers the stored row."""

    delivery: NewDelivery


class BeginAnswer(Write[DeliveryRow], frozen=True, kw_only=True):
    """
    Keep the beginning of a running turn's answer as a delivery, to be shown while the rest is being made.

    Answers the row of the message that shows a beginning to the same inbox row already, if there is one: it goes on
    there. Repeating it answers the stored row. Refused with Conflict if the turn is not running under ``turn_gen``.
    """

    turn_id: str
    turn_gen: int
    delivery: NewDelivery


class WithdrawBeginning(Write[bool], frozen=True, kw_only=True):
    """Forget a beginning that is still pending. Says whether it was never sent. Repeating it is harmless."""

    delivery_id: str


class ClaimDeliveries(Write[tuple[DeliveryRow, ...]], frozen=True, kw_only=True):
    """
    Turn pending deliveries of a peer into ``attempting`` and answer them: of each chat the oldest unsettled one.

    A chat with an attempt under way, or named in ``busy_chats``, gets none, so that chats keep their order; ``unknown``
    ones block nothing.
    """

    peer: str
    busy_chats: tuple[str, ...] = ()
    limit: int = 100


class AdvanceDelivery(Write[None], frozen=True, kw_only=True):
    """Note that ``parts_done`` pieces of a long delivery were delivered."""

    delivery_id: str
    parts_done: int


class SettleDelivery(Write[DeliveryRow], frozen=True, kw_only=True):
    """
    Leave ``attempting`` for pending (a definite failure), unknown, delivered or dead. Repeating it is harmless.

    An unknown one may still become any of these, and a pending one dead. Everything else is refused with Conflict.
    A beginning that would be pending again is forgotten: the next one says more.
    """

    delivery_id: str
    state: DeliveryState
    reason: str | None = None
    message_id: str | None = None
    attempt: int | None = None
    """The ``attempts`` of the claim that it is about: once it is claimed again, an older outcome is refused."""


class LoseAttempts(Write[int], frozen=True, kw_only=True):
    """
    At a start: what was ``attempting`` is ``unknown``, as nobody saw the outcome. Answers how many.

    Repeating it, with the same moment, answers the same.
    """


class ListDeliveries(Read[tuple[DeliveryRow, ...]], frozen=True, kw_only=True):
    """Deliveries in the given states (empty: all), newest first."""

    states: tuple[DeliveryState, ...] = ()
    peer: str | None = None
    limit: int = 100


class PeersWithDeliveries(Read[tuple[str, ...]], frozen=True, kw_only=True):
    """Names of peers for which something is pending."""
