"""
/store: the only owner of the database.

Requests queue while a batch is being committed and go together in the next: load makes the batches, nobody lingers. A
handler never waits for a commit.
"""

import asyncio
import sqlite3
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import structlog

from actors.exceptions import (
    Busy,
    HandlerFailed,
    Invalid,
    StoreFault,
    StoreUnavailable,
    TurnkeepError,
)
from actors.messages.base import ControlMessage
from actors.messages.lifecycle import DeadLetterReason, DownReason
from actors.messages.store import BackedUp, BackUp, CheckStore, StoreInfo, Write
from actors.runtime import DEFERRED, Actor, Budget, Envelope, Reply, message_of
from storage.backup import Backup
from storage.batch import Failure, run_batch
from storage.connection import Connection
from storage.conversations import Conversations
from storage.database import Database
from storage.families import Family, families
from storage.faults import explain, spoils_connection
from storage.health import Health, Probe, probe
from storage.info import describe
from storage.place import LogSaved
from storage.retention import Retain, Retained
from storage.settings import RetentionSettings, StoreSettings

log = structlog.get_logger("turnkeep.store")

BATCH_ROWS = 100
"""What a batch takes along at most. A mailbox that never runs dry holds that many in less than 2 ms."""

BACKUP_SECONDS = 3600.0
"""The budget of a backup that was told instead of asked."""

KEPT_BYTES = 16 * 1024 * 1024
"""How much of the conversations that go on is kept in memory."""


class RetainDue(ControlMessage, frozen=True, kw_only=True):
    """Time to let expired rows go."""


class ProbeDue(ControlMessage, frozen=True, kw_only=True):
    """Time to see whether the fault has gone."""


