"""/admin: lets in whoever shows an admin key, and says nothing to anybody else (ADM-6)."""

import hashlib
from collections.abc import MutableMapping
from typing import Any

from actors.exceptions import TurnkeepError
from actors.messages.rows import KeyRow
from actors.messages.store import FindKey
from actors.runtime import Budget, Ref, System
from transports.front.admin_connection import TRY_AGAIN, UNAUTHORIZED, AdminConnection, Receive, Send
from transports.front.admin_settings import AdminSocketSettings
from transports.front.auth import bearer


class AdminSocket:
    """The ASGI application of the admin WebSocket."""

    def __init__(
        self,
        *,
        system: System,
        admin: Ref,
        store: Ref,
        events: Ref,
        sessions: Ref,
        settings: AdminSocketSettings,
    ) -> None:
        self._system = system
        self._admin = admin
        self._store = store
        self._events = events
        self._sessions = sessions
        self._settings = settings

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one socket from its handshake to its end."""
        await receive()
        token = bearer(scope["headers"])
        key_hash = hashlib.sha256((token or "").encode()).hexdigest()
        try:
            key = await self._find(key_hash) if token is not None else None
            refused = UNAUTHORIZED
        except TurnkeepError:
            key, refused = None, TRY_AGAIN
        # A close before the accept would become an HTTP 403 instead of a close code.
        await send({"type": "websocket.accept"})
        if key is None:
            await send({"type": "websocket.close", "code": refused})
            return
        await AdminConnection(
            system=self._system,
            admin=self._admin,
            store=self._store,
            events=self._events,
            sessions=self._sessions,
            settings=self._settings,
            key=key,
            key_hash=key_hash,
            receive=receive,
            send=send,
        ).serve()

    async def _find(self, key_hash: str) -> KeyRow | None:
        budget = Budget.of(self._system.clock, self._settings.store_s)
        return await self._store.ask(FindKey(key_hash=key_hash), budget)
