"""What a link's machine knows, what it meets and what it wants done. Most of what it meets are messages as they are."""

from typing import Any

import msgspec

from actors.messages.base import Message
from actors.messages.descriptor import Descriptor
from actors.messages.lifecycle import DeadLetterReason
from actors.messages.link import (
    ActionAsked,
    ActionPerformed,
    DrainEnded,
    GoingIdleAsked,
    HandshakeTimedOut,
    LinkState,
    PeerDescribed,
    PeerHello,
    PlatformDescribed,
    RequestTimedOut,
    ResultArrived,
    WireClosed,
    Written,
)
from actors.messages.relay import Result
from actors.messages.rows import PeerRole, PeerRow


class State(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides."""

    peer: PeerRow
    role: PeerRole
    link_gen: int
    phase: LinkState = LinkState.HANDSHAKE
    identities: tuple[tuple[str, str], ...] = ()
    """Platform and bot of what a gateway has said hello for; the first is the session default."""
    descriptors: tuple[Descriptor, ...] = ()
    """What a connector has described, one a platform."""
    pending: dict[str, bool] = {}
    """Our requests without an answer: whether their frames may have reached the wire. Copied, never changed."""
    performing: frozenset[str] = frozenset()
    """The peer's actions that are being performed."""
    closing: "tuple[int, str] | None" = None
    """Code and reason with which the link closes after its drain."""

    @property
    def unanswered(self) -> int:
        """Requests without an answer, in both directions."""
        return len(self.pending) + len(self.performing)


# Events that are not messages already


class SendAsked(msgspec.Struct, frozen=True):
    """The owner wants an action sent."""

    request_id: str
    action: dict[str, Any]
    platform: str
    bot_id: str | None


class CloseAsked(msgspec.Struct, frozen=True):
    """The owner wants the link closed, after a drain of at most ``grace`` seconds."""

    code: int
    reason: str
    grace: float


Event = (
    SendAsked
    | CloseAsked
    | PeerHello
    | PlatformDescribed
    | PeerDescribed
    | ActionAsked
    | ActionPerformed
    | ResultArrived
    | Written
    | RequestTimedOut
    | GoingIdleAsked
    | HandshakeTimedOut
    | DrainEnded
    | WireClosed
)


# Effects


class Effect(msgspec.Struct, frozen=True):
    """Something for the actor to do."""


class Write(Effect, frozen=True):
    """Hand a message to the socket's writer."""

    message: Message


class Resolve(Effect, frozen=True):
    """Answer a request of the owner."""

    request_id: str
    result: Result


class ArmTimer(Effect, frozen=True):
    """Tell the link ``message`` in ``delay`` seconds."""

    key: str
    delay: float
    message: Message


class CancelTimer(Effect, frozen=True):
    """Forget a timer."""

    key: str


class TellOwner(Effect, frozen=True):
    """Let the peer's actor know."""

    message: Message


class Describe(Effect, frozen=True):
    """Ask for the descriptor of a platform."""

    platform: str


class Perform(Effect, frozen=True):
    """Have an action of the peer performed."""

    request_id: str
    platform: str
    bot_id: str
    action: dict[str, Any]


class Bury(Effect, frozen=True):
    """Count a message that nobody waits for."""

    message_type: str
    reason: DeadLetterReason


class Publish(Effect, frozen=True):
    """Say that something happened."""

    kind: str
    data: dict[str, str | int]


class End(Effect, frozen=True):
    """The link is over."""
