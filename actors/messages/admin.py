"""
What can be said to /admin: each request is one message of the admin protocol, told by its ``type`` (ADM).

``scope`` is what a key needs for it. A request that ``changes`` something is audited with the fields that it names
in ``audited``; these never hold a secret or the text of a message (ADM-5).
"""

import enum
from typing import Annotated, Any, ClassVar

import msgspec

from actors.messages.base import ControlMessage, Request
from actors.messages.rows import DeliveryState, KeyRow, KeyScope, PeerRole

RequestId = str | int | None
"""Chosen by the client, handed back with the answer."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
"""Letters, digits, dot, underscore and hyphen: it becomes a part of paths."""
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
"""An actor's. Bounded, as it goes into events."""
Platform = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,64}\Z")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000_000)]

Answer = dict[str, Any]
"""What a request is answered with: the ``result`` of the admin protocol."""


class AdminRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """Any of them."""

    scope: ClassVar[KeyScope] = KeyScope.OBSERVE
    changes: ClassVar[bool] = False
    audited: ClassVar[tuple[str, ...]] = ()
    patience_s: ClassVar[float | None] = None
    """How long it may take, in seconds, if that is more than others."""

    id: RequestId = None

    @property
    def type(self) -> str:
        """Its name in the protocol."""
        return type_of(type(self))

    @property
    def needed(self) -> KeyScope:
        """What a key needs for this one."""
        return self.scope

    @property
    def leaves_trace(self) -> bool:
        """Whether it is audited."""
        return self.changes


def type_of(request: type[AdminRequest]) -> str:
    """Return the name of a request in the protocol."""
    return str(request.__struct_config__.tag)


# Actors


class ActorOrder(enum.StrEnum):
    """By what a list of actors is sorted: all but ``path`` with the largest first."""

    PATH = "path"
    DEPTH = "depth"
    """Messages that wait, in all lanes."""
    OLDEST = "oldest"
    """The age of the oldest of them."""
    BUSY = "busy"
    """How long the handler in hand has taken."""
    HANDLED = "handled"
    RESTARTS = "restarts"
    AGE = "age"
    """Since the actor, or its last incarnation, began."""


class ListActors(AdminRequest, frozen=True, kw_only=True, tag="actors.list"):
    """
    Actors with their counters: of one subtree or of all, of the named kinds and states or of any.

    ``depth`` is what must wait at least in an actor's mailbox for it to be shown.
    """

    prefix: Path = "/"
    kinds: tuple[Word, ...] = ()
    states: tuple[Word, ...] = ()
    depth: Annotated[int, msgspec.Meta(ge=0)] = 0
    sort: ActorOrder = ActorOrder.PATH
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ShowTree(AdminRequest, frozen=True, kw_only=True, tag="actors.tree"):
    """The same as a hierarchy."""


class GetActor(AdminRequest, frozen=True, kw_only=True, tag="actors.get"):
    """One actor, and its children's paths."""

    path: Path


class StopActor(AdminRequest, frozen=True, kw_only=True, tag="actors.stop"):
    """End an actor; a permanent one is started again by its supervisor."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("path",)

    path: Path


class RestartActor(AdminRequest, frozen=True, kw_only=True, tag="actors.restart"):
    """End an actor and let its supervisor start it again, whatever its restart type says."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("path",)

    path: Path


class SuspendActor(AdminRequest, frozen=True, kw_only=True, tag="actors.suspend"):
    """Hold its ordinary lane (ADM-7)."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("path",)

    path: Path


class ResumeActor(AdminRequest, frozen=True, kw_only=True, tag="actors.resume"):
    """Serve its ordinary lane again."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("path",)

    path: Path


class TraceActor(AdminRequest, frozen=True, kw_only=True, tag="actors.trace"):
    """
    Tell what one actor handles, at most ``count`` messages and for at most ``seconds``.

    A second one on the same connection takes the place of the first. With ``contents`` it shows the messages too, but
    for secrets: that takes an admin's key, and is audited.
    """

    scope = KeyScope.OPERATE
    audited = ("path",)

    path: Path
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1000
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 60.0
    contents: bool = False

    @property
    def needed(self) -> KeyScope:
        """See AdminRequest."""
        return KeyScope.ADMIN if self.contents else self.scope

    @property
    def leaves_trace(self) -> bool:
        """See AdminRequest."""
        return self.contents