class Store(Actor):
    """Serves every request of actors.messages.store, in the order of arrival."""

    kind = "store"

    def __init__(
        self,
        database: Database,
        settings: StoreSettings | None = None,
        retention: RetentionSettings | None = None,
    ) -> None:
        self._database = database
        self._settings = settings or StoreSettings()
        self._retention = retention or RetentionSettings()
        self._conversations = Conversations(self._settings.history_rows, KEPT_BYTES)
        self._functions: Mapping[type, Family] = {
            **families(database.seal, self._conversations, self._retention),
            StoreInfo: self._info,
            CheckStore: self._check,
            Probe: probe,
        }
        self._queue: deque[Envelope] = deque()
        self._connection: Connection | None = None
        # Set while a batch is under way.
        self._flushed: asyncio.Event = asyncio.Event()
        self._flushed.set()
        self._health = Health()
        self._backup: Backup | None = None
        self._commits = 0
        self._writes = 0

    async def on_start(self) -> None:
        """Open a connection of this incarnation's own."""
        self._connection = await self._connect()
        self.ctx.set_timer("retain", self._settings.retain_every_s, RetainDue())

    async def on_receive(self, message: Any) -> Any:
        """Queue a request; its answer comes after the commit."""
        if type(message) in self._functions:
            self._queue.append(self.ctx.defer() or message)
        elif isinstance(message, RetainDue):
            self._queue.append(Retain(at=self.ctx.system.steady_wall.look()))
        elif isinstance(message, ProbeDue):
            self._queue.append(Probe(at=self.ctx.wall()))
        elif isinstance(message, BackUp):
            self._begin_backup(message)
        else:
            raise Invalid(f"the store has no function for {type(message).__name__}")
        if len(self._queue) >= BATCH_ROWS:
            self._flush()
        return DEFERRED

    async def on_idle(self) -> None:
        """Commit what has arrived, now that nothing more is at the door."""
        self._flush()

    async def on_stop(self, reason: DownReason) -> None:
        """Finish what is queued and close: the connection's thread must not outlive the loop."""
        if self._backup is not None:
            await self._backup.abandon()
        self._flush()
        await self._flushed.wait()
        await self._database.disconnect()
        self._database.close()

    # Batches

    def _flush(self) -> None:
        if self._flushed.is_set() and (batch := self._next_batch()):
            self._flushed.clear()
            # The thread begins while the task is being made.
            self.ctx.run(self._commit_all(batch, self._begin(batch)), "commit")

    async def _commit_all(self, batch: list[Envelope], outcomes: Awaitable[list[Any]]) -> None:
        """See batch after batch through until the queue is empty; what comes meanwhile makes the next one."""
        try:
            while batch:
                await self._finish(batch, outcomes)
                if batch := self._next_batch():
                    outcomes = self._begin(batch)
        finally:
            self._flushed.set()

    def _next_batch(self) -> list[Envelope]:
        """Take the next requests; one whose time is over is dropped here, before BEGIN, and never later."""
        batch: list[Envelope] = []
        now = self.ctx.now()
        # Most stamps in it were made just now: by a clock that was set back, perhaps (REL-7).
        self.ctx.system.steady_wall.look()
        while self._queue and len(batch) < BATCH_ROWS:
            queued = self._queue.popleft()
            if isinstance(queued, Reply) and queued.budget.deadline <= now:
                self._drop(queued)
            else:
                batch.append(queued)
        return batch

    def _drop(self, reply: Reply[Any]) -> None:
        name = type(reply.message).__name__
        self.ctx.system.dead_letters.add(self.ctx.path, name, DeadLetterReason.EXPIRED)
        reply.expire()

    def _begin(self, batch: list[Envelope]) -> Awaitable[list[Any]]:
        pass_point = self.ctx.system.failpoints.hit
        run = partial(
            run_batch,
            requests=[message_of(queued) for queued in batch],
            functions=self._functions,
            pass_point=pass_point,
            on_undone=self._conversations.forget,
        )

        def work(connection: sqlite3.Connection) -> list[Any]:
            pass_point("store.before_begin")
            self._database.check_place(connection)
            return run(connection)

        if self._connection is None:
            return self._reconnect(work)
        return self._connection.submit(work)

    async def _reconnect(self, work: Callable[[sqlite3.Connection], list[Any]]) -> list[Any]:
        self._connection = await self._connect()
        return await self._connection.run(work)

    async def _connect(self) -> Connection:
        await self.ctx.system.failpoints.reach("store.connect")
        return await self._database.connect()

    async def _finish(self, batch: list[Envelope], outcomes: Awaitable[list[Any]]) -> None:
        try:
            try:
                answers = await outcomes
            except LogSaved:
                # Before anything of the batch was begun.
                log.warning("store.log_was_deleted", saved=True)
                self._connection = None
                answers = await self._begin(batch)
        except (sqlite3.Error, OSError, StoreFault) as error:
            answers = self._failed(batch, error)
        else:
            self._count(batch)
            await self.ctx.system.failpoints.reach("store.after_commit")
        drops = self.ctx.system.failpoints.drops
        for queued, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Failure):
                self._answer_failure(queued, answer.error)
            elif isinstance(queued, Reply):
                if not drops("store.answer"):
                    queued.set(answer)
            elif isinstance(answer, Retained):
                self._retained(answer)

    def _failed(self, batch: list[Envelope], error: sqlite3.Error | OSError | StoreFault) -> list[Any]:
        fault = error if isinstance(error, StoreFault) else explain(error, self._database.path)
        if not isinstance(error, StoreFault) and spoils_connection(error):
            self._connection = None
        log.error("store.batch_failed", requests=len(batch), fault=str(fault))
        if self._health.failed(str(fault)):
            self.ctx.publish("store.unavailable", fault=str(fault))
        self.ctx.set_timer("probe", self._settings.probe_s, ProbeDue())
        # One exception object for each, as it is raised to each.
        return [Failure(type(fault)(str(fault))) for _ in batch]

    def _count(self, batch: list[Envelope]) -> None:
        writes = sum(isinstance(message_of(queued), Write) for queued in batch)
        if writes:
            self._commits += 1
            self._writes += writes
            if self._health.wrote():
                self.ctx.cancel_timer("probe")
                self.ctx.publish("store.recovered")

    def _answer_failure(self, queued: Envelope, error: Exception) -> None:
        name = type(message_of(queued)).__name__
        if not isinstance(error, TurnkeepError):
            # The class and the place, not the text: it may quote what a request held.
            frames = traceback.extract_tb(error.__traceback__)[-4:]
            where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
            log.error("store.function_failed", request=name, error=type(error).__name__, where=where)
            error = HandlerFailed(self.ctx.path, type(error).__name__)
        if isinstance(queued, Reply):
            queued.set_exception(error)
        elif isinstance(queued, Retain):
            self._retain_in(self._settings.retain_every_s)
        else:
            log.warning("store.told_write_failed", request=name, error=type(error).__name__)

    # Backups

    def _begin_backup(self, request: BackUp) -> None:
        if self._backup is not None:
            raise Busy("a backup is under way already; wait for its end")
        budget = self.ctx.budget or self.ctx.within(BACKUP_SECONDS)
        self._backup = Backup(self._database.path, request.path)
        self.ctx.run(self._back_up(request, self._backup, self.ctx.defer(), budget), "backup")

    async def _back_up(
        self, request: BackUp, backup: Backup, reply: Reply[BackedUp] | None, budget: Budget
    ) -> None:
        timer = self.ctx.system.clock.call_later(budget.remaining(), backup.give_up)
        try:
            done = await backup.made()
        except TurnkeepError as error:
            log.warning("store.backup_failed", path=request.path, error=str(error))
            self.ctx.publish("store.backup_failed", path=request.path, error=str(error))
            if reply is not None:
                reply.set_exception(error)
        else:
            self.ctx.publish("store.backed_up", path=done.path, bytes=done.bytes)
            if reply is not None:
                reply.set(done)
        finally:
            timer.cancel()
            self._backup = None

    # Retention

    def _retained(self, retained: Retained) -> None:
        for delivery in retained.died:
            self.ctx.publish(
                "delivery.dead",
                peer=delivery.peer,
                delivery_id=delivery.delivery_id,
                reason=delivery.reason,
            )
        self._retain_in(self._settings.retain_pause_s if retained.more else self._settings.retain_every_s)

    def _retain_in(self, seconds: float) -> None:
        self.ctx.set_timer("retain", seconds, RetainDue())

    def _check(self, connection: sqlite3.Connection, request: CheckStore) -> None:
        if self._health.fault is not None:
            raise StoreUnavailable(self._health.fault)

    def _info(self, connection: sqlite3.Connection, request: StoreInfo) -> dict[str, Any]:
        return describe(
            connection, self._database.path, rows=request.rows, commits=self._commits, writes=self._writes
        )
