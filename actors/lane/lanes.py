"""/lanes: the parent of all model lanes. It knows which serve, how their backends do, and sets them anew."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import structlog

from actors.exceptions import ActorStopped, ConfigError, Invalid
from actors.lane.health import ladder
from actors.lane.roster import Roster
from actors.messages.base import ControlMessage
from actors.messages.lane import (
    BackendHealth,
    LaneBinding,
    LaneSpec,
    ListLanes,
    ReloadLanes,
    ResolveLanes,
    RetireLane,
    SetLane,
)
from actors.messages.lifecycle import Down
from actors.messages.quarantine import PlaceFree
from actors.runtime import DEFERRED, Actor, Reply
from actors.supervision import Restart
from actors.supervision.nursery import Nursery, RestartChild, name_of

log = structlog.get_logger("turnkeep.lane")

READ_SECONDS = 5.0
"""How long the configuration is waited for: a disk that does not answer would keep every later reading waiting."""


class LanesRead(ControlMessage, frozen=True, kw_only=True):
    """The configuration has been read; ``why`` says what is wrong in it if it cannot be used."""

    lanes: tuple[LaneSpec, ...] | None
    why: str = ""


class Lanes(Actor):
    """
    Starts each lane and starts it again; a lane that is down or quarantined stays bound.

    ``read`` returns the configured lanes, as they are by then; it may block, and is called beside the loop. It raises
    ConfigError.
    """

    kind = "supervisor"

    def __init__(self, roster: Roster, read: Callable[[], tuple[LaneSpec, ...]]) -> None:
        self._roster = roster
        self._read = read
        self._nursery = Nursery()
        # Who wants the reading under way, and who came when it had begun: the file may have changed since.
        self._reading: list[tuple[str, Reply[Any] | None]] = []
        self._waiting: list[tuple[str, Reply[Any] | None]] = []

    async def on_start(self) -> None:
        """Start the lanes; one that does not start is tried again."""
        for name in self._roster.settings:
            self._spawn(name)

    async def on_receive(self, message: Any) -> Any:
        """Say which lanes there are, set them anew, hear of their streams and of their ends."""
        match message:
            case ResolveLanes(model=model):
                return ladder(self._bindings(), model)
            case ListLanes():
                return self._bindings()
            case BackendHealth():
                self._heard(message)
            case ReloadLanes(by=by):
                self._waiting.append((by, self.ctx.defer()))
                self._read_again()
                return DEFERRED
            case LanesRead():
                self._take(message)
            case Down():
                self._ended(message)
            case RestartChild():
                self._nursery.due(self.ctx, message)
            case PlaceFree():
                self._freed(message)
            case _:
                raise Invalid(f"/lanes does not understand {type(message).__name__}")
        return None

    # The lanes

    def _bindings(self) -> tuple[LaneBinding, ...]:
        found = []
        for name, kept in self._roster.settings.items():
            lane, traits = self.ctx.child(name), kept.spec.traits
            if lane is not None:
                degraded = self._roster.health.is_degraded(traits.backend)
                found.append(
                    LaneBinding(
                        traits=traits, gen=kept.gen, lane=lane, degraded=degraded, live=lane.is_alive()
                    )
                )
        return tuple(found)

    def _spawn(self, name: str) -> None:
        last = self._roster.settings[name]

        def make() -> Actor:
            # One that was quarantined when its lane went is released as what it was, to be told to go.
            kept = self._roster.settings.get(name, last)
            made: Actor = kept.spec.make(kept.gen)
            return made

        self.ctx.spawn(name, make, held=True)

    def _ended(self, down: Down) -> None:
        name = name_of(down)
        if name in self._roster.settings:
            self._nursery.ended(self.ctx, down, Restart.PERMANENT)
        elif self.ctx.child(name) is not None:
            self._nursery.give_up(self.ctx, name)

    def _freed(self, message: PlaceFree) -> None:
        self._nursery.freed(message)
        if message.name not in self._roster.settings:
            self._retire(message.name)

    def _retire(self, name: str) -> None:
        """Let a lane go that is not configured any more: at once if it does not run, else after its last stream."""
        lane = self.ctx.child(name)
        if lane is None:
            return
        if self.ctx.is_down(name):
            self._nursery.give_up(self.ctx, name)
        else:
            with contextlib.suppress(ActorStopped):
                lane.tell(RetireLane())

    # Health

    def _heard(self, message: BackendHealth) -> None:
        before = self._roster.health
        self._roster.health = before.heard(message.backend, good=message.good)
        degraded = self._roster.health.is_degraded(message.backend)
        if degraded is not before.is_degraded(message.backend):
            log.warning("lane.degraded" if degraded else "lane.healthy", backend=message.backend)
            self.ctx.publish("lane.degraded" if degraded else "lane.healthy", backend=message.backend)

    # Reload

    def _reload(self, lanes: tuple[LaneSpec, ...], by: str) -> tuple[str, ...]:
        changes = self._roster.reload(lanes)
        for name in changes.gone:
            self._retire(name)
        for name in (*changes.new, *changes.changed):
            kept, lane = self._roster.settings[name], self.ctx.child(name)
            if lane is None:
                self._spawn(name)
            else:
                # One that is down or quarantined has these settings when it starts.
                with contextlib.suppress(ActorStopped):
                    lane.tell(SetLane(settings=kept.spec.settings, gen=kept.gen))
        log.info("lanes.reloaded", by=by, new=changes.new, changed=changes.changed, gone=changes.gone)
        self.ctx.publish("lanes.reloaded", by=by, lanes=" ".join(changes.names))
        return changes.names

    def _read_again(self) -> None:
        if self._waiting and not self._reading:
            self._reading, self._waiting = self._waiting, []
            self.ctx.run(self._read_beside(), "read")

    async def _read_beside(self) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                read = LanesRead(lanes=await asyncio.to_thread(self._read))
        except ConfigError as error:
            read = LanesRead(lanes=None, why=str(error))
        except TimeoutError:
            read = LanesRead(lanes=None, why=f"it could not be read within {READ_SECONDS:g} s")
        except Exception as error:
            read = LanesRead(lanes=None, why=f"it could not be read ({type(error).__name__})")
        self.ctx.ref.tell(read)

    def _take(self, read: LanesRead) -> None:
        askers, self._reading = self._reading, []
        by = ", ".join(dict.fromkeys(by for by, _ in askers))
        if read.lanes is not None:
            names = self._reload(read.lanes, by)
        else:
            log.error("lanes.not_reloaded", by=by, why=read.why)
            self.ctx.publish("lanes.not_reloaded", by=by, why=read.why)
        for _, reply in askers:
            if reply is None:
                continue
            if read.lanes is not None:
                reply.set(names)
            else:
                reply.set_exception(
                    Invalid(f"the lanes stay as they are, as the configuration is wrong: {read.why}")
                )
        self._read_again()
