"""What waits to be written to one socket: an address for its link, and a queue for its writer."""

import asyncio
from collections import deque

from actors.exceptions import ActorStopped
from actors.messages.base import Message
from actors.messages.lifecycle import ABNORMAL, DeadLetterReason, Down
from actors.messages.link import CloseWire, WriteOutbound
from actors.runtime import System

CRASHED = 1011
GOING_DOWN = 1012


class Wire:
    """
    A bounded queue, told on the loop's thread and emptied by one writer.

    It decides what may still be written, in the very moment in which it is told: no action is handed out after the
    close was asked for, or after it was given up for not sent. So the link knows for each one whether it may have
    reached the peer. What is left of other frames is handed out before the close.
    """

    def __init__(self, system: System, path: str, bound: int) -> None:
        self.path = path
        # Code and reason with which the socket is to be closed, once it is known that it is.
        self.closing: tuple[int, str] | None = None
        self._system = system
        self._bound = bound
        self._messages: deque[Message] = deque()
        self._gone = False
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Wire {self.path}>"

    def tell(self, message: Message) -> None:
        """
        Queue a frame; a CloseWire, or the Down of the link, closes. Raises ActorStopped once closing.

        A peer that lets more than the bound pile up is closed, as it reads too slowly.
        """
        if self.closing is not None:
            if isinstance(message, CloseWire | Down):
                return
            self._bury(message, DeadLetterReason.STOPPED)
            raise ActorStopped(self.path)
        match message:
            case CloseWire(code=code, reason=reason):
                self._close(code, reason)
            case Down(reason=reason):
                # The link ended without closing: it crashed, or what holds it did.
                self._close(*((CRASHED, "link failed") if reason in ABNORMAL else (GOING_DOWN, "restarting")))
            case _ if len(self._messages) >= self._bound:
                self._bury(message, DeadLetterReason.OVERFLOW)
                self._close(CRASHED, "the peer reads too slowly")
            case _:
                self._messages.append(message)
        self._wake()

    def cut(self) -> None:
        """Hand out nothing any more: the socket is gone."""
        self._gone = True
        self._close(1006, "")
        self._wake()

    async def wait(self) -> None:
        """Return when something is to be written, or the socket to be closed."""
        while not self._messages and self.closing is None:
            self._waiter = self._system.loop.create_future()
            await self._waiter

    def pop(self) -> Message | None:
        """Return the next frame that may be written, to be written at once; None if there is none now."""
        if self._room is not None and not self._room.done() and len(self._messages) <= self._bound // 4:
            self._room.set_result(None)
        while self._messages:
            message = self._messages.popleft()
            if self._may_be_written(message):
                return message
        return None

    async def room(self) -> None:
        """Return when little waits: a reader that pauses for it passes the peer's own pressure back to it."""
        while len(self._messages) > self._bound // 4 and self.closing is None:
            self._room = self._system.loop.create_future()
            await self._room

    # Private methods

    def _may_be_written(self, message: Message) -> bool:
        if self._gone:
            return False
        if not isinstance(message, WriteOutbound):
            return True
        return self.closing is None and message.expires > self._system.clock.monotonic()

    def _close(self, code: int, reason: str) -> None:
        if self.closing is None:
            self.closing = (code, reason)

    def _wake(self) -> None:
        for waiter in (self._waiter, self._room):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _bury(self, message: Message, reason: DeadLetterReason) -> None:
        self._system.dead_letters.add(self.path, type(message).__name__, reason)
