"""What a peer's outbox knows, what happens to it, and what it has done: see actors.relay.outbox."""

import enum

import msgspec

from actors.messages.relay import Result
from actors.messages.rows import DeliveryRow, DeliveryState

Place = tuple[str, str]
"""A message: its chat and its id."""


class Doubt(enum.Enum):
    """Why the store may hold attempts that are not in hand."""

    CRASH = "crash"
    """An earlier incarnation held them."""
    LOST_CLAIM = "lost_claim"
    """The answer to a claim did not come."""


class Shown(msgspec.Struct, frozen=True):
    """What a message shows; not ``sure`` while that is on its way, or if nobody knows."""

    text: str
    sure: bool


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
    rest_s: float = 0.0
    """How long its chat rests at least, if it is pending again."""
    failures: int = 0
    """How often the store has not taken it."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose parts are being sent. ``done`` of them have succeeded."""

    delivery: DeliveryRow
    parts: tuple[str, ...]
    done: int
    edits: str | None = None
    """The message that the first part edits."""
    whole: tuple[str, ...] = ()
    """What is sent if that fails for good; nothing if it makes sense in place only."""
    editable: bool = True
    """Whether the peer can be asked to edit; else the whole is sent, unless the message may show it."""
    waits: bool = False
    """For the end of another edit."""

    @property
    def place(self) -> Place | None:
        """The message that is edited next."""
        return (self.delivery.chat, self.edits) if self.edits is not None and self.done == 0 else None

    def send(self) -> "SendPart":
        """Return what sends its next part."""
        edits = self.edits if self.done == 0 else None
        return SendPart(self.delivery, self.done, self.parts[self.done], edits)

    def instead(self) -> "Sending":
        """Return it without the edit."""
        return msgspec.structs.replace(self, parts=self.whole, edits=None)


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
    editing: frozenset[Place] = frozenset()
    """Messages that are being edited, each with a piece of an answer that is being made."""
    showing: dict[Place, Shown] = {}
    """What the messages of answers that are being made show, as far as it is known."""

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


class EditBegan(Event, frozen=True):
    """A piece of an answer that is being made goes out as an edit of its message."""

    place: Place
    text: str


class EditDone(Event, frozen=True):
    """The message shows it."""

    place: Place


class EditOver(Event, frozen=True):
    """Such an edit is over, and the next one may go out: ``unsent``, or not ``answered`` by a peer that never does."""

    place: Place
    unsent: bool = False
    answered: bool = True


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
    """Send one part; the first one answers the route's message, or edits one."""

    delivery: DeliveryRow
    index: int
    content: str
    edits: str | None = None


class Advance(Effect, frozen=True):
    """Let the store know how many parts are done."""

    delivery_id: str
    parts_done: int


class Settle(Effect, frozen=True):
    """Give an outcome to the store; after the n-th failure, with a wait."""

    settlement: Settlement


class RestChat(Effect, frozen=True):
    """Wait after the ``attempts``-th attempt in a chat, ``at_least`` so many seconds."""

    chat: str
    attempts: int
    at_least: float = 0.0


class EndRests(Effect, frozen=True):
    """Forget the waits of these chats."""

    chats: frozenset[str]
