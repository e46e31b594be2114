"""One relay peer: its links, of which the newest counts, and its outbox."""

import contextlib
from typing import Any

import msgspec

from actors.exceptions import ActorStopped, Forbidden, Invalid, Unavailable
from actors.keep import keep
from actors.messages.lifecycle import Down
from actors.messages.link import CloseLink, DescribeLink, SendAction
from actors.messages.relay import (
    CloseLinks,
    DeliveryReady,
    EditAnswer,
    LinkGenDrawn,
    LinkOpened,
    LinkUp,
    ListLinks,
    OpenLink,
    PeerRead,
    PeerRevoked,
    PerformAction,
    PlatformsKnown,
    Result,
)
from actors.messages.rows import DeliveryRow, NewDelivery, PeerRole, Route
from actors.messages.store import (
    GetPeer,
    NextLinkGen,
    PutDelivery,
)
from actors.relay import outbox_state, results
from actors.relay.actions import Send, read
from actors.relay.courier import Courier
from actors.relay.gathering import answer_all, answer_with, copy_answer
from actors.relay.link import Link
from actors.relay.peer_link import PeerLink, send_budget
from actors.relay.settings import RelaySettings
from actors.runtime import DEFERRED, Actor, Address, Budget, Ref

TAKEN_OVER = 4409
REVOKED = 4401
LINK = "link-"
"""How the places of its links begin."""


