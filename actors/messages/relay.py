"""What can be said to /relays, to one peer's actor and to the built-in console."""

from typing import Any

from actors.messages.base import ControlMessage, ControlRequest, Message, Request
from actors.messages.descriptor import Descriptor
from actors.messages.rows import Binding, DeliveryRow, DeliveryState, PeerRole, PeerRow, Route, TurnRow

Result = dict[str, Any]
"""An outbound_result's ``result``: success, and what the op says beside."""


class OpenLink(Request["LinkOpened"], frozen=True, kw_only=True):
    """
    A peer's socket has passed authentication and shown its role with its first frame.

    ``wire`` is the Address that takes what is to be written (messages/link.py). A newer link of a peer takes over:
    the older one is closed with 4409 (RLY-18). Refused: Forbidden for a role that the peer's record does not have.
    """

    peer: PeerRow
    role: PeerRole
    wire: Any


class LinkOpened(Message, frozen=True, kw_only=True):
    """Where the socket's reader tells what it reads."""

    link: Any
    """A Ref."""
    link_gen: int


class PerformAction(Request[Result], frozen=True, kw_only=True):
    """
    Act on a platform on behalf of a gateway peer: the console if it serves the platform, else the connector peer that
    fronts it. Answered with exactly one result; a failure is a result, too.
    """

    gateway: str
    """The peer that asks."""
    platform: str
    bot_id: str
    action: dict[str, Any]


class DescribePlatform(Request[Descriptor], frozen=True, kw_only=True):
    """The capabilities of a platform, as a gateway's hello is answered."""

    platform: str


class DeliveryReady(ControlMessage, frozen=True, kw_only=True):
    """The peer has pending deliveries. Coalesced: the peer's actor claims them."""

    peer: str


class ShowAnswer(ControlMessage, frozen=True, kw_only=True):
    """A turn over a message of the peer has begun: its answer is shown while it is being made, where that can be done."""

    peer: str
    session_id: str
    inbox_id: str
    turn_id: str
    turn_gen: int
    route: Route


class ShowDue(ControlMessage, frozen=True, kw_only=True):
    """A turn has gone on for long enough that its answer is worth being shown before it is whole."""

    turn_id: str


class PeerRevoked(ControlMessage, frozen=True, kw_only=True):
    """Close the peer's links with 4401."""

    peer: str


class InterruptSession(ControlRequest[None], frozen=True, kw_only=True):
    """A peer wants the turn of exactly that session stopped. Answered when it has been told."""

    peer: str
    session_key: str
    chat_id: str | None = None


class DrainRelays(ControlRequest[None], frozen=True, kw_only=True):
    """Let pending requests end within the budget, then close every link with 1012."""


class ListLinks(Request[tuple["LinkInfo", ...]], frozen=True, kw_only=True):
    """All links, live ones and those that are going."""


class LinkInfo(Message, frozen=True, kw_only=True):
    """A link as the admin view shows it."""

    peer: str
    role: str
    link_gen: int
    state: str
    platforms: tuple[str, ...]
    pending: int
    """Requests without an answer yet."""


# Inside /relays


class PlatformsKnown(ControlMessage, frozen=True, kw_only=True):
    """A connector peer has described what it fronts."""

    peer: str
    descriptors: tuple[Descriptor, ...]


class CloseLinks(ControlRequest[None], frozen=True, kw_only=True):
    """Close the peer's links within the budget; with ``hold``, begin nothing any more."""

    code: int
    reason: str
    hold: bool = False


class PeersRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about who fronts the platform of an action; None if it failed."""

    peers: tuple[PeerRow, ...] | None
    request: Any
    reply: Any


class BindingsRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the session of an interrupt."""

    bindings: tuple[Binding, ...]
    request: InterruptSession
    reply: Any


class PeerRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the peer of a link to be opened; None if it failed."""

    peer: PeerRow | None
    request: Any
    reply: Any


class LinkUp(ControlMessage, frozen=True, kw_only=True):
    """The handshake is done; ``descriptors`` of a connector's platforms, empty for a gateway."""

    link_gen: int
    descriptors: tuple[Descriptor, ...]


class DeliveriesClaimed(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a claim; None if it failed."""

    deliveries: tuple[DeliveryRow, ...] | None
    full: bool = False
    """As many as asked for: there may be more."""
    unknown: bool = False
    """It failed, but the claim may have been made all the same."""


class AttemptsRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about attempts that nobody may hold; None if it failed."""

    deliveries: tuple[DeliveryRow, ...] | None


class PartAnswered(ControlMessage, frozen=True, kw_only=True):
    """The result of one piece of a delivery."""

    delivery_id: str
    result: Result


class DeliverySettled(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a settlement; not ``stored`` if it is to be tried again, no ``row`` if it was refused."""

    delivery_id: str
    stored: bool
    row: DeliveryRow | None = None


class DeliveryAdvanced(ControlMessage, frozen=True, kw_only=True):
    """The store has the number of parts from which a settlement goes on."""

    delivery_id: str


class SettleAgain(ControlMessage, frozen=True, kw_only=True):
    """Give an outcome to the store again."""

    delivery_id: str


class ChatRested(ControlMessage, frozen=True, kw_only=True):
    """The wait after a failure in a chat is over."""

    chat: str


class ClaimAgain(ControlMessage, frozen=True, kw_only=True):
    """Look for pending deliveries again."""


class EditAnswer(Request[Result], frozen=True, kw_only=True):
    """
    Show the next piece of an answer that is being made, by an edit of its message. Answered with the edit's result;
    refused as closed once the delivery of the turn's end has the word.
    """

    turn_id: str
    chat: str
    route: Route
    message_id: str
    content: str


class AnswerEdited(ControlMessage, frozen=True, kw_only=True):
    """What the link ``link_gen`` says of such an edit, which is a matter of its peer, too."""

    chat: str
    message_id: str
    link_gen: int
    result: Result
    reply: Any


class RunningRead(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about turns that run, with their peer and route, as a link comes up; None if there was none."""

    turns: tuple[tuple[TurnRow, str, Route | None], ...] | None


class EditSpaced(ControlMessage, frozen=True, kw_only=True):
    """The interval after such an edit is over."""

    chat: str
    message_id: str


# To an answer that is being shown


class BeginningSettled(ControlMessage, frozen=True, kw_only=True):
    """What became of its beginning; pending: it was not sent."""

    state: DeliveryState
    message_id: str | None


class AnswerTaken(ControlMessage, frozen=True, kw_only=True):
    """The delivery of the turn's end is being sent, or another run over the same message has begun."""


class LinkCame(ControlMessage, frozen=True, kw_only=True):
    """Another link of the peer is up."""


class BeginningKept(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a beginning; None if there was none, or ``over`` if the turn has ended."""

    row: DeliveryRow | None
    over: bool = False


class BeginningWithdrawn(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a withdrawal; not ``gone`` if it was too late for it, or there was no answer."""

    gone: bool


class AnswerShown(ControlMessage, frozen=True, kw_only=True):
    """The peer's answer to an edit."""

    result: Result


class ShowMore(ControlMessage, frozen=True, kw_only=True):
    """The wait before the next edit is over."""


class ListenAgain(ControlMessage, frozen=True, kw_only=True):
    """Nothing was heard of the turn for long."""


class LinkGenDrawn(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the number of a new link; None if it failed."""

    link_gen: int | None
    request: Any
    reply: Any
