"""Verbs about the daemon as a whole."""

from typing import TypeVar

from actors.admin.edges import Call, Verb
from actors.exceptions import TurnkeepError
from actors.messages.admin import (
    AdminRequest,
    Answer,
    BackUpStore,
    Drain,
    DrainAsked,
    ShowSystem,
    ShutDown,
    ShutdownAsked,
)
from actors.messages.relay import ListLinks
from actors.messages.session import LiveSessions
from actors.messages.store import BackUp, StoreInfo
from actors.runtime import Reply

T = TypeVar("T")


async def show_system(request: ShowSystem, call: Call) -> Answer:
    """
    Return facts and counts. A part that does not answer in time is None: this is asked when something is wrong, too.
    """
    edges = call.edges
    budget = call.budget.at_most(call.settings.glance_s)
    asked_store = edges.store.ask(StoreInfo(), budget)
    asked_sessions = edges.sessions.ask(LiveSessions(), budget)
    asked_links = edges.relays.ask(ListLinks(), budget)
    sessions = await _glance(asked_sessions)
    links = await _glance(asked_links)
    facts = edges.facts
    return {
        "version": facts.version,
        "boot_id": facts.boot_id,
        "pid": facts.pid,
        "data_dir": facts.data_dir,
        "url": edges.url(),
        "draining": not edges.admitting(),
        "started_at": facts.started_at,
        "uptime_s": round(edges.system.clock.monotonic() - facts.started, 3),
        "actors": len(edges.system.actors()),
        "sessions_live": None if sessions is None else len(sessions),
        "links": None if links is None else len(links),
        "dead_letters": dict(edges.system.dead_letters.counts),
        "store": await _glance(asked_store),
    }


async def back_up(request: BackUpStore, call: Call) -> Answer:
    """Return what the copy is."""
    return {"backup": await call.edges.store.ask(BackUp(path=request.path), call.budget)}


async def drain(request: Drain, call: Call) -> Answer:
    """Pass the wish on to whoever runs the daemon."""
    call.edges.daemon.tell(DrainAsked(by=call.caller.name))
    return {"draining": True}


async def shut_down(request: ShutDown, call: Call) -> Answer:
    """Pass the wish on to whoever runs the daemon."""
    call.edges.daemon.tell(ShutdownAsked(by=call.caller.name))
    return {"shutting_down": True}


async def _glance(reply: Reply[T]) -> T | None:
    try:
        return await reply
    except TurnkeepError:
        return None


SYSTEM_VERBS: dict[type[AdminRequest], Verb] = {
    ShowSystem: show_system,
    BackUpStore: back_up,
    Drain: drain,
    ShutDown: shut_down,
}
