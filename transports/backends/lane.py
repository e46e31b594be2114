"""What every lane does, whoever answers behind it: it opens, cancels and counts streams."""

import contextlib
from collections.abc import Callable
from typing import Any

import structlog

from actors.exceptions import Invalid, RuntimeFault
from actors.messages.lane import (
    RETRYABLE,
    BackendHealth,
    CancelStream,
    DescribeLane,
    FailureClass,
    LaneInfo,
    OpenStream,
    RetireLane,
    SetLane,
    StreamFailed,
    StreamFinished,
)
from actors.messages.lifecycle import Down, DownReason
from actors.runtime import Actor, Ref, System
from transports.backends.backend import Backend
from transports.backends.kinds import backend
from transports.backends.settings import LaneSettings
from transports.backends.stream import OUT_OF_TIME, OVERRUN, Failure, Phase, Stream

log = structlog.get_logger("turnkeep.backend")

UNWELL = RETRYABLE | {FailureClass.PROTOCOL}
"""What speaks against a backend; a stop, a refused key or request and a long conversation do not (turns.md, section 2)."""

OURS = frozenset({OUT_OF_TIME.error_class, OVERRUN.error_class, "ActorStopped"})
"""Ends of streams that are not the backend's doing."""

RETIRED = Failure(FailureClass.CONNECT, "LaneRemoved")
TOO_MANY = Failure(FailureClass.RATE_LIMITED, "TooManyStreams")


class ModelLane(Actor):
    """
    One model lane.

    A lane that is set anew opens its next streams on a new backend; those under way end on the one that they began on.
    Each stream is a task beside the mailbox, so that a cancellation meets a lane that listens. When the lane ends in
    whatever way, each stream under way is told as failed: a turn never waits for a lane that is gone.
    """

    kind = "lane"

    def __init__(
        self,
        settings: LaneSettings,
        gen: int,
        make: Callable[[LaneSettings, int, System], Backend] = backend,
    ) -> None:
        self._settings = settings
        self._gen = gen
        self._make = make
        # With the backend that each runs on.
        self._streams: dict[str, tuple[Stream, Backend]] = {}
        # Cancellations that overtook what they cancel.
        self._cancelled: set[str] = set()
        # Whether it takes no more streams and ends after the last one.
        self._retiring = False

    # The actor

    async def on_start(self) -> None:
        """Make the backend, and make sure that an end without ``on_stop`` gives everything back too."""
        self._backend = self._make(self._settings, self._gen, self.ctx.system)
        self.ctx.run(self._keep(), "keeper")

    async def on_receive(self, message: Any) -> LaneInfo | None:
        """Open, cancel, describe."""
        match message:
            case OpenStream():
                self._open(message)
            case CancelStream(stream_id=stream_id):
                self._cancel(stream_id)
            case DescribeLane():
                return self._describe()
            case SetLane(settings=settings, gen=gen):
                self._set(settings, gen)
            case RetireLane():
                self._retiring = True
                self._leave_if_done()
            case Down():
                self._leave_gone()
            case _:
                raise Invalid(f"a lane does not understand {type(message).__name__}")
        return None

    async def on_idle(self) -> None:
        """Forget cancellations: whatever they could have overtaken has been handled by now."""
        self._cancelled.clear()

    async def on_stop(self, reason: DownReason) -> None:
        """End the streams and give everything back before the tree goes on."""
        await self._leave()

    # Private methods

    def _set(self, settings: LaneSettings, gen: int) -> None:
        former, self._backend = self._backend, self._make(settings, gen, self.ctx.system)
        self._settings, self._gen, self._retiring = settings, gen, False
        if not self._carries(former):
            self.ctx.run(former.close(), f"close-{former.gen}")

    def _open(self, request: OpenStream) -> None:
        if request.stream_id in self._cancelled or request.stream_id in self._streams:
            return
        stream = self._backend.open_stream(request)
        if request.budget.expired():
            stream.fail(OUT_OF_TIME)
            return
        if self._retiring:
            stream.fail(RETIRED)
            return
        if len(self._streams) >= self._settings.max_streams:
            stream.fail(TOO_MANY)
            return
        self._streams[request.stream_id] = (stream, self._backend)
        if isinstance(request.reply_to, Ref):
            request.reply_to.watch(self.ctx.ref)
        self.ctx.run(self._carry(stream, self._backend), f"stream-{request.stream_id}")

    async def _carry(self, stream: Stream, on: Backend) -> None:
        try:
            await stream.run(on.serve)
        finally:
            # One that was cut off without an end stays, to be told of when the lane leaves.
            if stream.phase is Phase.ENDED:
                self._streams.pop(stream.request.stream_id, None)
                self._report(stream, on)
        if on is not self._backend and not self._carries(on):
            await on.close()
        self._leave_if_done()

    def _carries(self, on: Backend) -> bool:
        return any(of is on for _, of in self._streams.values())

    def _leave_if_done(self) -> None:
        if self._retiring and not self._streams:
            self.ctx.stop()

    def _report(self, stream: Stream, on: Backend) -> None:
        """Tell /lanes how the backend does."""
        match stream.end:
            case StreamFinished():
                good = True
            case StreamFailed(failure=failure, error_class=name) if failure in UNWELL and name not in OURS:
                good = False
            case _:
                return
        parent = self.ctx.parent
        if parent is not None:
            with contextlib.suppress(RuntimeFault):
                parent.tell(BackendHealth(backend=on.settings.traits().backend, good=good))

    def _cancel(self, stream_id: str) -> None:
        found = self._streams.get(stream_id)
        if found is not None:
            found[0].cancel()
        else:
            self._cancelled.add(stream_id)

    def _leave_gone(self) -> None:
        """Cancel what nobody hears any more: a silent backend would be listened to until its watchdog barks."""
        for stream, _ in list(self._streams.values()):
            hearer = stream.request.reply_to
            if isinstance(hearer, Ref) and not hearer.is_alive():
                stream.cancel()

    def _describe(self) -> LaneInfo:
        return LaneInfo(
            name=self._settings.name,
            kind=str(self._settings.kind),
            model=self._settings.model,
            base_url=self._settings.shown_url(),
            streams=len(self._streams),
            max_streams=self._settings.max_streams,
            gen=self._gen,
        )

    async def _keep(self) -> None:
        try:
            await self.ctx.system.loop.create_future()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        streams, self._streams = self._streams, {}
        for stream, _ in streams.values():
            armed = stream.phase is Phase.ARMED
            stream.abort(Failure(FailureClass.INCOMPLETE if armed else FailureClass.CONNECT, "ActorStopped"))
        for each in {self._backend, *(on for _, on in streams.values())}:
            await each.close()
