"""One attempt at a backend: what its turn is told of it, its deadlines, and its one end."""

import asyncio
import contextlib
import enum
import math
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from actors.exceptions import ActorStopped, MailboxFull, RuntimeFault
from actors.messages.lane import (
    FailureClass,
    OpenStream,
    Prepared,
    StreamArmed,
    StreamDelta,
    StreamFailed,
    StreamFinished,
    StreamMessage,
    StreamPrepared,
    ToolCallDelta,
)
from actors.runtime import Clock

log = structlog.get_logger("turnkeep.backend")


class Failure(msgspec.Struct, frozen=True):
    """Why a stream failed: a class, and never a backend's text (REL-6)."""

    failure: FailureClass
    error_class: str
    status: int | None = None
    retry_after: float | None = None
    """Seconds."""


STALLED = Failure(FailureClass.STALLED, "StreamStalled")
OUT_OF_TIME = Failure(FailureClass.TIMEOUT, "DeadlineExceeded")
OVERRUN = Failure(FailureClass.INCOMPLETE, "MailboxFull")


class StreamOver(Exception):
    """Nobody wants the rest of a stream: whoever carries it ends."""


class Phase(enum.IntEnum):
    """How far a stream is; it only goes forward."""

    OPENING = 0
    ARMED = 1
    """The backend has accepted the request."""
    ENDED = 2
    """Its end was told, or it was cancelled: nothing more is said."""


class Stream:
    """
    Carries one OpenStream to one end.

    It never waits for its turn: a turn that is gone cancels it, and one that is so slow that its mailbox is full loses
    the stream, as a gap in the text must not look like an answer.
    """

    def __init__(self, request: OpenStream, clock: Clock, idle_s: float = math.inf) -> None:
        self.request = request
        self.phase = Phase.OPENING
        self._clock = clock
        # How long a backend may be silent, in seconds.
        self._idle_s = idle_s
        self._heard_at = clock.monotonic()
        self._timer = clock.call_later(self._due() - self._heard_at, self._check)
        self._task: asyncio.Task[None] | None = None
        # Whether this stream itself has cancelled its task.
        self._cut = False
        # The end, while the turn's mailbox has no room for it.
        self._unsaid: StreamMessage | None = None
        self.end: StreamMessage | None = None
        """How it ended; None for one that was cancelled."""

    # What the turn is told

    def prepared(self, prepared: Prepared) -> None:
        """Say what is about to go out. Raises StreamOver."""
        self._tell(StreamPrepared(stream_id=self.request.stream_id, prepared=prepared))

    def arm(self) -> None:
        """Say that the backend has accepted the request. Raises StreamOver."""
        self._tell(StreamArmed(stream_id=self.request.stream_id))
        self.phase = Phase.ARMED

    def delta(
        self, *, text: str = "", reasoning: str = "", tool_calls: tuple[ToolCallDelta, ...] = ()
    ) -> None:
        """Hand on a piece of the answer. Raises StreamOver."""
        self._tell(
            StreamDelta(
                stream_id=self.request.stream_id, text=text, reasoning=reasoning, tool_calls=tool_calls
            )
        )

    def finish(self, finish_reason: str | None, usage: dict[str, int] | None) -> None:
        """Say that the answer is whole."""
        self._end(StreamFinished(stream_id=self.request.stream_id, finish_reason=finish_reason, usage=usage))

    def fail(self, failure: Failure) -> None:
        """Say that there will be no whole answer."""
        self._end(
            StreamFailed(
                stream_id=self.request.stream_id,
                failure=failure.failure,
                error_class=failure.error_class,
                status=failure.status,
                retry_after=failure.retry_after,
            )
        )

    def _tell(self, message: StreamMessage) -> None:
        if self.phase is Phase.ENDED:
            raise StreamOver
        try:
            self.request.reply_to.tell(message)
        except ActorStopped as error:
            self._leave()
            raise StreamOver from error
        except MailboxFull as error:
            self.fail(OVERRUN)
            raise StreamOver from error

    def _end(self, message: StreamMessage) -> None:
        if self.phase is Phase.ENDED:
            return
        self._leave()
        self.end = message
        try:
            self.request.reply_to.tell(message)
        except ActorStopped:
            return
        except MailboxFull:
            self._unsaid = message

    def _leave(self) -> None:
        self.phase = Phase.ENDED
        self._timer.cancel()

    # Its work and its deadlines

    async def run(self, serve: Callable[["Stream"], Awaitable[None]]) -> None:
        """Let ``serve`` do the work; whatever it raises is this stream's failure alone."""
        if self.phase is not Phase.ENDED:
            self._task = asyncio.current_task()
            try:
                await serve(self)
            except asyncio.CancelledError:
                if not self._cut or self._task is None:
                    raise
                self._task.uncancel()
            except StreamOver:
                pass
            except Exception as error:
                # The class only: the text of an error may quote what the backend said.
                log.error("backend.stream_crashed", error=type(error).__name__)
                self.fail(Failure(FailureClass.PROTOCOL, type(error).__name__))
            finally:
                self._timer.cancel()
        if self._unsaid is not None:
            with contextlib.suppress(RuntimeFault):
                await self.request.reply_to.send(self._unsaid, self.request.budget)

    def cancel(self) -> None:
        """Close the connection and say nothing more (TRN-52)."""
        self._leave()
        self._cut = True
        if self._task is not None:
            self._task.cancel()

    def abort(self, failure: Failure) -> None:
        """Say that it failed and close the connection."""
        self.fail(failure)
        self.cancel()

    def heard(self) -> None:
        """Note that a byte came."""
        self._heard_at = self._clock.monotonic()

    async def pause(self, seconds: float) -> None:
        """Wait on the system's clock."""
        over = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, over.set_result, None)
        try:
            await over
        finally:
            timer.cancel()

    def _due(self) -> float:
        deadline: float = self.request.budget.deadline
        return min(self._heard_at + self._idle_s, deadline)

    def _check(self) -> None:
        # One timer for a whole stream: bytes only move the mark that it looks at.
        now = self._clock.monotonic()
        if self.request.budget.expired():
            self.abort(OUT_OF_TIME)
        elif now >= self._due():
            self.abort(STALLED)
        else:
            self._timer = self._clock.call_later(self._due() - now, self._check)
