"""Keeps full garbage collections short: what has outlived one is not looked at by each of the next (REL-5)."""

import gc
from typing import Any

OFTEN = 3
"""After how many collections of the middle generation a full one comes: the more often, the less is there to look at."""

GROWTH = 2
"""How many times what was there at the last look at everything may be there before the next one."""


class Collector:
    """
    Sets aside what survives a full collection, which would hold the loop for over 50 ms with a thousand live sessions.

    What is set aside still goes with its last reference. Only what comes to refer to itself after that waits for the next
    look at everything, so that there is never more than a few times what is in use.
    """

    def __init__(self) -> None:
        self._known = 0
        self._before = gc.get_threshold()

    def start(self) -> None:
        """Set aside what there is now, and from now on what outlives a full collection."""
        gc.collect()
        gc.set_threshold(*self._before[:2], OFTEN)
        gc.callbacks.append(self._collected)
        self.keep()

    def stop(self) -> None:
        """Leave the garbage collector as it was."""
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def keep(self) -> None:
        """Set aside what there is now; it is what a growth is measured by."""
        gc.freeze()
        self._known = gc.get_freeze_count()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if phase != "stop" or info["generation"] != 2:
            return
        gc.freeze()
        if (kept := gc.get_freeze_count()) > GROWTH * self._known:
            self._known = kept
            gc.unfreeze()
