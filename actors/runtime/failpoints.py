"""Named points at which a test makes the real program fail: die, or raise."""

import os
import signal
from collections.abc import Callable


class Failpoints:
    """
    Named points with an action each. Without any set, passing one costs a dict look-up.

    The environment form is ``name=kill@3,other=raise``: at the third passage of ``name`` the process gets SIGKILL.
    """

    def __init__(self) -> None:
        self._actions: dict[str, Callable[[], None]] = {}
        self.passed: dict[str, int] = {}

    @classmethod
    def parse(cls, text: str) -> "Failpoints":
        """Build from the environment form. Raises ValueError for an unknown action."""
        points = cls()
        for part in filter(None, (item.strip() for item in text.split(","))):
            name, _, action = part.partition("=")
            verb, _, nth = action.partition("@")
            if verb not in ("kill", "raise"):
                raise ValueError(f"failpoint {name}: unknown action {verb!r}; use kill or raise")
            points.set(name, _kill if verb == "kill" else _raise, at=int(nth or 1))
        return points

    def set(self, name: str, action: Callable[[], None], *, at: int = 1) -> None:
        """Run ``action`` at the ``at``-th passage of ``name`` from now on."""
        left = at

        def count_down() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                action()

        self._actions[name] = count_down

    def clear(self, name: str) -> None:
        """Forget the action of ``name``."""
        self._actions.pop(name, None)

    def hit(self, name: str) -> None:
        """Pass the point ``name``."""
        if not self._actions:
            return
        self.passed[name] = self.passed.get(name, 0) + 1
        action = self._actions.get(name)
        if action is not None:
            action()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise OSError("failpoint")
