"""The routes of the one port."""

import time
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from actors.exceptions import TurnkeepError
from actors.messages.lane import LaneTraits
from actors.messages.rows import KeyScope
from transports.front.auth import authenticate
from transports.front.completions import DEFAULT_MODEL, Completions
from transports.front.edges import Edges
from transports.front.errors import (
    RETRY_AFTER,
    SHOULD_NOT_RETRY,
    ApiError,
    draining,
    from_fault,
    internal,
    no_such_model,
)
from transports.front.guard import Guard
from transports.front.metrics import MetricsPage
from transports.front.readiness import Readiness
from transports.front.session_header import SHOWN
from transports.web.page import HEADERS, status_page

encode = msgspec.json.Encoder().encode


EXPOSED = (*SHOWN, RETRY_AFTER[0], SHOULD_NOT_RETRY[0])
"""Response headers that scripts of a web page may read."""


def build_app(edges: Edges) -> Guard:
    """Return the ASGI application."""
    routes = Routes(edges)
    app = Starlette(
        routes=[
            Route("/", routes.page, methods=["GET"]),
            Route("/livez", routes.livez, methods=["GET"]),
            Route("/readyz", routes.readyz, methods=["GET"]),
            Route("/metrics", MetricsPage(edges).show, methods=["GET"]),
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{model:path}", routes.model, methods=["GET"]),
            Route("/v1/chat/completions", Raw(Completions(edges)), methods=["POST"]),
            WebSocketRoute("/relay", Raw(edges.relay_endpoint)),
            WebSocketRoute("/admin", Raw(edges.admin_endpoint)),
        ],
        exception_handlers={HTTPException: _http_error, TurnkeepError: _fault, Exception: _unforeseen},
        middleware=[
            # A key in a header, and no cookies: a foreign page can do nothing that it could not do without a browser.
            Middleware(
                CORSMiddleware,
                allow_origins=["*"],
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=EXPOSED,
            )
        ],
    )
    # A path with a slash too many is a wrong path, and answered as one.
    app.router.redirect_slashes = False
    return Guard(app)


class Raw:
    """Marks an ASGI callable as such: a bare bound method would be taken for a request handler."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on."""
        await self._app(scope, receive, send)


class Routes:
    """The routes that answer at once."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._readiness = Readiness(edges)
        self._created = int(time.time())

    async def page(self, request: Request) -> Response:
        """Show people what runs here."""
        return Response(status_page(), media_type="text/html", headers=HEADERS)

    async def livez(self, request: Request) -> Response:
        """Answer: the process serves. Touches nothing (API-22)."""
        return _json({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Name each dependency that fails (API-22)."""
        failing = await self._readiness.failing()
        status = {"status": "ready" if not failing else "not ready", "failing": failing}
        return _json(status, 200 if not failing else 503)

    async def models(self, request: Request) -> Response:
        """List the lanes."""
        await self._authenticate(request)
        names = _names(await self._lanes())
        return _json({"object": "list", "data": [self._model(name) for name in names]})

    async def model(self, request: Request) -> Response:
        """Show one lane."""
        await self._authenticate(request)
        name, lanes = request.path_params["model"], await self._lanes()
        if name not in _names(lanes) and name not in [lane.model for lane in lanes if lane.model]:
            raise no_such_model(_names(lanes))
        return _json(self._model(name))

    async def _authenticate(self, request: Request) -> None:
        settings = self._edges.settings
        await authenticate(
            request.headers.raw, KeyScope.API, self._edges.store, self._edges.within(settings.store_s)
        )
        if not self._edges.admission.open:
            raise draining()

    async def _lanes(self) -> tuple[LaneTraits, ...]:
        bound = await self._edges.bound_lanes(self._edges.within(self._edges.settings.lanes_s))
        return tuple(lane.traits for lane in bound if lane.live)

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "turnkeep"}


def _names(lanes: tuple[LaneTraits, ...]) -> tuple[str, ...]:
    return (DEFAULT_MODEL, *(lane.name for lane in lanes)) if lanes else ()


def _json(content: Any, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")


def _error(error: ApiError) -> Response:
    return Response(error.body(), error.status, dict(error.headers), media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {
        404: ("not_found", f"There is nothing at {request.url.path[:200]}."),
        405: ("method_not_allowed", f"{request.method} is not allowed here."),
    }
    code, text = texts.get(error.status_code, ("http_error", error.detail))
    allowed = tuple((error.headers or {}).items())
    return _error(ApiError(error.status_code, code, text, headers=allowed))


async def _fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, TurnkeepError)
    return _error(from_fault(error))


async def _unforeseen(request: Request, error: Exception) -> Response:
    return _error(internal())
