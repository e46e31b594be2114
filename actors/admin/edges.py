"""What admin requests reach, and what each is carried out with."""

import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import structlog

from actors.admin.settings import AdminSettings
from actors.exceptions import TurnkeepError
from actors.messages.admin import Answer
from actors.messages.rows import KeyRow
from actors.messages.store import Read
from actors.runtime import Address, Budget, Ref, Reply, System

log = structlog.get_logger("turnkeep.admin")

T = TypeVar("T")

FOLLOW_UP_SECONDS = 300.0
"""How long the store may take to say what became of a write; nobody waits for that any more."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the running daemon before it serves."""

    version: str
    boot_id: str
    pid: int
    data_dir: str
    started_at: float
    """Unix seconds, for people."""
    started: float
    """Monotonic seconds, for the uptime."""

    @classmethod
    def of(cls, system: System, version: str, data_dir: str) -> "Facts":
        """Return the facts of this process, which begins now."""
        return cls(
            version=version,
            boot_id=system.new_id(),
            pid=os.getpid(),
            data_dir=data_dir,
            started_at=system.clock.wall(),
            started=system.clock.monotonic(),
        )


class Edges(msgspec.Struct, frozen=True, kw_only=True):
    """The actors that verbs ask."""

    system: System
    store: Ref
    sessions: Ref
    relays: Ref
    lanes: Ref
    quarantine: Ref
    daemon: Address
    """Is told ShutdownAsked."""
    facts: Facts
    url: Callable[[], str | None]
    """Where the daemon can be reached, once it is."""
    admitting: Callable[[], bool]
    """Whether turns begin: no more once the daemon drains."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request on its way: for whom, until when, and through what."""

    caller: KeyRow
    watcher: Any
    budget: Budget
    edges: Edges
    settings: AdminSettings

    def now(self) -> float:
        """Unix seconds, for a write."""
        return self.edges.system.clock.wall()

    def follow_up(self, question: Read[T], act: Callable[[T], None]) -> None:
        """
        See to a write that the caller was told nothing certain of: ask the store what it has, and act on that.

        The store serves in order: what it had begun is done before it looks.
        """

        def answered(reply: Reply[T]) -> None:
            try:
                act(reply.result())
            except TurnkeepError as error:
                log.warning(
                    "admin.not_followed_up", asked=type(question).__name__, error=type(error).__name__
                )

        asked = self.edges.store.ask(question, Budget.of(self.edges.system.clock, FOLLOW_UP_SECONDS))
        asked.on_done(answered)


Verb = Callable[[Any, Call], Awaitable[Answer]]
"""Carries one kind of request out. Raises Refusal to say no."""
