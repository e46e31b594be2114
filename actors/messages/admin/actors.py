"""About actors."""

import enum
from typing import Annotated

import msgspec

from actors.messages.admin.request import AdminRequest, Path, Word
from actors.messages.rows import KeyScope


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
