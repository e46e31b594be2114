"""Looks at busy actors now and then, and kills those that are stuck, so that their supervisors can start them again."""

from typing import Any

import msgspec
import structlog

from actors.messages.base import ControlMessage
from actors.runtime import Actor
from actors.supervision.stuck import Busy, stuck

log = structlog.get_logger("turnkeep.supervision")


class SweepDue(ControlMessage, frozen=True, kw_only=True):
    """Look again."""


class SweepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[supervision]``; times in seconds."""

    sweep_s: float = 0.25
    """How often busy actors are looked at."""
    stuck_s: float = 60.0
    """A handler that takes longer ends its actor: handlers never wait for anything long."""


class Sweeper(Actor):
    """One for the whole tree, instead of a timer for each message."""

    kind = "sweeper"

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._due = 0.0

    async def on_start(self) -> None:
        """Begin."""
        self._arm()

    async def on_receive(self, message: Any) -> None:
        """Judge those that are busy now."""
        if not isinstance(message, SweepDue):
            return
        late = self.ctx.now() - self._due
        busy = tuple(Busy(path, seconds) for path, seconds in self.ctx.system.busy())
        for actor in stuck(busy, late_s=late, limit_s=self._settings.stuck_s):
            log.error("actor.stuck", path=actor.path, seconds=round(actor.seconds, 3))
            self.ctx.publish("actor.stalled", child=actor.path, seconds=round(actor.seconds, 3))
            self.ctx.system.kill(actor.path)
        self._arm()

    def _arm(self) -> None:
        self._due = self.ctx.now() + self._settings.sweep_s
        self.ctx.set_timer("sweep", self._settings.sweep_s, SweepDue())
