"""Waiting for a daemon that went away to come back."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from transports.terminal.exits import Exit, Failure
from transports.terminal.verb import Desk

if TYPE_CHECKING:
    from transports.terminal.client import AdminClient

FIRST_WAIT = 0.2
LONGEST_WAIT = 5.0
"""Seconds between tries; each wait is random up to its bound, and bounds double."""


class Patience:
    """
    Connects; once that has worked, a later connection is tried for until it works too.

    ``wait`` sleeps, or raises to give up.
    """

    def __init__(self, desk: Desk, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._desk = desk
        self._wait = wait
        self._met = False

    async def connect(self) -> "AdminClient":
        """Return an open connection. Raises Failure if there never was one, or if it is refused."""
        if not self._met:
            client = await self._desk.connect()
            self._met = True
            return client
        say("The connection to turnkeepd is lost; trying to get it back …")
        bound = FIRST_WAIT
        while True:
            try:
                client = await self._desk.connect()
            except Failure as failure:
                if failure.exit_code not in (Exit.NOT_RUNNING, Exit.TIMED_OUT, Exit.FAILED):
                    raise
                await self._wait(random.uniform(0, bound))
                bound = min(bound * 2, LONGEST_WAIT)
            else:
                say("Connected again.")
                return client


def say(sentence: str) -> None:
    """Tell whoever sits there, beside the output."""
    print(sentence, file=sys.stderr, flush=True)
