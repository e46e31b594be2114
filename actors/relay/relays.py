"""/relays: activates peers on demand, and finds who acts on a platform or runs a session."""

import contextlib
from typing import Any
from urllib.parse import quote

import structlog

from actors.exceptions import ActorStopped, Forbidden, Unavailable
from actors.keep import keep
from actors.messages.descriptor import Descriptor
from actors.messages.lifecycle import Down
from actors.messages.quarantine import PlaceFree
from actors.messages.relay import (
    BindingsRead,
    CloseLinks,
    DeliveryReady,
    DescribePlatform,
    DrainRelays,
    InterruptSession,
    ListLinks,
    OpenLink,
    PeerRevoked,
    PeersRead,
    PerformAction,
    PlatformsKnown,
    Result,
    ShowAnswer,
)
from actors.messages.rows import PeerRole, PeerRow
from actors.messages.session import StopTurn
from actors.messages.store import FindBindings, ListPeers, LoseAttempts
from actors.relay import results
from actors.relay.console import Console, console_descriptor
from actors.relay.gathering import answer_all, copy_answer
from actors.relay.peer import RelayPeer
from actors.relay.settings import RelaySettings
from actors.runtime import DEFERRED, Actor, Budget, Ref
from actors.supervision import Restart
from actors.supervision.nursery import Nursery, RestartChild

log = structlog.get_logger("turnkeep.relay")

CONSOLE = "console"
GOING_DOWN = 1012


