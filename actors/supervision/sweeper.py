"""
Looks at busy and lost actors now and then.

Those that are stuck are killed, so that their supervisors can start them again; those that do not even end then are
quarantined.
"""

from typing import Any

import structlog

from actors.messages.base import ControlMessage
from actors.messages.quarantine import QuarantineReason
from actors.runtime import Actor
from actors.supervision.settings import SupervisionSettings
from actors.supervision.stuck import Busy, stuck

log = structlog.get_logger("turnkeep.supervision")


class SweepDue(ControlMessage, frozen=True, kw_only=True):
    """Look again."""


class Sweeper(Actor):
    """One for the whole tree, instead of a timer for each message."""

    kind = "sweeper"

    def __init__(self, settings: SupervisionSettings) -> None:
        self._settings = settings
        self._due = 0.0

    async def on_start(self) -> None:
        """Begin."""
        self._arm()

    async def on_receive(self, message: Any) -> None:
        """Judge those that are busy, and those that are lost."""
        if not isinstance(message, SweepDue):
            return
        late = self.ctx.now() - self._due
        custody = self.ctx.system.custody
        lost = tuple(Busy(path, seconds) for path, seconds in custody.lost())
        for actor in stuck(lost, late_s=late, limit_s=self._settings.lost_s):
            custody.quarantine(actor.path, QuarantineReason.STILL_ALIVE)
        busy = tuple(Busy(path, seconds) for path, seconds in self.ctx.system.busy())
        for actor in stuck(busy, late_s=late, limit_s=self._settings.stuck_s):
            log.error("actor.stuck", path=actor.path, seconds=round(actor.seconds, 3))
            self.ctx.publish("actor.stalled", child=actor.path, seconds=round(actor.seconds, 3))
            self.ctx.system.kill(actor.path, by=self.ctx.path, why="its handler was stuck")
        self._arm()

    def _arm(self) -> None:
        self._due = self.ctx.now() + self._settings.sweep_s
        self.ctx.set_timer("sweep", self._settings.sweep_s, SweepDue())
