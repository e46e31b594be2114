"""A request's watch over its turn: attaches, hears, asks again after a silence, and lets go."""

from collections import deque
from typing import Any

import structlog

from actors.exceptions import ActorStopped, DeadlineExceeded, MailboxFull, RuntimeFault, TurnkeepError
from actors.messages.base import Message
from actors.messages.session import AttachWatcher, DetachWatcher, StopTurn
from actors.messages.store import GetTurn
from actors.runtime import Budget
from actors.runtime.clock import Timer
from transports.front.edges import Edges
from transports.front.feed import FAILED, SLOW_READER, End, Feed, Heard, Silence, Unsettled

CLIENT_GONE = "client_gone"
STREAM_DIED = "stream_died"
"""Why a turn is stopped whose client gets no more of it."""

log = structlog.get_logger("turnkeep.front")

TOO_SLOW = End(
    code=SLOW_READER, message="The client read too slowly for its stream; the whole answer is in the session."
)
"""The turn goes on: whoever reads slowly has not gone away."""


class WaitOver(Message, frozen=True, kw_only=True):
    """The wait for the next event is over."""


class Watch:
    """One watcher of the turn over one inbox row. ``port`` is where its events arrive."""

    def __init__(self, edges: Edges, *, session_id: str, inbox_id: str, turn_id: str) -> None:
        self._edges = edges
        self._session_id = session_id
        self._inbox_id = inbox_id
        self._turn_id = turn_id
        self._feed = Feed()
        self._heard: deque[Heard] = deque()
        # When the wait under way is over, and the timer that looks whether it is, with the time at which it does.
        self._due = 0.0
        self._timer: Timer | None = None
        self._looks_at = 0.0
        self._waits = False
        self.port = edges.system.port(f"/front/{inbox_id}", edges.settings.stream_queue)

    def attach(self) -> None:
        """Ask for the turn's events; the session wakes up and looks into its inbox."""
        self._tell(AttachWatcher(session_id=self._session_id, inbox_id=self._inbox_id, watcher=self.port))

    async def next(self, budget: Budget) -> Heard:
        """Return the next thing worth telling the client; Silence at the end of ``budget``."""
        while not self._heard:
            try:
                message = await self._receive(budget)
            except DeadlineExceeded:
                # Its session may have been restarted under it.
                self.attach()
                return Silence()
            except MailboxFull:
                return TOO_SLOW
            except ActorStopped:
                return End(code=FAILED, message="The turn's events ended early.")
            await self._edges.system.failpoints.reach("front.hear")
            self._heard.extend(self._feed.hear(message))
        heard = self._heard.popleft()
        return await self._settle() if isinstance(heard, Unsettled) else heard

    async def _receive(self, budget: Budget) -> Message:
        """
        Return the next message at the port. Raises as that does.

        There is one timer for many waits, each of which only moves the mark that it looks at: a timer for each would be
        a tenth of what a chunk costs.
        """
        self._due = budget.deadline
        while True:
            if self._timer is None or self._due < self._looks_at:
                self._look_later()
            self._waits = True
            try:
                message = await self.port.receive()
            finally:
                self._waits = False
            if not isinstance(message, WaitOver):
                return message
            if budget.expired():
                raise DeadlineExceeded(f"a message at {self.port.path}")

    def _look_later(self) -> None:
        clock = self._edges.system.clock
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = self._due
        self._timer = clock.call_later(max(0.0, self._due - clock.monotonic()), self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waits:
            # The next wait begins with a timer.
            return
        if self._edges.system.clock.monotonic() < self._due:
            self._look_later()
        else:
            self.port.tell(WaitOver())

    async def _settle(self) -> Heard:
        budget = self._edges.within(self._edges.settings.store_s)
        try:
            self._heard.extend(
                self._feed.outcome(await self._edges.store.ask(GetTurn(turn_id=self._turn_id), budget))
            )
        except TurnkeepError as error:
            log.warning("front.outcome_unread", turn_id=self._turn_id, error=type(error).__name__)
        unknown = End(code=FAILED, message="The turn has ended; its outcome is in the session.")
        return self._heard.popleft() if self._heard else unknown

    def let_go(self, stop_by: str | None) -> None:
        """Hear nothing more of a turn that goes on; stop it, and say why, if nobody wants it any more (API-16)."""
        self.close()
        self._tell(DetachWatcher(session_id=self._session_id, inbox_id=self._inbox_id, watcher=self.port))
        if stop_by is not None:
            self._tell(StopTurn(session_id=self._session_id, inbox_id=self._inbox_id, by=stop_by))

    def close(self) -> None:
        """Take no more events."""
        self.port.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, message: Any) -> None:
        try:
            self._edges.sessions.tell(message)
        except RuntimeFault as fault:
            log.warning("front.not_told", message=type(message).__name__, error=type(fault).__name__)
