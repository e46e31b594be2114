"""
/store: the only owner of the database.

Requests queue while a batch is being committed and go together in the next: load makes the batches, nobody lingers.
"""

import sqlite3
from collections import deque
from typing import Any

import msgspec
import structlog

from actors.exceptions import DeadlineExceeded, HandlerFailed, Invalid, StoreUnavailable
from actors.messages.base import ControlMessage
from actors.messages.lifecycle import DeadLetterReason, DownReason
from actors.messages.store import StoreInfo, Write
from actors.runtime import DEFERRED, Actor, Budget, Reply
from storage.batch import Failure, run_batch
from storage.connection import Connection
from storage.database import Database, explain
from storage.families import families
from storage.retention import Retain
from storage.schema import VERSION

log = structlog.get_logger("turnkeep.store")

BATCH_ROWS = 100
RETAIN_SECONDS = 60.0


class BatchDone(ControlMessage, frozen=True, kw_only=True):
    """The batch under way has been answered."""


class RetainDue(ControlMessage, frozen=True, kw_only=True):
    """Time to let expired rows go."""


class Queued(msgspec.Struct):
    """A request with the answer that is waited for and its deadline."""

    request: Any
    reply: Reply[Any] | None
    budget: Budget | None


class Store(Actor):
    """Serves every request of actors.messages.store, in the order of arrival."""

    kind = "store"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._functions = families(database.seal)
        self._queue: deque[Queued] = deque()
        self._connection: Connection | None = None
        self._committing = False
        self._batches = 0
        self._writes = 0

    async def on_start(self) -> None:
        """Open a connection of this incarnation's own."""
        self._connection = await self._database.connect()
        self.ctx.set_timer("retain", RETAIN_SECONDS, RetainDue())

    async def on_receive(self, message: Any) -> Any:
        """Queue a request; its answer comes after the commit."""
        match message:
            case BatchDone():
                self._committing = False
                self._commit_next()
            case RetainDue():
                self._queue.append(Queued(Retain(at=self.ctx.wall()), None, None))
                self.ctx.set_timer("retain", RETAIN_SECONDS, RetainDue())
            case StoreInfo():
                self._queue.append(Queued(message, self.ctx.defer(), self.ctx.budget))
                return DEFERRED
            case _ if type(message) in self._functions:
                self._queue.append(Queued(message, self.ctx.defer(), self.ctx.budget))
                if len(self._queue) >= BATCH_ROWS:
                    self._commit_next()
                return DEFERRED
            case _:
                raise Invalid(f"the store has no function for {type(message).__name__}")
        return None

    async def on_idle(self) -> None:
        """Commit what has arrived, now that nothing more is at the door."""
        self._commit_next()

    async def on_stop(self, reason: DownReason) -> None:
        """Commit what is queued, then close: the thread must not outlive the loop."""
        if self._connection is None:
            return
        while self._queue:
            await self._commit(self._connection, self._next_batch())
        await self._connection.close()
        self._database.close()

    def _commit_next(self) -> None:
        if self._committing or not self._queue or self._connection is None:
            return
        batch = self._next_batch()
        if batch:
            self._committing = True
            self.ctx.run(self._commit_and_go_on(self._connection, batch), "commit")

    def _next_batch(self) -> list[Queued]:
        """Take the next requests; one whose time is over is dropped here, before BEGIN, and never later."""
        batch: list[Queued] = []
        while self._queue and len(batch) < BATCH_ROWS:
            queued = self._queue.popleft()
            if queued.budget is not None and queued.budget.expired():
                name = type(queued.request).__name__
                self.ctx.system.dead_letters.add(self.ctx.path, name, DeadLetterReason.EXPIRED)
                if queued.reply is not None and not queued.reply.done():
                    queued.reply.set_exception(DeadlineExceeded(name))
                continue
            batch.append(queued)
        return batch

    async def _commit_and_go_on(self, connection: Connection, batch: list[Queued]) -> None:
        await self._commit(connection, batch)
        self.ctx.ref.tell(BatchDone())

    async def _commit(self, connection: Connection, batch: list[Queued]) -> None:
        requests = [queued.request for queued in batch]
        functions = {**self._functions, StoreInfo: self._info}
        hit = self.ctx.system.failpoints.hit
        try:
            outcomes = await connection.run(lambda raw: run_batch(raw, requests, functions, hit))
        except (sqlite3.Error, OSError) as error:
            fault = (
                explain(error, self._database.path)
                if isinstance(error, sqlite3.Error)
                else StoreUnavailable(
                    f"{self._database.path} failed: {error.strerror or type(error).__name__}"
                )
            )
            log.error("store.batch_failed", requests=len(batch), error=str(fault))
            outcomes = [Failure(fault)] * len(batch)
        else:
            self._batches += 1
            self._writes += sum(isinstance(request, Write) for request in requests)
        for queued, outcome in zip(batch, outcomes, strict=True):
            self._answer(queued, outcome)

    def _answer(self, queued: Queued, outcome: Any) -> None:
        name = type(queued.request).__name__
        if isinstance(outcome, Failure):
            error = outcome.error
            if queued.reply is None:
                log.warning("store.told_write_failed", request=name, error=type(error).__name__)
                return
            if not _is_ours(error):
                log.error("store.function_failed", request=name, error=type(error).__name__, exc_info=error)
                error = HandlerFailed(self.ctx.path, type(error).__name__)
            queued.reply.set_exception(error)
        elif queued.reply is not None:
            queued.reply.set(outcome)

    def _info(self, connection: sqlite3.Connection, request: StoreInfo) -> dict[str, Any]:
        tables = [
            row["name"]
            for row in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
            )
        ]
        files = [self._database.path, self._database.path.with_name(f"{self._database.path.name}-wal")]
        return {
            "path": str(self._database.path),
            "schema": VERSION,
            "bytes": sum(file.stat().st_size for file in files if file.exists()),
            "rows": {
                table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables
            },
            "batches": self._batches,
            "writes": self._writes,
        }


def _is_ours(error: Exception) -> bool:
    return type(error).__module__ == "actors.exceptions"