# Sessions


class ListAllSessions(AdminRequest, frozen=True, kw_only=True, tag="sessions.list"):
    """Sessions, the most recently active first."""

    peer: str | None = None
    limit: Limit = 100
    offset: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0


class ShowSession(AdminRequest, frozen=True, kw_only=True, tag="sessions.get"):
    """A session by its id, or by a prefix of it that is unique, with its last turns."""

    session_id: Word


class OpenChat(AdminRequest, frozen=True, kw_only=True, tag="sessions.open"):
    """The session of a console chat; made if there is none."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("chat", "platform")

    chat: Word
    platform: Platform = "console"


class SendText(AdminRequest, frozen=True, kw_only=True, tag="sessions.send"):
    """
    Say something to a session or to a console chat, one of which is named.

    With ``watch`` the turn's events follow. Repeating it with the same ``message_id`` and text sends nothing twice.
    """

    scope = KeyScope.OPERATE
    changes = True
    audited = ("session_id", "chat", "platform")

    session_id: Word | None = None
    chat: Word | None = None
    platform: Platform = "console"
    text: Text
    message_id: Word | None = None
    watch: bool = False


class ShowHistory(AdminRequest, frozen=True, kw_only=True, tag="sessions.history"):
    """The newest rows of a session, oldest of them first."""

    scope = KeyScope.OPERATE

    session_id: Word
    limit: Limit = 50
    before: int | None = None


class StopSessionTurn(AdminRequest, frozen=True, kw_only=True, tag="sessions.stop_turn"):
    """Stop the running turn, or the one over ``inbox_id`` whether it runs or waits."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("session_id", "inbox_id")

    session_id: Word
    inbox_id: Word | None = None


class WatchTurn(AdminRequest, frozen=True, kw_only=True, tag="sessions.watch"):
    """The events of the turn over ``inbox_id``, or of the one that runs; one that has ended is told as its outcome."""

    scope = KeyScope.OPERATE

    session_id: Word
    inbox_id: Word | None = None


class FollowSession(AdminRequest, frozen=True, kw_only=True, tag="sessions.follow"):
    """
    The events of all turns of a session that have not ended, or of all after the event that ``after_gen`` (its
    ``turn_gen``) and ``after_seq`` name. Answers the last turn that has ended.

    A second one of the same session on the same connection takes the place of the first.
    """

    scope = KeyScope.OPERATE

    session_id: Word
    after_gen: Annotated[int, msgspec.Meta(ge=0)] | None = None
    after_seq: Annotated[int, msgspec.Meta(ge=0)] = 0


class UnfollowSession(AdminRequest, frozen=True, kw_only=True, tag="sessions.unfollow"):
    """Send no more of them."""

    scope = KeyScope.OPERATE

    session_id: Word


# Lanes


class ListModelLanes(AdminRequest, frozen=True, kw_only=True, tag="lanes.list"):
    """The model lanes in their configured order, with what they carry and how their backends do."""


class ReloadModelLanes(AdminRequest, frozen=True, kw_only=True, tag="lanes.reload"):
    """Read the configuration file again and run the lanes that it has now; refused if there is a mistake in it."""

    scope = KeyScope.OPERATE
    changes = True


# Relays, deliveries, peers, keys


class ListRelays(AdminRequest, frozen=True, kw_only=True, tag="relays.list"):
    """The links of relay peers."""


class ListAllDeliveries(AdminRequest, frozen=True, kw_only=True, tag="deliveries.list"):
    """Deliveries, newest first, without their texts."""

    states: tuple[DeliveryState, ...] = ()
    peer: str | None = None
    limit: Limit = 100


class AddPeer(AdminRequest, frozen=True, kw_only=True, tag="peers.add"):
    """Let a relay peer in. Its secret is in the answer, and nowhere else."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name", "role")

    name: Name
    role: PeerRole = PeerRole.CONNECTOR
    identities: tuple[Word, ...] = ()
    scopes: tuple[Word, ...] = ()


class ListAllPeers(AdminRequest, frozen=True, kw_only=True, tag="peers.list"):
    """All peers, without their secrets."""


class RotatePeerSecret(AdminRequest, frozen=True, kw_only=True, tag="peers.rotate"):
    """Give a peer a new secret; the former one stays good beside it."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name",)

    name: Word


