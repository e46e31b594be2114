"""Sets whose order is that of their objects' addresses, made sets in the order of their entries: else no run repeats."""

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

MODULES = (
    "actors.runtime.custody",
    "actors.runtime.deadlines",
    "actors.runtime.incarnation",
    "actors.runtime.system",
    "asyncio.taskgroups",
    "uvicorn.server",
)
"""Where tasks, connections, replies or actors are kept in sets that somebody goes through."""


class Ordered(dict[Any, None]):
    """What is used of a set, in the order of adding."""

    def add(self, entry: Any) -> None:
        """Put in."""
        self[entry] = None

    def discard(self, entry: Any) -> None:
        """Take out, if it is there."""
        self.pop(entry, None)

    def pop(self, *entry: Any) -> Any:
        """Take out the first one, as a set does with any; or, as a dictionary does, the one that is named."""
        if entry:
            return super().pop(*entry)
        first = next(iter(self))
        del self[first]
        return first


@contextlib.contextmanager
def ordered() -> Iterator[None]:
    """Let the modules make such sets."""
    modules: list[Any] = [import_module(name) for name in MODULES]
    for module in modules:
        module.set = Ordered
    try:
        yield
    finally:
        for module in modules:
            del module.set
