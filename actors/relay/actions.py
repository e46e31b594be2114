"""Actions as Turnkeep itself reads and writes them; what it does not know of an action it passes on untouched."""

from typing import Any, TypeVar

import msgspec

from actors.exceptions import Invalid
from actors.messages.rows import Route


class Metadata(msgspec.Struct, frozen=True):
    """Whose chat it is, as connectors check it."""

    scope_id: str | None = None
    user_id: str | None = None
    thread_id: str | None = None


class Send(msgspec.Struct, frozen=True):
    """Say something in a chat."""

    chat_id: str
    content: str
    reply_to: str | None = None
    metadata: Metadata = Metadata()


class Edit(msgspec.Struct, frozen=True):
    """Replace what was said."""

    chat_id: str
    message_id: str
    content: str


class FollowUp(msgspec.Struct, frozen=True):
    """Say something where a session's chat is."""

    session_key: str
    content: str


class ChatInfo(msgspec.Struct, frozen=True):
    """Ask what a chat is."""

    chat_id: str


Read = TypeVar("Read", Send, Edit, FollowUp, ChatInfo)


def read(action: dict[str, Any], shape: type[Read]) -> Read:
    """Return an action's fields. Raises Invalid, naming the field that is wrong; a null field counts as absent."""
    given = {key: value for key, value in action.items() if value is not None}
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from error


def send_to(route: Route, content: str, *, first: bool) -> dict[str, Any]:
    """
    Return the send of one part of an answer; the first one replies to the message that is answered.

    Its metadata carry the routing origin, or a scoped connector would not accept it (DLV-11).
    """
    return {
        "op": "send",
        "chat_id": route.chat_id,
        "content": content,
        "reply_to": route.message_id if first else None,
        "metadata": _origin(route),
    }


def edit_of(route: Route, message_id: str, content: str) -> dict[str, Any]:
    """Return the edit of a message that was sent to the same chat."""
    return {
        "op": "edit",
        "chat_id": route.chat_id,
        "message_id": message_id,
        "content": content,
        "metadata": _origin(route),
    }


def _origin(route: Route) -> dict[str, str]:
    origin = {
        "scope_id": route.scope_id,
        "user_id": route.user_id,
        "thread_id": route.thread_id,
        "profile": route.profile,
    }
    return {key: value for key, value in origin.items() if value is not None}
