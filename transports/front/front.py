"""/front: runs the HTTP and WebSocket server on the actors' own loop."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import uvicorn

from actors.exceptions import Unavailable
from actors.messages.front import FrontAddress, FrontInfo, StopAdmission
from actors.messages.lifecycle import DownReason
from actors.runtime import Actor
from transports.front.app import build_app
from transports.front.connection import HttpConnection
from transports.front.edges import Edges
from transports.front.listener import Listener
from transports.front.settings import FrontSettings


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which are the daemon's, and with events for its beginning and end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        # Set when it serves, or when it has ended before that.
        self.settled = asyncio.Event()
        self.ended = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving, and say so."""
        await super().startup(sockets)
        self.settled.set()

    async def hear_out(self, seconds: float) -> None:
        """Let requests that were cancelled say so to their clients."""
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=seconds)

    def cut(self) -> None:
        """Close the listener and every connection now; do nothing to those that have ended."""
        for listener in getattr(self, "servers", ()):
            listener.close()
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()


class Front(Actor):
    """Its end, whichever it is, cuts every connection; clients and peers come back to the same port."""

    kind = "front"

    def __init__(self, edges: Edges, listener: Listener) -> None:
        self._edges = edges
        self._listener = listener
        self._server: Server | None = None

    async def on_start(self) -> None:
        """Listen. Raises ConfigError if the address cannot be had."""
        listening = self._listener.open()
        server = Server(_config(build_app(self._edges), self._edges.settings))
        self.ctx.run(self._serve(server, listening), "serve")
        await server.settled.wait()
        if not server.started:
            raise Unavailable("the HTTP server ended before it was ready")
        self._server = server

    async def on_receive(self, message: Any) -> Any:
        """Tell where it is; stop admission."""
        match message:
            case FrontInfo():
                return FrontAddress(
                    url=self._listener.url or "", host=self._listener.host, port=self._listener.port
                )
            case StopAdmission():
                self._edges.admission.open = False
        return None

    async def on_stop(self, reason: DownReason) -> None:
        """Close the listener, let open responses end, then cut what is left."""
        if self._server is not None:
            self._server.should_exit = True
            await self._server.ended.wait()

    async def _serve(self, server: Server, listening: socket.socket) -> None:
        try:
            await server.serve(sockets=[listening])
            await server.hear_out(self._edges.settings.cut_s)
        finally:
            server.cut()
            listening.close()
            server.settled.set()
            server.ended.set()


def _config(app: Any, settings: FrontSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        # Called as the class of a connection is.
        http=cast(Any, partial(HttpConnection, settings=settings)),
        ws="websockets-sansio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Nothing here reads who forwarded a request, so nobody is believed about it.
        proxy_headers=False,
        ws_max_size=settings.max_ws_bytes,
        ws_ping_interval=settings.ping_s,
        ws_ping_timeout=settings.pong_s,
        # Frames are short, and a compressor a connection costs more than it saves on a local link.
        ws_per_message_deflate=False,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.stop_s,
    )
