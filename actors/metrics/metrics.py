"""/metrics: counts the attempts that turns tell of. What it has counted goes with it: who reads it expects that."""

from typing import Any

from actors.messages.metrics import AttemptMeasured, LaneMeasures, ReadMeasures
from actors.metrics.tally import Tally
from actors.runtime import Actor


class Metrics(Actor):
    """Counts, and answers with what it has counted."""

    kind = "metrics"

    def __init__(self) -> None:
        self._tally = Tally()

    async def on_receive(self, message: Any) -> tuple[LaneMeasures, ...] | None:
        """Count an attempt, or tell what is counted."""
        match message:
            case AttemptMeasured():
                self._tally.count(message)
            case ReadMeasures():
                return self._tally.measures()
        return None
