"""
What was cancelled and has not ended, and which places in the tree are held because of that or by a supervisor.

Unroute first, cancel second, never await the lost task. Nothing starts at a path while a task of an earlier incarnation
may still run there, or while the place is quarantined: a start that comes meanwhile is made up for afterwards.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
import structlog

from actors.exceptions import RuntimeFault
from actors.messages.base import Message
from actors.messages.quarantine import PlaceEnded, PlaceFree, PlaceQuarantined, QuarantineReason

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.ref import Ref
    from actors.runtime.system import System

log = structlog.get_logger("turnkeep.runtime")

Task = asyncio.Future[None]
"""A task, or what stands for a thread: anything that ends some time."""


class Lost:
    """The tasks of one incarnation that were cancelled and have not ended."""

    __slots__ = ("by", "incarnation", "since", "tasks", "why")

    def __init__(self, incarnation: int, since: float, by: str, why: str) -> None:
        self.incarnation = incarnation
        # Monotonic seconds.
        self.since = since
        self.by = by
        self.why = why
        self.tasks: set[Task] = set()


class Custody:
    """By path, so that it outlives the cells: a parent that is made anew may not start such a child either."""

    def __init__(self, system: "System") -> None:
        self._system = system
        self._lost: dict[str, Lost] = {}
        self._quarantined: dict[str, PlaceQuarantined] = {}
        # Paths whose parent wants to know when they are free.
        self._awaited: set[str] = set()
        # Let go by force: nobody else holds them, and the loop itself only weakly.
        self._disowned: set[Task] = set()
        self._sink: Ref | None = None

    # Lost tasks

    def take(self, cell: "Cell", tasks: Iterable[Task], *, by: str, why: str) -> None:
        """Remember cancelled tasks of a cell's last incarnation until they have ended."""
        now = self._system.clock.monotonic()
        lost = self._lost.setdefault(cell.path, Lost(cell.incarnation, now, by, why))
        for task in tasks:
            lost.tasks.add(task)
            task.add_done_callback(lambda done: self._task_ended(cell.path, lost, done))

    def tasks(self, path: str) -> frozenset[Task]:
        """Return what is lost at ``path`` and has not ended."""
        lost = self._lost.get(path)
        return frozenset(lost.tasks) if lost is not None else frozenset()

    def lost(self) -> list[tuple[str, float]]:
        """Return the paths with lost tasks that are not quarantined, and for how many seconds."""
        now = self._system.clock.monotonic()
        return [
            (path, now - lost.since) for path, lost in self._lost.items() if path not in self._quarantined
        ]

    def cancel_again(self, path: str) -> bool:
        """Cancel what is lost at ``path`` once more; say whether there was anything."""
        lost = self.tasks(path)
        for task in lost:
            task.cancel()
        return bool(lost)

    def _task_ended(self, path: str, lost: Lost, task: Task) -> None:
        lost.tasks.discard(task)
        self._disowned.discard(task)
        if not task.cancelled():
            # Seen, and nobody's any more.
            task.exception()
        if lost.tasks or self._lost.get(path) is not lost:
            return
        del self._lost[path]
        place = self._quarantined.get(path)
        if place is None:
            self._let_go(path, told=path in self._awaited)
            return
        self._report(PlaceEnded(path=path, incarnation=place.incarnation))
        if place.reason is QuarantineReason.STILL_ALIVE:
            del self._quarantined[path]
            self._let_go(path, told=True)
        else:
            self._quarantined[path] = msgspec.structs.replace(place, proved=True)

    # Places

    def holds(self, path: str) -> bool:
        """Say whether nothing may start at ``path`` now."""
        return path in self._lost or path in self._quarantined

    def wait_for(self, path: str) -> bool:
        """Say whether something may start at ``path`` now; if not, its parent gets a PlaceFree when it may."""
        if not self.holds(path):
            return True
        self._awaited.add(path)
        return False

    def is_quarantined(self, path: str) -> bool:
        """Say whether the place is quarantined."""
        return path in self._quarantined

    def place(self, path: str) -> PlaceQuarantined | None:
        """Return what is known of a quarantined place."""
        return self._quarantined.get(path)

    def quarantined(self) -> tuple[PlaceQuarantined, ...]:
        """Return the quarantined places, the oldest first."""
        return tuple(self._quarantined.values())

    def quarantine(self, path: str, reason: QuarantineReason, *, by: str = "", why: str = "") -> None:
        """
        Unroute a place until it is free or released. A second one of the same place changes nothing.

        ``by`` and ``why`` are evidence; those of the lost tasks, if there are any, come first.
        """
        if path in self._quarantined:
            return
        system = self._system
        lost, cell = self._lost.get(path), system.cell(path)
        since = lost.since if lost is not None else system.clock.monotonic()
        incarnation = lost.incarnation if lost is not None else cell.incarnation if cell is not None else 0
        place = self._quarantined[path] = PlaceQuarantined(
            path=path,
            incarnation=incarnation,
            reason=reason,
            proved=lost is None,
            by=lost.by if lost is not None else by,
            why="; ".join(filter(None, (lost.why if lost is not None else "", why))),
            since=system.clock.wall() - (system.clock.monotonic() - since),
        )
        error = None
        if cell is not None:
            error = cell.last_error
            cell.seclude(again=reason is QuarantineReason.INTENSITY)
        log.error("actor.quarantined", path=path, incarnation=incarnation, reason=reason, error=error)
        system.publish(
            "actor.quarantined",
            parent_of(path),
            {
                "child": path,
                "incarnation": incarnation,
                "reason": str(reason),
                "proved": place.proved,
                "error": error,
            },
        )
        self._report(place)

    def release(self, path: str, incarnation: int) -> None:
        """Free a quarantined place on an operator's word; what is still lost there is fenced and nobody's from now on."""
        place = self._quarantined.get(path)
        if place is None or place.incarnation != incarnation:
            return
        del self._quarantined[path]
        lost = self._lost.pop(path, None)
        if lost is not None:
            self._disowned |= lost.tasks
        self._let_go(path, told=True, released=True)

    def _let_go(self, path: str, *, told: bool, released: bool = False) -> None:
        self._awaited.discard(path)
        parent = self._system.find(parent_of(path)) if told and path != "/" else None
        if parent is not None:
            with contextlib.suppress(RuntimeFault):
                # Before the start: should that fail at once, its Down comes second.
                parent.tell(PlaceFree(name=path.rsplit("/", 1)[-1], released=released))
        cell = self._system.cell(path)
        if cell is not None:
            cell.set_free()

    # Reports

    def report_to(self, sink: "Ref") -> None:
        """Name the actor that keeps quarantines; those that came before it are in ``quarantined``."""
        self._sink = sink

    def _report(self, message: Message) -> None:
        if self._sink is not None:
            with contextlib.suppress(RuntimeFault):
                self._sink.tell(message)


def parent_of(path: str) -> str:
    """Return the path one step up."""
    return path.rsplit("/", 1)[0] or "/"
