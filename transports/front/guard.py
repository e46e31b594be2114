"""The last catch before the server: nothing of an unforeseen failure gets out but its class and place (REL-6)."""

import asyncio
import traceback
from typing import Any

import structlog

from transports.front.errors import ApiError, draining, internal
from transports.front.exchange import Exchange

log = structlog.get_logger("turnkeep.front")

INTERNAL_CLOSE = 1011


class Guard:
    """An ASGI application around another that may raise."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve; a failure becomes a JSON error if nothing was sent yet, else the connection's end."""
        begun = closed = left = False

        async def noting(message: Any) -> None:
            nonlocal begun, closed, left
            begun = True
            closed = closed or message["type"] == "websocket.close"
            try:
                await send(message)
            except OSError:
                left = True
                raise

        error: ApiError | None = None
        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            # Only the server cancels a request, when it stops and has waited long enough.
            error = draining()
        except Exception as failure:
            if left and isinstance(failure, OSError):
                # Whoever was to be told something has gone.
                return
            _log(scope, failure)
            error = internal()
        if error is None:
            return
        if scope["type"] == "websocket":
            if not (closed or left):
                await send({"type": "websocket.close", "code": INTERNAL_CLOSE})
        elif not begun:
            await Exchange(scope, receive, send).refuse(error)


def _log(scope: Any, error: Exception) -> None:
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    log.error("front.request_failed", path=scope.get("path"), error=type(error).__name__, where=where)
