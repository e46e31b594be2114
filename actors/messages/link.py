"""What a link hears from its socket and its owner, and what it tells the socket's writer. No wire shapes here."""

import enum
from typing import Any

from actors.messages.base import ControlMessage, ControlRequest, Message, Request
from actors.messages.descriptor import Descriptor
from actors.messages.relay import LinkInfo, Result


class LinkState(enum.IntEnum):
    """The life of a link, in order."""

    HANDSHAKE = 0
    LIVE = 1
    GOING_IDLE = 2
    """The peer asked to get nothing live any more."""
    DRAINING = 3
    """No new request; those pending may still be answered."""
    CLOSING = 4
    CLOSED = 5


# From the socket's reader


class PeerHello(Message, frozen=True, kw_only=True):
    """A gateway names one identity; the first is the session default."""

    platform: str
    bot_id: str


class PeerDescribed(Message, frozen=True, kw_only=True):
    """A connector describes one platform."""

    descriptor: Descriptor


class ActionAsked(Message, frozen=True, kw_only=True):
    """A gateway's outbound; without platform and bot the session default is meant."""

    request_id: str
    action: dict[str, Any]
    platform: str | None
    bot_id: str | None


class ResultArrived(ControlMessage, frozen=True, kw_only=True):
    """A connector's answer; it overtakes, as results bypass what waits (RLY-13)."""

    request_id: str
    result: Result


class InterruptAsked(ControlMessage, frozen=True, kw_only=True):
    """The peer wants one session's turn stopped."""

    session_key: str
    chat_id: str | None = None


class GoingIdleAsked(Message, frozen=True, kw_only=True):
    """A gateway wants to be buffered for."""


class Written(ControlMessage, frozen=True, kw_only=True):
    """The frame of a request may have reached the wire: from here on a loss is ambiguous (RLY-10)."""

    request_id: str


class WireClosed(ControlMessage, frozen=True, kw_only=True):
    """The socket is gone."""

    code: int
    reason: str = ""


# From the link's owner


class SendAction(Request[Result], frozen=True, kw_only=True):
    """
    Send an action and answer with its result. Failures are results (RLY-4, 5, 9, 10): ``ambiguous`` marks those after
    which the action may have been done.
    """

    action: dict[str, Any]
    platform: str
    bot_id: str | None = None


class CloseLink(ControlRequest[None], frozen=True, kw_only=True):
    """Drain what is pending within the budget, fail the rest, close the socket. A second one does nothing (RLY-8)."""

    code: int
    reason: str


class DescribeLink(ControlRequest[LinkInfo], frozen=True, kw_only=True):
    """What the link is."""


class CatchUp(ControlRequest[None], frozen=True, kw_only=True):
    """Answer as soon as what the socket said before has been handled."""


# To itself


class InterruptPassedOn(ControlMessage, frozen=True, kw_only=True):
    """The session of an interrupt was looked for, and told if there is one."""

    session_key: str


class RequestTimedOut(ControlMessage, frozen=True, kw_only=True):
    """No result came in the outbound timeout."""

    request_id: str


class HandshakeTimedOut(ControlMessage, frozen=True, kw_only=True):
    """No descriptor or hello came in time."""


class DrainEnded(ControlMessage, frozen=True, kw_only=True):
    """The share of the budget for pending requests is over."""


class ActionPerformed(ControlMessage, frozen=True, kw_only=True):
    """What became of a gateway's action."""

    request_id: str
    result: Result


class PlatformDescribed(ControlMessage, frozen=True, kw_only=True):
    """The descriptor with which a hello is answered; None if that failed."""

    platform: str
    descriptor: Descriptor | None


# To the socket's writer


class WriteHello(Message, frozen=True, kw_only=True):
    """Answer a descriptor, as the gateway of that platform."""

    platform: str
    bot_id: str


class WriteDescriptor(Message, frozen=True, kw_only=True):
    """Answer a hello, as the connector of that platform."""

    descriptor: Descriptor


class WriteOutbound(Message, frozen=True, kw_only=True):
    """Send an action; confirm with Written just before it may reach the wire."""

    request_id: str
    action: dict[str, Any]
    platform: str
    bot_id: str | None
    expires: float
    """Monotonic seconds: from then on it must not be written, as it has been given up for not sent."""


class WriteResult(Message, frozen=True, kw_only=True):
    """Answer an action."""

    request_id: str
    result: Result


class WriteInboundAck(Message, frozen=True, kw_only=True):
    """A buffered message is kept: the peer may forget it."""

    buffer_id: str


class WriteGoingIdleAck(Message, frozen=True, kw_only=True):
    """The peer is buffered for from here on."""


class CloseWire(Message, frozen=True, kw_only=True):
    """Close the socket after what was written before."""

    code: int
    reason: str
