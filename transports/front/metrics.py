"""GET /metrics: what is counted, for whoever shows a key with the observe scope."""

import asyncio
import hashlib
import importlib
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from actors.exceptions import TurnkeepError
from actors.messages.metrics import ReadMeasures
from actors.messages.rows import KeyScope
from actors.messages.store import StoreInfo
from actors.runtime import Reply
from transports.front.auth import authenticate, bearer
from transports.front.edges import Edges
from transports.front.errors import ApiError

T = TypeVar("T")

GLANCE_S = 1.0
"""How long a part may take to answer: this is read when something is wrong, too."""
KNOWN_S = 600.0
"""For how long a key that was good stays so for this while the store cannot say; then is when it is looked at most."""


class MetricsPage:
    """Reads and shows; counts nothing itself."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        # Until when a key's hash is good without the store.
        self._known: dict[str, float] = {}

    async def show(self, request: Request) -> Response:
        """Answer a scrape. Raises ApiError 401 without a key that reaches that far."""
        await self._admit(request)
        # Beside the loop, and not before somebody wants it: the library takes some 20 ms to load, and many lanes make
        # a text that takes 100 ms.
        exposition = await asyncio.to_thread(importlib.import_module, "transports.front.exposition")
        accept, reading = request.headers.get("accept", ""), await self._read(exposition)
        body, content_type = await asyncio.to_thread(exposition.expose, reading, accept)
        return Response(body, headers={"content-type": content_type})

    async def _admit(self, request: Request) -> None:
        key_hash = hashlib.sha256((bearer(request.headers.raw) or "").encode()).hexdigest()
        now = self._edges.system.clock.monotonic()
        try:
            await authenticate(
                request.headers.raw, KeyScope.OBSERVE, self._edges.store, self._edges.within(GLANCE_S)
            )
        except ApiError:
            self._known.pop(key_hash, None)
            raise
        except TurnkeepError:
            if self._known.get(key_hash, now) <= now:
                raise
            return
        self._known[key_hash] = now + KNOWN_S

    async def _read(self, exposition: Any) -> Any:
        edges, budget = self._edges, self._edges.within(GLANCE_S)
        lanes = edges.metrics.ask(ReadMeasures(), budget)
        store = edges.store.ask(StoreInfo(rows=False), budget)
        return exposition.Reading(
            lanes=await _glance(lanes),
            store=await _glance(store),
            census=edges.system.census(),
            dead_letters={str(reason): count for reason, count in edges.system.dead_letters.counts.items()},
            lag=edges.system.lag.histogram(),
        )


async def _glance(reply: Reply[T]) -> T | None:
    try:
        return await reply
    except TurnkeepError:
        return None
