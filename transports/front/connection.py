"""
uvicorn's HTTP/1.1 connection with bounds on what comes before a request is one.

uvicorn itself takes a head of any size, at any pace: nobody who is not known yet may cost memory or descriptors so.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from transports.front.errors import ApiError
from transports.front.settings import FrontSettings


class HttpConnection(HttpToolsProtocol):
    """
    One connection, until it becomes a WebSocket or ends.

    Whatever is neither a body nor a whole head (lines and headers, trailers, sizes of chunks, blank lines) is counted
    until something whole comes of it; a body has limits of its own.
    """

    def __init__(self, *args: Any, settings: FrontSettings, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._max_head_bytes = settings.max_head_bytes
        self._head_s = settings.head_s
        self._unread = 0
        # Since when the head in hand is waited for, in the loop's seconds; None while none is.
        self._head_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base
        """Begin; the first head is due from here on."""
        super().connection_made(transport)
        self._head_since = self.loop.time()
        self._timer = self.loop.call_later(self._head_s, self._check_head)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._forget_timer()
        # uvicorn leaves this one set after a reset, and the connection would be kept for as long.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless too much has come that is no request."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self._max_head_bytes and not self.transport.is_closing():
            self._refuse(
                ApiError(431, "head_too_large", f"The head is larger than {self._max_head_bytes} bytes.")
            )

    # What the parser finds

    def on_message_begin(self) -> None:
        """A head begins."""
        self._unread = 0
        self._head_since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._unread = 0
        self._head_since = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._unread = 0
        super().on_body(body)

    def handle_websocket_upgrade(self) -> None:
        """Hand the socket over."""
        self._forget_timer()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP request."""
        self._refuse(ApiError(400, "invalid_http", msg))

    # Bounds

    def _check_head(self) -> None:
        # One timer a connection: heads only move the mark that it looks at.
        due = self._head_s
        if self._head_since is not None:
            due += self._head_since - self.loop.time()
            if due <= 0:
                self._refuse(ApiError(408, "head_timeout", "The head of the request did not come in time."))
                return
        self._timer = self.loop.call_later(due, self._check_head)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, error: ApiError) -> None:
        """Answer, if this cannot be taken for a part of another answer, and close."""
        if self.cycle is None or self.cycle.response_complete:
            body = error.body()
            head = (
                f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()