class RelayPeer(Actor):
    """The parent of a peer's links."""

    kind = "peer"

    def __init__(
        self, name: str, *, store: Ref, relays: Ref, sessions: Address, settings: RelaySettings
    ) -> None:
        self._name = name
        self._store = store
        self._relays = relays
        self._sessions = sessions
        self._settings = settings
        # Links by their number, those that are going included.
        self._links: dict[int, PeerLink] = {}
        self._revoked = False
        self._holding = False

    async def on_start(self) -> None:
        """Settle what an earlier incarnation left behind."""
        self._courier = Courier(
            self.ctx,
            self._name,
            store=self._store,
            sessions=self._sessions,
            settings=self._settings,
            current=self._current,
        )

    async def on_receive(self, message: Any) -> Any:
        """Serve links, actions and deliveries."""
        match message:
            case OpenLink():
                return self._open(message)
            case PeerRead():
                self._draw_gen(message)
            case LinkGenDrawn():
                self._start_link(message)
            case LinkUp():
                self._link_up(message)
            case Down(path=path):
                place = path.rsplit("/", 1)[1]
                if place.startswith(LINK):
                    self._link_down(int(place.removeprefix(LINK)))
                else:
                    self._courier.live.gone(path)
            case EditAnswer():
                return self._courier.live.edit(message)
            case PerformAction():
                return self._perform_action(message)
            case PeerRevoked():
                self._revoked = True
                for link in self._links.values():
                    link.ref.ask(
                        CloseLink(code=REVOKED, reason="revoked"), self.ctx.within(self._settings.close_s)
                    )
            case CloseLinks():
                return self._close_links(message)
            case ListLinks():
                return self._list_links()
            case _:
                self._courier.hear(message)
        return None

    # Links

    def _open(self, message: OpenLink) -> Any:
        if self._holding:
            raise Unavailable("going down", code="draining")
        if message.role is not message.peer.role:
            raise Forbidden(f"the peer is a {message.peer.role}, not a {message.role}")
        reply = self.ctx.defer()
        self.ctx.pipe(
            self._store.ask(GetPeer(name=self._name), self._store_budget()),
            lambda row: PeerRead(peer=row, request=message, reply=reply),
            lambda error: PeerRead(peer=None, request=message, reply=reply),
        )
        return DEFERRED

    def _draw_gen(self, message: PeerRead) -> None:
        row, reply = message.peer, message.reply
        if row is None:
            reply.set_exception(Unavailable("the store is away"))
            return
        if row.revoked_at is not None:
            reply.set_exception(Forbidden("revoked", code="revoked"))
            return
        # The record as it is now, not as it was when the socket was opened.
        request = msgspec.structs.replace(message.request, peer=row)
        self.ctx.pipe(
            self._store.ask(NextLinkGen(at=self.ctx.wall(), peer=self._name), self._store_budget()),
            lambda gen: LinkGenDrawn(link_gen=gen, request=request, reply=reply),
            lambda error: LinkGenDrawn(link_gen=None, request=request, reply=reply),
        )

    def _start_link(self, message: LinkGenDrawn) -> None:
        gen, request, reply = message.link_gen, message.request, message.reply
        if self._revoked:
            reply.set_exception(Forbidden("revoked", code="revoked"))
            return
        if gen is None or self._holding:
            code = "draining" if self._holding else None
            reply.set_exception(Unavailable("not now", code=code))
            return
        for older in self._links.values():
            with contextlib.suppress(ActorStopped):
                older.ref.tell(CloseLink(code=TAKEN_OVER, reason="taken over by a newer link"))
        me = self.ctx.ref
        ref = self.ctx.spawn(
            f"{LINK}{gen}",
            lambda: Link(
                request.peer,
                request.role,
                gen,
                wire=request.wire,
                owner=me,
                relays=self._relays,
                settings=self._settings,
            ),
        )
        self._links[gen] = PeerLink(gen, ref, request.role, request.peer)
        reply.set(LinkOpened(link=ref, link_gen=gen))

    def _link_up(self, message: LinkUp) -> None:
        link = self._links.get(message.link_gen)
        if link is None:
            return
        self._links[message.link_gen] = msgspec.structs.replace(link, descriptors=message.descriptors)
        if link.role is PeerRole.CONNECTOR:
            self._relays.tell(PlatformsKnown(peer=self._name, descriptors=message.descriptors))
            self._courier.decide(outbox_state.LinkRose())
            self._courier.live.link_came()

    def _link_down(self, gen: int) -> None:
        self._links.pop(gen, None)
        if self._current() is None:
            self._courier.decide(outbox_state.LinkFell())

    def _current(self) -> PeerLink | None:
        """The newest connector link whose handshake is done."""
        up = [
            gen
            for gen, link in self._links.items()
            if link.role is PeerRole.CONNECTOR and link.descriptors is not None
        ]
        return self._links[max(up)] if up else None

    def _close_links(self, message: CloseLinks) -> Any:
        if message.hold:
            self._holding = True
            self._courier.decide(outbox_state.Held())
        if not self._links:
            return None
        reply = self.ctx.defer()
        budget = self.ctx.budget or self.ctx.within(self._settings.disconnect_s)
        close = CloseLink(code=message.code, reason=message.reason)
        closing = [link.ref.ask(close, budget) for link in self._links.values()]
        self.ctx.run(answer_all(reply, closing, lambda answers: None), "close-links")
        return DEFERRED

    def _list_links(self) -> Any:
        reply = self.ctx.defer()
        asked = [link.ref.ask(DescribeLink(), self._store_budget()) for link in self._links.values()]
        self.ctx.run(answer_all(reply, asked, tuple), "list-links")
        return DEFERRED

    # Actions of gateways

    def _perform_action(self, message: PerformAction) -> Any:
        link = self._current()
        if link is not None and link.describes(message.platform):
            action = SendAction(action=message.action, platform=message.platform, bot_id=message.bot_id)
            copy_answer(
                link.ref.ask(action, send_budget(self.ctx, self._settings)),
                self.ctx.defer(),
                results.of_error,
            )
            return DEFERRED
        if message.action.get("op") != "send":
            return results.not_connected()
        try:
            delivery = self._delivery_of(message)
        except Invalid as invalid:
            return results.failure(invalid.message)
        put = PutDelivery(at=self.ctx.wall(), delivery=delivery)
        kept = keep(self._store, put, self._store_budget())
        self.ctx.run(answer_with(self.ctx.defer(), kept, results.of_error, self._put), "put-delivery")
        return DEFERRED

    def _put(self, row: DeliveryRow) -> Result:
        # Should a link have come up meanwhile, its claim may have been too early to see the delivery.
        self.ctx.ref.tell(DeliveryReady(peer=self._name))
        return {"success": True}

    def _delivery_of(self, message: PerformAction) -> NewDelivery:
        send = read(message.action, Send)
        return NewDelivery(
            delivery_id=self.ctx.system.new_id(),
            peer=self._name,
            route=Route(
                platform=message.platform,
                chat_id=send.chat_id,
                thread_id=send.metadata.thread_id,
                user_id=send.metadata.user_id,
                scope_id=send.metadata.scope_id,
                message_id=send.reply_to,
            ),
            content=send.content,
        )

    # Budgets

    def _store_budget(self) -> Budget:
        return self.ctx.within(self._settings.store_s)
