"""The /relay endpoint: checks a peer's credential before anything else, then serves its socket."""

from collections import Counter
from typing import Any

import structlog

from actors.exceptions import TurnkeepError
from actors.messages.rows import PeerRow
from actors.messages.secret import Secret
from actors.messages.store import FindPeerBySecret, GetPeer
from actors.relay.credentials import Verdict, read_claim, verify
from actors.relay.settings import RelaySettings
from actors.runtime import Budget, Ref, System
from transports.relay.connection import REFUSED, TRY_LATER, Connection

log = structlog.get_logger("turnkeep.relay")


class Refused(Exception):
    """The socket is to be closed with ``code``; the text is the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class RelayEndpoint:
    """
    A raw ASGI callable for WebSocket scopes.

    ``counts`` says what came of frames: frames, rejected, unknown, unsupported, out_of_role, before_introduction; of
    messages: accepted, duplicate, not_owned, dead, lost; of sockets: opened, refused, stalled.
    """

    def __init__(
        self, *, system: System, store: Ref, relays: Ref, sessions: Ref, settings: RelaySettings
    ) -> None:
        self._system = system
        self._store = store
        self._relays = relays
        self._sessions = sessions
        self._settings = settings
        self.counts: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one socket from its upgrade to its end."""
        await receive()
        try:
            peer = await self._authenticate(scope["headers"])
        except Refused as refused:
            self.counts["refused"] += 1
            log.info("relay.refused", code=refused.code, reason=str(refused))
            # A close before the accept would reach the peer as HTTP 403, without code and reason.
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": refused.code, "reason": str(refused)})
            return
        self.counts["opened"] += 1
        await send({"type": "websocket.accept"})
        connection = Connection(
            self._system,
            peer,
            receive,
            send,
            store=self._store,
            relays=self._relays,
            sessions=self._sessions,
            settings=self._settings,
            counts=self.counts,
        )
        await connection.run()

    async def _authenticate(self, headers: list[tuple[bytes, bytes]]) -> PeerRow:
        """Return the stored record of the peer that the bearer proves. Raises Refused."""
        bearer = _bearer(headers)
        if not bearer:
            raise Refused(REFUSED, "unauthorized")
        budget = Budget.of(self._system.clock, self._settings.store_s)
        try:
            by_token = await self._by_token(bearer, budget)
            by_secret = by_token or await self._store.ask(FindPeerBySecret(secret=Secret(bearer)), budget)
        except TurnkeepError as error:
            raise Refused(TRY_LATER, "try again later") from error
        if by_secret is None:
            raise Refused(REFUSED, "unauthorized")
        return by_secret

    async def _by_token(self, bearer: str, budget: Budget) -> PeerRow | None:
        claim = read_claim(bearer)
        if claim is None:
            return None
        peer = await self._store.ask(GetPeer(name=claim.payload), budget)
        if peer is None:
            return None
        verdict = verify(claim, peer.secrets, self._system.clock.wall())
        if verdict is Verdict.BAD:
            return None
        if peer.revoked_at is not None:
            raise Refused(REFUSED, "revoked")
        if verdict is Verdict.EXPIRED:
            raise Refused(REFUSED, "expired")
        return peer


def _bearer(headers: list[tuple[bytes, bytes]]) -> str | None:
    for name, value in headers:
        if name.lower() == b"authorization":
            scheme, _, credential = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                return credential.strip()
    return None
