"""What the store remembers, as actors see it: durable states and rows."""

import enum
from typing import Any

import msgspec

from actors.messages.secret import Secret


class InboxState(enum.StrEnum):
    """A message that was accepted."""

    ACCEPTED = "accepted"
    TURNED = "turned"
    UNDELIVERED = "undelivered"
    DEAD = "dead"


class TurnState(enum.StrEnum):
    """One run over one message. The last five are ends."""

    ADMITTED = "admitted"
    RUNNING = "running"
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    UNANSWERED = "unanswered"


ENDED_TURNS = frozenset(TurnState) - {TurnState.ADMITTED, TurnState.RUNNING}


class DeliveryState(enum.StrEnum):
    """One text on its way to one chat."""

    PENDING = "pending"
    ATTEMPTING = "attempting"
    UNKNOWN = "unknown"
    """Sent, outcome not seen: blocks nothing behind it, never retried blindly."""
    DELIVERED = "delivered"
    DEAD = "dead"


class SessionKind(enum.StrEnum):
    """Who does a session's work."""

    CHAT = "chat"
    PROCESS = "process"
    AGENT = "agent"
    GATEWAY = "gateway"


class RunState(enum.StrEnum):
    """Whether a session runs."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    ENDED = "ended"


class Origin(enum.StrEnum):
    """By which edge a message came in."""

    RELAY = "relay"
    CONSOLE = "console"
    API = "api"


class HistoryKind(enum.StrEnum):
    """What a history row is."""

    MESSAGE = "message"
    INTERRUPTED = "interrupted"
    """The partial text of a turn that did not end well: shown to people, not fed to a model."""
    NOTICE = "notice"
    """Our own sentence about a turn's fate: shown, not fed."""
    COMPACTION = "compaction"
    """A summary: a model gets it in place of the rows up to its ``upto``, which stay to be shown."""


class PeerRole(enum.StrEnum):
    """The two roles of the relay contract."""

    CONNECTOR = "connector"
    GATEWAY = "gateway"


class KeyScope(enum.StrEnum):
    """What a key may do. ``api`` is /v1; the others are /admin's."""

    API = "api"
    OBSERVE = "observe"
    OPERATE = "operate"
    ADMIN = "admin"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row, read once; a newer state is another row."""


class ToolCall(Row, frozen=True, kw_only=True):
    """A call that a model asked for. ``arguments`` are kept as it wrote them, JSON or not (TRN-42)."""

    call_id: str
    name: str
    arguments: str


class Entry(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation as a model gets it."""

    role: str
    """user, assistant, system, developer or tool."""
    content: str
    """Its text; of a message with other parts, their texts joined by newlines."""
    parts: tuple[dict[str, Any], ...] = ()
    """All parts of a message that is not text alone, as its sender wrote them."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """The call that a tool's message answers."""


class Route(Row, frozen=True, kw_only=True):
    """Where an answer goes: the routing origin, captured when the message came in."""

    platform: str
    chat_id: str
    chat_type: str = "dm"
    thread_id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    scope_id: str | None = None
    profile: str | None = None
    message_id: str | None = None
    """The message that is answered."""

    @property
    def chat(self) -> str:
        """The chat in which deliveries keep their order."""
        return ":".join((self.platform, self.scope_id or "", self.chat_id))


class SessionRow(Row, frozen=True, kw_only=True):
    """A conversation. ``last_turn``, ``last_error`` and ``queued`` are looked up when it is read."""

    session_id: str
    kind: SessionKind
    run_state: RunState
    title: str
    peer: str
    scope: str
    session_key: str
    turn_gen: int
    version: int
    created_at: float
    active_at: float
    end_reason: str | None = None
    last_turn: TurnState | None = None
    last_error: str | None = None
    """Of its last turn, if that failed."""
    queued: int = 0


class HistoryRow(Row, frozen=True, kw_only=True):
    """One entry of a session's history; ``seq`` grows over the whole store and is its message id."""

    seq: int
    session_id: str
    turn_id: str | None
    role: str
    content: str
    kind: HistoryKind
    at: float
    author: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """What a row of the assistant asked for."""


class Said(Row, frozen=True, kw_only=True):
    """One message of a conversation, and where it stands in the history; of a summary, up to where it stands for it."""

    seq: int
    entry: Entry
    summary: bool = False


