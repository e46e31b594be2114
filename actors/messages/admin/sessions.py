"""About conversations."""

from typing import Annotated

import msgspec

from actors.messages.admin.request import AdminRequest, Limit, Platform, Text, Word
from actors.messages.rows import KeyScope


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
