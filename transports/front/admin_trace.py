"""What one connection hears of the messages that one actor handles, as long as it wants to."""

from collections.abc import Awaitable, Callable

from actors.admin.contents import shown
from actors.exceptions import DeadlineExceeded
from actors.messages.admin import TraceActor
from actors.runtime import Budget, System, Traced
from transports.front import admin_frames as frames

COUNT = "count"
TIME = "time"
"""Why a trace ends by itself."""


class TraceFeed:
    """One trace. The actor is looked at from ``begin`` on, and no more once all is told or its reader falls behind."""

    def __init__(
        self, request: TraceActor, *, system: System, queue: int, write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self._request = request
        self._system = system
        self._queue = queue
        self._write = write
        self._port = system.port("/admin/trace", queue)
        # Messages that were handled since, and those of them that were written.
        self._told = 0
        self._written = 0

    def begin(self) -> None:
        """Look. Raises ActorStopped if the actor is not there any more."""
        self._system.trace(self._request.path, self._take)

    async def run(self) -> None:
        """Write until it is over, and say so. Raises MailboxFull once too much waits."""
        budget = Budget.of(self._system.clock, self._request.seconds)
        reason = COUNT
        while self._written < self._request.count:
            try:
                traced = await self._port.receive(budget)
            except DeadlineExceeded:
                reason = TIME
                break
            assert isinstance(traced, Traced)
            self._written += 1
            await self._write(self._frame(traced))
        self.close()
        data = {"path": self._request.path, "reason": reason, "told": self._written}
        await self._write(frames.event("trace.ended", None, self._system.clock.wall(), data))

    def close(self) -> None:
        """Look no more."""
        self._system.untrace(self._request.path, self._take)
        self._port.close()

    def _take(self, traced: Traced) -> None:
        self._told += 1
        self._port.tell(traced)
        if self._told == self._request.count or self._told - self._written > self._queue:
            # All that is wanted, or more than its reader takes: the port knows of the latter, and says so.
            self._system.untrace(self._request.path, self._take)

    def _frame(self, traced: Traced) -> bytes:
        data = {name: getattr(traced, name) for name in traced.__struct_fields__ if name != "message"}
        if self._request.contents:
            data["message"] = shown(traced.message)
        return frames.event("trace", self._written, self._system.clock.wall(), data)
