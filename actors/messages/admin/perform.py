"""What is told to /admin, and by it."""

from typing import Any

from actors.messages.admin.request import AdminRequest, Answer
from actors.messages.base import ControlMessage, Request
from actors.messages.rows import KeyRow


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
