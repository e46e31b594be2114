"""Sessions, what was said in them, and the chats of consoles."""

from actors.messages.rows import Binding, HistoryRow, SessionKind, SessionRow
from actors.messages.store.request import Read, Write

# Sessions and history


class OpenSession(Write[SessionRow], frozen=True, kw_only=True):
    """The session bound to (peer, scope, key); made if there is none."""

    peer: str
    scope: str | None
    session_key: str
    new_session_id: str
    kind: SessionKind = SessionKind.CHAT
    title: str = ""


class GetSession(Read[SessionRow | None], frozen=True, kw_only=True):
    """A session by its id, or by a prefix of it that is unique."""

    session_id: str


class ListSessions(Read[tuple[SessionRow, ...]], frozen=True, kw_only=True):
    """Sessions, the most recently active first; of one peer or of all."""

    peer: str | None = None
    limit: int = 100
    offset: int = 0


class FindBindings(Read[tuple[Binding, ...]], frozen=True, kw_only=True):
    """The bindings of a key of one peer, over all scopes or in one."""

    peer: str
    session_key: str
    scope: str | None = None


class ReadHistory(Read[tuple[HistoryRow, ...]], frozen=True, kw_only=True):
    """The newest ``limit`` rows of a session, oldest of them first."""

    session_id: str
    limit: int = 100
    before: int | None = None
    """Only rows with a smaller seq."""


# The console's chats


class PostToChat(Write[HistoryRow], frozen=True, kw_only=True):
    """
    Append what a gateway sent to a console chat; opens a ``gateway`` session if the chat has none.

    Repeating it, with the same ``post_id``, answers the stored row.
    """

    peer: str
    scope: str | None
    session_key: str
    new_session_id: str
    post_id: str
    author: str
    content: str


class EditPost(Write[bool], frozen=True, kw_only=True):
    """Replace the text of a row that ``author`` posted. False if there is no such row."""

    seq: int
    author: str
    content: str