class RevokePeerAccess(AdminRequest, frozen=True, kw_only=True, tag="peers.revoke"):
    """Refuse a peer from now on and close its links."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name",)

    name: Word


class AddKey(AdminRequest, frozen=True, kw_only=True, tag="keys.add"):
    """Make a key. It is in the answer, and nowhere else."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("name", "owner")

    name: Name
    owner: Word | None = None
    """Keys of one owner see the same chats; if absent, the key's name."""
    scopes: Annotated[tuple[KeyScope, ...], msgspec.Meta(min_length=1)] = (KeyScope.API,)


class ListAllKeys(AdminRequest, frozen=True, kw_only=True, tag="keys.list"):
    """All keys, newest first; of none is more known than its hash."""

    scope = KeyScope.ADMIN


class RevokeKeyAccess(AdminRequest, frozen=True, kw_only=True, tag="keys.revoke"):
    """Refuse a key from now on, by id or name."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("key",)

    key: Word


# Quarantines


class ListAllQuarantines(AdminRequest, frozen=True, kw_only=True, tag="quarantine.list"):
    """What is held now, the oldest first; of one name, or id, or of all. With ``lifted`` also what was held before."""

    name: Word | None = None
    lifted: bool = False
    limit: Limit = 100


class ReleaseHeld(AdminRequest, frozen=True, kw_only=True, tag="quarantine.release"):
    """Lift a quarantine, by name or id. While nothing proves the end, only with ``force``."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("name", "force")

    name: Word
    force: bool = False


class ReconcileNow(AdminRequest, frozen=True, kw_only=True, tag="quarantine.reconcile"):
    """Ask again, now, whether what is held has ended: one, by name or id, or all."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("name",)

    name: Word | None = None


# Events and the system


class SubscribeEvents(AdminRequest, frozen=True, kw_only=True, tag="events.subscribe"):
    """
    Send what happens, and first what has happened from ``from_seq`` on; a negative one counts back from the newest.

    A second one on the same connection takes the place of the first.
    """

    from_seq: int | None = None
    kinds: tuple[Word, ...] = ()


class UnsubscribeEvents(AdminRequest, frozen=True, kw_only=True, tag="events.unsubscribe"):
    """Send no more events."""


class ShowSystem(AdminRequest, frozen=True, kw_only=True, tag="system.info"):
    """What runs, since when, where, and how much of everything."""


class BackUpStore(AdminRequest, frozen=True, kw_only=True, tag="system.backup"):
    """Copy the database to a new file on the daemon's machine, while it goes on; answered when that is done."""

    scope = KeyScope.ADMIN
    changes = True
    audited = ("path",)
    patience_s = 3600.0

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class Drain(AdminRequest, frozen=True, kw_only=True, tag="system.drain"):
    """Take no new turn, let the running ones end, close the links; stay up to be looked at."""

    scope = KeyScope.ADMIN
    changes = True


class ShutDown(AdminRequest, frozen=True, kw_only=True, tag="system.shutdown"):
    """End the daemon in order."""

    scope = KeyScope.ADMIN
    changes = True


REQUESTS: tuple[type[AdminRequest], ...] = tuple(AdminRequest.__subclasses__())
"""All of them; what is not here is not understood."""


# To /admin, and from it


class Perform(Request[Answer], frozen=True, kw_only=True):
    """
    Carry a request out on behalf of ``caller``; ``watcher`` hears the events that it asks for.

    Refused: Forbidden when the key's scope does not reach.
    """

    request: AdminRequest
    caller: KeyRow
    watcher: Any


class DrainAsked(ControlMessage, frozen=True, kw_only=True):
    """An operator wants the daemon to drain and stay. Told to whoever runs it."""

    by: str


class ShutdownAsked(ControlMessage, frozen=True, kw_only=True):
    """An operator wants the daemon to end. Told to whoever runs it."""

    by: str
