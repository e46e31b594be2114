"""Verbs about relay peers: who may connect, which links live, and what waits to be delivered."""

import base64
from typing import Any

import msgspec

from actors.admin.edges import Call, Verb
from actors.exceptions import Conflict, Invalid, OutcomeUnknown
from actors.keep import keep
from actors.messages.admin import (
    AddPeer,
    AdminRequest,
    Answer,
    ListAllDeliveries,
    ListAllPeers,
    ListRelays,
    RevokePeerAccess,
    RotatePeerSecret,
)
from actors.messages.relay import ListLinks, PeerRevoked
from actors.messages.rows import DeliveryRow, PeerRow
from actors.messages.secret import Secret
from actors.messages.store import GetPeer, ListDeliveries, ListPeers, PutPeer, RevokePeer, RotatePeer
from actors.runtime import System

SECRET_BYTES = 32

CONSOLE = "console"
"""The built-in connector's name."""


async def list_relays(request: ListRelays, call: Call) -> Answer:
    """Return the links."""
    return {"relays": await call.edges.relays.ask(ListLinks(), call.budget)}


async def list_deliveries(request: ListAllDeliveries, call: Call) -> Answer:
    """Return deliveries without their texts."""
    rows = await call.edges.store.ask(
        ListDeliveries(states=request.states, peer=request.peer, limit=request.limit), call.budget
    )
    return {"deliveries": [_delivery_view(row) for row in rows]}


async def add_peer(request: AddPeer, call: Call) -> Answer:
    """Make a peer and its secret."""
    if request.name == CONSOLE:
        raise Conflict("console is the built-in connector's name; choose another one")
    if not request.identities:
        raise Invalid(
            f"peer {request.name} needs at least one identity platform:bot, for example telegram:my_bot"
        )
    for identity in request.identities:
        platform, colon, bot = identity.partition(":")
        if not (platform and colon and bot):
            raise Invalid(
                f"identity {identity!r} is not of the form platform:bot, for example telegram:my_bot"
            )
    secret = new_secret(call.edges.system)
    row = await keep(
        call.edges.store,
        PutPeer(
            at=call.now(),
            name=request.name,
            role=request.role,
            identities=request.identities,
            scopes=request.scopes,
            secret=secret,
        ),
        call.budget,
    )
    return {"peer": _peer_view(row), "secret": secret.value}


async def list_peers(request: ListAllPeers, call: Call) -> Answer:
    """Return the peers without their secrets."""
    return {"peers": [_peer_view(row) for row in await call.edges.store.ask(ListPeers(), call.budget)]}


async def rotate_peer(request: RotatePeerSecret, call: Call) -> Answer:
    """Make a new secret."""
    secret = new_secret(call.edges.system)
    rotate = RotatePeer(at=call.now(), name=request.name, secret=secret)
    row = await keep(call.edges.store, rotate, call.budget)
    return {"peer": _peer_view(row), "secret": secret.value}


async def revoke_peer(request: RevokePeerAccess, call: Call) -> Answer:
    """Refuse it, and close its links."""
    try:
        row = await keep(call.edges.store, RevokePeer(at=call.now(), name=request.name), call.budget)
    except OutcomeUnknown:
        call.follow_up(GetPeer(name=request.name), lambda found: _close_links(found, call))
        raise
    _close_links(row, call)
    return {"peer": _peer_view(row)}


def _close_links(row: PeerRow | None, call: Call) -> None:
    if row is not None and row.revoked_at is not None:
        call.edges.relays.tell(PeerRevoked(peer=row.name))


def new_secret(system: System) -> Secret:
    """Return a random secret that fits into a URL, a header and a command line, where no word may look like an option."""
    while True:
        text = base64.urlsafe_b64encode(system.random.randbytes(SECRET_BYTES)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return Secret(text)


def _peer_view(row: PeerRow) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(row, secrets=()))
    del view["secrets"]
    return view


def _delivery_view(row: DeliveryRow) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(row)
    for text in ("content", "in_place"):
        del view[text]
    return view


PEER_VERBS: dict[type[AdminRequest], Verb] = {
    ListRelays: list_relays,
    ListAllDeliveries: list_deliveries,
    AddPeer: add_peer,
    ListAllPeers: list_peers,
    RotatePeerSecret: rotate_peer,
    RevokePeerAccess: revoke_peer,
}
