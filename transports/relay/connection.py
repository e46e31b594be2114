"""One socket that has passed authentication: its reader, its writer, and what it tells its link."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import structlog

from actors.exceptions import ActorStopped, Forbidden, RuntimeFault, TurnkeepError, Unavailable
from actors.messages.base import ControlMessage, Message
from actors.messages.link import CatchUp, CloseWire, WireClosed, WriteOutbound, Written
from actors.messages.relay import OpenLink
from actors.messages.rows import PeerRole, PeerRow
from actors.relay.settings import RelaySettings
from actors.runtime import Budget, Ref, System
from transports.relay.frames import (
    DescriptorFrame,
    Frame,
    HelloFrame,
    InboundFrame,
    Rejected,
    Unknown,
    decode_line,
    to_event,
)
from transports.relay.framing import LineSplitter, LineTooLong
from transports.relay.intake import Intake
from transports.relay.translation import ROLE_FRAMES, heard, spoken
from transports.relay.wire import Wire

log = structlog.get_logger("turnkeep.relay")

Work = asyncio.Task[None]

BATCH_BYTES = 1 << 16
"""Frames that queue up go together in one message of about that size."""

PIECE = 1 << 16
"""A longer message is cut into lines by pieces of that size, so that nobody else waits for the whole."""

BURST = 64
"""Lines that are read without a pause."""

WRONG = 4400
REFUSED = 4401
TOO_BIG = 1009
OUR_FAULT = 1011
GOING_DOWN = 1012
TRY_LATER = 1013
NO_CLOSE = 1006


class Connection:
    """Serves the socket until it ends; ``run`` returns when everything that came from it is settled."""

    def __init__(
        self,
        system: System,
        peer: PeerRow,
        receive: Any,
        send: Any,
        *,
        store: Ref,
        relays: Ref,
        sessions: Ref,
        settings: RelaySettings,
        counts: Counter[str],
    ) -> None:
        self._system = system
        self._peer = peer
        self._receive = receive
        self._send = send
        self._relays = relays
        self._settings = settings
        self._counts = counts
        self._wire = Wire(system, f"/front/relay/{peer.name}", settings.wire_queue)
        self._intake = Intake(
            system,
            peer,
            self._wire,
            store=store,
            sessions=sessions,
            settings=settings,
            counts=counts,
        )
        self._link: Ref | None = None
        self._role: PeerRole | None = None
        # The code with which the peer, or the network, has ended the socket.
        self._code = NO_CLOSE
        # Lines that were read, and those that were rejected.
        self._lines = 0
        self._rejected = 0

    async def run(self) -> None:
        """Read and write until either ends, tell the link, and see through what was taken in."""
        reader = asyncio.create_task(self._read(), name=f"{self._wire.path}:read")
        writer = asyncio.create_task(self._write(), name=f"{self._wire.path}:write")
        intake = asyncio.create_task(self._intake.run(), name=f"{self._wire.path}:intake")
        try:
            try:
                await self._until_one_ends(reader, writer, intake)
            finally:
                self._part(reader, writer)
            await intake
        finally:
            intake.cancel()

    async def _until_one_ends(self, reader: Work, writer: Work, intake: Work) -> None:
        done, _ = await asyncio.wait({reader, writer, intake}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if error is not None:
                log.error(
                    "relay.socket_failed", peer=self._peer.name, error=type(error).__name__, exc_info=error
                )
                self._close(OUR_FAULT, "internal error")
        # What waits is written before the close; without one the writer has nothing to say any more.
        await asyncio.wait({writer})

    def _part(self, *tasks: Work) -> None:
        """Let nothing more be written, and the link know why the socket has ended."""
        code, reason = self._wire.closing or (NO_CLOSE, "")
        self._wire.cut()
        for task in tasks:
            task.cancel()
        if self._link is not None:
            closed = WireClosed(code=code if code != NO_CLOSE else self._code, reason=reason)
            with contextlib.suppress(ActorStopped):
                self._link.tell(closed)
        self._intake.end()

    # Reading

    async def _read(self) -> None:
        """Serve frame after frame; it waits for nothing but the store and the peer's own pressure (RLY-13)."""
        try:
            async with asyncio.timeout(self._settings.first_frame_s) as first:
                async for lines in self._messages():
                    for line in lines:
                        await self._pace()
                        frame = self._frame(line)
                        if frame is None:
                            continue
                        await self._system.failpoints.reach("relay.frame")
                        if self._link is not None:
                            await self._hear(frame)
                        elif await self._introduce(frame):
                            first.reschedule(None)
                        if self._wire.closing is not None:
                            return
        except TimeoutError:
            self._close(WRONG, "no hello or descriptor in time")
            return
        if self._wire.closing is None:
            self._wire.cut()

    async def _messages(self) -> AsyncIterator[list[bytes]]:
        """Yield the lines that each message completes, until the socket ends."""
        splitter = LineSplitter()
        while True:
            await self._wire.room()
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self._code = message.get("code") or NO_CLOSE
                return
            text = message.get("text")
            data = text if text is not None else message.get("bytes") or b""
            for start in range(0, len(data), PIECE):
                try:
                    yield splitter.feed(data[start : start + PIECE])
                except LineTooLong as error:
                    yield error.lines
                    self._close(TOO_BIG, "line too long")
                    return

    async def _pace(self) -> None:
        """Let the others have their turn now and then, and the link catch up: a flood must not pile up there."""
        self._lines += 1
        if self._lines % BURST:
            return
        if self._link is None:
            await asyncio.sleep(0)
            return
        try:
            await self._link.ask(CatchUp(), Budget.of(self._system.clock, self._settings.stall_s))
        except ActorStopped:
            # Its end is on the way to the wire.
            await asyncio.sleep(0)
        except RuntimeFault:
            self._close(OUR_FAULT, "overloaded")

    def _frame(self, line: bytes) -> Frame | None:
        """Return what the line says if it is something that this side serves; count and skip anything else."""
        frame = decode_line(line)
        match frame:
            case Unknown():
                self._counts["unknown"] += 1
                return None
            case Rejected():
                self._reject(frame)
                return None
        if self._role is not None and not isinstance(frame, ROLE_FRAMES[self._role]):
            self._counts["out_of_role"] += 1
            return None
        self._counts["frames"] += 1
        return frame

    def _reject(self, frame: Rejected) -> None:
        self._counts["rejected"] += 1
        self._rejected += 1
        # Each power of two: what a peer gets wrong again and again must not fill the disk.
        if self._rejected & (self._rejected - 1) == 0:
            log.warning(
                "relay.frame_skipped",
                peer=self._peer.name,
                type=frame.type,
                reason=frame.reason,
                so_far=self._rejected,
            )
        if frame.fatal:
            self._close(WRONG, frame.reason)

    async def _introduce(self, frame: Frame) -> bool:
        """Open the link if this frame shows the peer's role. False if it does not, or the link was refused."""
        match frame:
            case HelloFrame():
                role = PeerRole.GATEWAY
            case DescriptorFrame():
                role = PeerRole.CONNECTOR
            case _:
                self._counts["before_introduction"] += 1
                return False
        budget = Budget.of(self._system.clock, self._settings.handshake_s)
        try:
            opened = await self._relays.ask(OpenLink(peer=self._peer, role=role, wire=self._wire), budget)
        except TurnkeepError as error:
            self._close(*_refusal(error))
            return False
        self._role = role
        self._link = opened.link
        # Should the link crash, or what holds it, the wire hears of it and closes.
        opened.link.watch(self._wire)
        await self._hear(frame)
        return True

    async def _hear(self, frame: Frame) -> None:
        if isinstance(frame, InboundFrame):
            await self._intake.take(to_event(frame), frame.buffer_id or None)
            return
        message = heard(frame)
        if message is None:
            self._counts["unsupported"] += 1
        else:
            await self._tell_link(message)

    async def _tell_link(self, message: Message) -> None:
        assert self._link is not None
        try:
            if not isinstance(message, ControlMessage):
                await self._link.send(message, Budget.of(self._system.clock, self._settings.stall_s))
            else:
                self._link.tell(message)
        except ActorStopped:
            # Its end is on the way to the wire.
            return
        except RuntimeFault:
            self._close(OUR_FAULT, "overloaded")

    # Writing

    async def _write(self) -> None:
        """Write what the wire hands out, until it says to close."""
        try:
            while await self._write_batch():
                pass
            code, reason = self._wire.closing or (NO_CLOSE, "")
            if code != NO_CLOSE:
                await self._send_in_time({"type": "websocket.close", "code": code, "reason": reason})
        except TimeoutError:
            log.warning("relay.peer_stalled", peer=self._peer.name, seconds=self._settings.stall_s)
            self._counts["stalled"] += 1
        except OSError:
            # The socket is gone; its reader knows by itself.
            return

    async def _write_batch(self) -> bool:
        """Write what waits, as one message; False when the socket is to be closed."""
        await self._wire.wait()
        lines: list[str] = []
        size = 0
        while size < BATCH_BYTES and (message := self._wire.pop()) is not None:
            if isinstance(message, WriteOutbound) and self._link is not None:
                # Before it is written: from here on nobody can be sure that it was not.
                with contextlib.suppress(ActorStopped):
                    self._link.tell(Written(request_id=message.request_id))
            line = spoken(message)
            lines.append(line)
            size += len(line)
        if lines:
            await self._system.failpoints.reach("relay.write")
            await self._send_in_time({"type": "websocket.send", "text": "".join(lines)})
            return True
        return self._wire.closing is None

    async def _send_in_time(self, message: dict[str, Any]) -> None:
        async with asyncio.timeout(self._settings.stall_s):
            await self._send(message)

    def _close(self, code: int, reason: str) -> None:
        self._wire.tell(CloseWire(code=code, reason=reason))


def _refusal(error: TurnkeepError) -> tuple[int, str]:
    """Code and reason with which a socket is closed whose link was not opened."""
    match error:
        case Forbidden(code="revoked"):
            return REFUSED, "revoked"
        case Forbidden(message=message):
            return WRONG, message
        case Unavailable(code="draining"):
            return GOING_DOWN, "going down"
    return TRY_LATER, "try again later"