class TurnRow(Row, frozen=True, kw_only=True):
    """One turn. ``partial`` is what was flushed of a running one, or kept of one that did not end well."""

    turn_id: str
    session_id: str
    inbox_id: str
    turn_gen: int
    state: TurnState
    reason: str | None
    """Why it ended so: a class of outcome such as client_gone, never a foreign text."""
    partial: str
    text: str | None
    """The answer, once committed; empty if it is nothing but tool calls."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Those of the answer, once committed."""
    usage: dict[str, int] | None
    estimated: bool = False
    """Whether the usage is what the characters suggest, as the backend named none."""
    origin: Origin
    detached: bool
    tries: int
    """How often the message has been turned, this one included."""
    admitted_at: float
    ended_at: float | None
    error: str | None = None
    """Of a failed one: its class in a sentence of ours, for whoever looks after Turnkeep."""


class DeliveryRow(Row, frozen=True, kw_only=True):
    """
    One text for one chat of one peer. ``parts_done`` counts the pieces whose results were seen.

    While an answer is being made, its beginning is a delivery, too; the one of the turn's end then takes its place.
    """

    delivery_id: str
    peer: str
    chat: str
    """platform, scope and chat in one: deliveries of one chat keep their order."""
    route: Route
    content: str
    turn_id: str | None
    state: DeliveryState
    reason: str | None
    attempts: int
    parts_done: int
    message_id: str | None
    created_at: float
    settled_at: float | None
    inbox_id: str | None = None
    """The message that it answers, if it is a turn's."""
    begins: bool = False
    """It is the beginning of an answer."""
    in_place: str | None = None
    """What the message with the beginning becomes, if not ``content``."""
    edits: str | None = None
    """The message with the beginning, if there is one; known when it is claimed."""


class PeerRow(Row, frozen=True, kw_only=True):
    """A relay peer. No scopes means all of them; a peer fronts exactly its identities (``platform:bot``)."""

    name: str
    role: PeerRole
    identities: tuple[str, ...]
    scopes: tuple[str, ...]
    secrets: tuple[Secret, ...]
    """Primary first; a second one lives on during a rotation."""
    created_at: float
    revoked_at: float | None = None

    def owns_scope(self, scope: str | None) -> bool:
        """Say whether the peer may act in ``scope``; no scope at all is everybody's."""
        return not self.scopes or scope is None or scope in self.scopes

    def fronts(self, platform: str, bot_id: str) -> bool:
        """Say whether the identity is this peer's."""
        return f"{platform}:{bot_id}" in self.identities

    def platforms(self) -> frozenset[str]:
        """Return the platforms of its identities."""
        return frozenset(identity.partition(":")[0] for identity in self.identities)


class KeyRow(Row, frozen=True, kw_only=True):
    """A bearer key; only its SHA-256 is kept (ADM-11)."""

    key_id: str
    name: str
    owner: str
    scopes: tuple[KeyScope, ...]
    created_at: float
    revoked_at: float | None = None

    def allows(self, scope: KeyScope) -> bool:
        """Say whether the key reaches ``scope``: admin includes operate, operate includes observe."""
        order = (KeyScope.OBSERVE, KeyScope.OPERATE, KeyScope.ADMIN)
        if scope is KeyScope.API:
            return KeyScope.API in self.scopes
        return any(held in order and order.index(held) >= order.index(scope) for held in self.scopes)


class Binding(Row, frozen=True, kw_only=True):
    """Which session answers for a chat: unique on (peer, scope, session_key)."""

    peer: str
    scope: str
    session_key: str
    session_id: str
    version: int


class TakenTurn(Row, frozen=True, kw_only=True):
    """A turn that has just begun: all that its actor needs."""

    turn_id: str
    turn_gen: int
    session_id: str
    inbox_id: str
    origin: Origin
    peer: str
    route: Route | None
    history: tuple[Entry, ...]
    """Everything that a model gets, the new message last."""
    params: dict[str, Any]
    """What the client passed through: system, model, temperature …"""
    detached: bool
    tries: int


class Accepted(Row, frozen=True, kw_only=True):
    """The outcome of an acceptance, or of its repetition."""

    inbox_id: str
    """The row's id: of a duplicate, the first one's."""
    session_id: str
    duplicate: bool
    created: bool
    """Whether the chat's session is new."""
    queued: int
    """How many accepted messages of the session wait, this one included."""
    state: InboxState


class NewDelivery(Row, frozen=True, kw_only=True):
    """A delivery to be stored along with what causes it."""

    delivery_id: str
    peer: str
    route: Route
    content: str
    """Empty: there is something to say only where a beginning of the answer was shown."""
    in_place: str | None = None
    """What a message with such a beginning becomes, if not ``content``."""
