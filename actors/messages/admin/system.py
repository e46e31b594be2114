"""About events and the daemon itself."""

from typing import Annotated

import msgspec

from actors.messages.admin.request import AdminRequest, Word
from actors.messages.rows import KeyScope


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
