"""Sets whose order is that of their objects' addresses, made sets in the order of their entries: else no run repeats."""

import contextlib
from collections.abc import Iterable, Iterator, MutableSet
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


class Ordered(MutableSet[Any]):
    """A set that is gone through, and popped from, in the order of adding."""

    def __init__(self, entries: Iterable[Any] = ()) -> None:
        self._entries = dict.fromkeys(entries)

    def __contains__(self, entry: Any) -> bool:
        return entry in self._entries

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, value: Any) -> None:
        """Put in."""
        self._entries[value] = None

    def discard(self, value: Any) -> None:
        """Take out, if it is there."""
        self._entries.pop(value, None)


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
