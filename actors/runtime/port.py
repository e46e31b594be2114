"""Where code that is no actor receives messages: a request handler, a socket's writer, a test's probe."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from actors.exceptions import ActorStopped, DeadlineExceeded, MailboxFull
from actors.messages.base import Message
from actors.messages.lifecycle import DeadLetterReason
from actors.runtime.budget import Budget

if TYPE_CHECKING:
    from actors.runtime.system import System


class Port:
    """
    A bounded queue with an address. One coroutine receives.

    A reader that falls behind by ``bound`` messages has lost one: from then on ``receive`` hands out what it holds and
    then raises MailboxFull, as a gap must not look like an end.
    """

    def __init__(self, system: "System", path: str, bound: int) -> None:
        self._system = system
        self.path = path
        self._bound = bound
        self._messages: deque[Message] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self._overflowed = False

    def __repr__(self) -> str:
        return f"<Port {self.path}>"

    def tell(self, message: Message) -> None:
        """Hand over a message, on the loop's thread. Raises ActorStopped once closed."""
        if self._closed:
            self._system.dead_letters.add(self.path, type(message).__name__, DeadLetterReason.STOPPED)
            raise ActorStopped(self.path)
        if self._overflowed or len(self._messages) >= self._bound:
            self._overflowed = True
            self._system.dead_letters.add(self.path, type(message).__name__, DeadLetterReason.OVERFLOW)
        else:
            self._messages.append(message)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self, budget: Budget | None = None) -> Message:
        """
        Return the next message; cancelling it loses none.

        Without a budget it waits as long as the port is open. Raises DeadlineExceeded, ActorStopped, MailboxFull.
        """
        while not self._messages:
            if self._overflowed:
                raise MailboxFull(self.path)
            if self._closed:
                raise ActorStopped(self.path)
            if budget is not None and budget.expired():
                raise DeadlineExceeded(f"a message at {self.path}")
            self._waiter = self._system.loop.create_future()
            timer = (
                self._system.clock.call_later(budget.remaining(), _finish, self._waiter)
                if budget is not None
                else None
            )
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        return self._messages.popleft()

    def close(self) -> None:
        """Take no more messages; wake the receiver."""
        self._closed = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
