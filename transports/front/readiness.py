"""Whether new turns would be taken: each dependency asked within a bound, the answer kept for a moment."""

import asyncio

from actors.exceptions import TurnkeepError
from actors.messages.store import CheckStore
from transports.front.edges import Edges


class Readiness:
    """The state behind /readyz."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._known: tuple[str, ...] = ()
        self._known_until = float("-inf")
        # One check at a time: those who ask during it get its answer.
        self._checking = asyncio.Lock()

    async def failing(self) -> list[str]:
        """Return the names of the dependencies that fail now."""
        async with self._checking:
            if self._edges.system.clock.monotonic() >= self._known_until:
                self._known = await self._check()
                kept = self._edges.settings.ready_check_s
                self._known_until = self._edges.system.clock.monotonic() + kept
        # Draining is said at once, not a second later.
        return [*self._known, *(() if self._edges.admission.open else ("draining",))]

    async def _check(self) -> tuple[str, ...]:
        budget = self._edges.within(self._edges.settings.ready_check_s)
        asked = self._edges.store.ask(CheckStore(), budget)
        failing: list[str] = []
        try:
            if not any(lane.live for lane in await self._edges.bound_lanes(budget)):
                failing.append("lanes")
        except TurnkeepError:
            failing.append("lanes")
        try:
            await asked
        except TurnkeepError:
            failing.insert(0, "store")
        return tuple(failing)