class Relays(Actor):
    """The parent of all relay peers and of the console."""

    kind = "router"

    def __init__(
        self,
        *,
        store: Ref,
        sessions: Ref,
        console_platforms: tuple[str, ...],
        settings: RelaySettings,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._console_platforms = frozenset(console_platforms)
        self._settings = settings
        # The connector peer of each identity.
        self._fronts: dict[str, PeerRow] = {}
        # The capabilities that a connector last named, by platform.
        self._descriptors: dict[str, Descriptor] = {}
        self._nursery = Nursery()
        self._draining = False

    async def on_start(self) -> None:
        """Give up what the last run left in mid-attempt, and learn who fronts what."""
        lost = await keep(self._store, LoseAttempts(at=self.ctx.wall()), self._store_budget())
        if lost:
            log.warning("relay.attempts_lost", deliveries=lost)
            self.ctx.publish("delivery.unknown", deliveries=lost, reason="outcome_unknown")
        self._learn(await self._store.ask(ListPeers(), self._store_budget()))
        if self._console_platforms:
            self.ctx.spawn(CONSOLE, lambda: Console(store=self._store, settings=self._settings), held=True)

    async def on_receive(self, message: Any) -> Any:
        """Pass on what is for a peer or the console; serve the drain and the views."""
        match message:
            case OpenLink():
                return self._open(message)
            case PerformAction():
                return self._perform_action(message)
            case DescribePlatform(platform=platform):
                return self._describe(platform)
            case DeliveryReady(peer=peer) | ShowAnswer(peer=peer):
                # A peer without an actor, or a quarantined one, has no link: it claims when it gets one.
                self._tell_peer(peer, message)
            case PlatformsKnown(descriptors=descriptors):
                self._descriptors.update({descriptor.platform: descriptor for descriptor in descriptors})
            case InterruptSession():
                return self._find_session(message)
            case BindingsRead():
                self._interrupt(message)
            case PeersRead():
                self._perform_late(message)
            case PeerRevoked(peer=peer):
                self._revoke(peer, message)
            case DrainRelays():
                return self._drain()
            case ListLinks():
                return self._list_links()
            case Down():
                self._nursery.ended(self.ctx, message, Restart.TRANSIENT)
            case RestartChild():
                self._nursery.due(self.ctx, message)
            case PlaceFree():
                self._nursery.freed(message)
        return None

    # Peers

    def _open(self, message: OpenLink) -> Any:
        if self._draining:
            raise Unavailable("going down", code="draining")
        if message.peer.name == CONSOLE:
            raise Forbidden("the name is the built-in connector's")
        if message.role is PeerRole.CONNECTOR:
            self._learn((message.peer,))
        self.ctx.forward(self._peer(message.peer.name))
        return DEFERRED

    def _peer(self, name: str) -> Ref:
        place = _place(name)
        child = self.ctx.child(place)
        if child is not None:
            return child
        me = self.ctx.ref
        return self.ctx.spawn(
            place,
            lambda: RelayPeer(
                name, store=self._store, relays=me, sessions=self._sessions, settings=self._settings
            ),
            held=True,
        )

    def _learn(self, peers: tuple[PeerRow, ...]) -> None:
        for row in peers:
            if row.role is PeerRole.CONNECTOR and row.revoked_at is None:
                self._fronts.update(dict.fromkeys(row.identities, row))

    def _revoke(self, peer: str, message: PeerRevoked) -> None:
        self._fronts = {identity: row for identity, row in self._fronts.items() if row.name != peer}
        self._tell_peer(peer, message)

    def _tell_peer(self, name: str, message: DeliveryReady | PeerRevoked | ShowAnswer) -> None:
        child = self.ctx.child(_place(name))
        if child is not None:
            with contextlib.suppress(ActorStopped):
                child.tell(message)

    def _peers(self) -> list[Ref]:
        return [child for child in self.ctx.children() if child.path != f"{self.ctx.path}/{CONSOLE}"]

    # Actions

    def _perform_action(self, message: PerformAction) -> Any:
        if message.platform in self._console_platforms:
            console = self.ctx.child(CONSOLE)
            if console is None:
                return results.not_connected()
            self.ctx.forward(console)
            return DEFERRED
        row = self._fronts.get(f"{message.platform}:{message.bot_id}")
        if row is None:
            # It may have been added since this actor last looked.
            reply = self.ctx.defer()
            self.ctx.pipe(
                self._store.ask(ListPeers(), self._store_budget()),
                lambda peers: PeersRead(peers=peers, request=message, reply=reply),
                lambda error: PeersRead(peers=None, request=message, reply=reply),
            )
            return DEFERRED
        if not _owns_scope(row, message):
            return results.egress_declined()
        self.ctx.forward(self._peer(row.name))
        return DEFERRED

    def _perform_late(self, message: PeersRead) -> None:
        request, reply = message.request, message.reply
        if message.peers is not None:
            self._learn(message.peers)
        row = self._fronts.get(f"{request.platform}:{request.bot_id}")
        if row is not None and _owns_scope(row, request):
            asked = self._peer(row.name).ask(request, self.ctx.within(self._settings.outbound_s))
            copy_answer(asked, reply, results.of_error)
        elif reply is not None:
            reply.set(_why_nobody(row, message.peers))

    def _describe(self, platform: str) -> Descriptor:
        if platform in self._console_platforms:
            return console_descriptor(platform)
        # One whose connector is away is described, too: what is sent there is kept for it (RLY-17).
        return self._descriptors.get(platform) or Descriptor(platform=platform, label=platform)

    # Interrupts

    def _find_session(self, message: InterruptSession) -> Any:
        reply = self.ctx.defer()
        self.ctx.pipe(
            self._store.ask(
                FindBindings(peer=message.peer, session_key=message.session_key), self._store_budget()
            ),
            lambda bindings: BindingsRead(bindings=bindings, request=message, reply=reply),
            lambda error: BindingsRead(bindings=(), request=message, reply=reply),
        )
        return DEFERRED

    def _interrupt(self, message: BindingsRead) -> None:
        if message.reply is not None:
            message.reply.set(None)
        peer, bindings = message.request.peer, message.bindings
        if len(bindings) != 1:
            # Exactly that session's turn: with several under the key it is none of them.
            self.ctx.publish("relay.interrupt_ignored", peer=peer, sessions=len(bindings))
            return
        stop = StopTurn(session_id=bindings[0].session_id, by=f"relay:{peer}")
        self._sessions.ask(stop, self._store_budget())

    # Drain and views

    def _drain(self) -> Any:
        self._draining = True
        reply = self.ctx.defer()
        budget = self.ctx.budget or self.ctx.within(self._settings.disconnect_s)
        close = CloseLinks(code=GOING_DOWN, reason="going down", hold=True)
        closing = [peer.ask(close, budget) for peer in self._peers()]
        self.ctx.run(answer_all(reply, closing, lambda answers: None), "drain")
        return DEFERRED

    def _list_links(self) -> Any:
        reply = self.ctx.defer()
        asked = [peer.ask(ListLinks(), self._store_budget()) for peer in self._peers()]
        self.ctx.run(
            answer_all(reply, asked, lambda answers: tuple(link for links in answers for link in links)),
            "list-links",
        )
        return DEFERRED

    def _store_budget(self) -> Budget:
        return self.ctx.within(self._settings.store_s)


def _place(peer: str) -> str:
    """A peer's name as one step of a path."""
    return quote(peer, safe=":@ ")


def _owns_scope(row: PeerRow, message: PerformAction) -> bool:
    metadata = message.action.get("metadata")
    scope = metadata.get("scope_id") if isinstance(metadata, dict) else None
    return row.owns_scope(scope)


def _why_nobody(row: PeerRow | None, peers: tuple[PeerRow, ...] | None) -> Result:
    if row is not None:
        return results.egress_declined()
    return results.no_connector() if peers is not None else results.failure("store unavailable")
