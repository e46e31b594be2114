"""What can be said to /front, the HTTP and WebSocket server."""

from actors.messages.base import ControlRequest, Message, Request


class StopAdmission(ControlRequest[None], frozen=True, kw_only=True):
    """Take no new turn: answer 503 with Retry-After from now on. What is under way goes on."""


class FrontInfo(Request["FrontAddress"], frozen=True, kw_only=True):
    """Where it listens."""


class FrontAddress(Message, frozen=True, kw_only=True):
    """The address that clients use."""

    url: str
    host: str
    port: int
