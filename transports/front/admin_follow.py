"""What one connection hears of a session's turns, each event once and in order, as long as it wants to."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from actors.exceptions import DeadlineExceeded, RuntimeFault
from actors.messages.rows import TurnRow
from actors.messages.session import FollowTurns, TurnGap, TurnOutcome, UnfollowTurns
from actors.messages.turn import RunPhase, Snapshot, StateChange, TurnEvent
from actors.runtime import Budget, Ref, System
from transports.front import admin_frames as frames
from transports.front.admin_settings import AdminSocketSettings

LAST = (RunPhase.IDLE, RunPhase.ERROR)
"""What the last event of a turn says."""


class TurnFeed:
    """
    One following.

    It is renewed from time to time, from where it stands: a session that was restarted has forgotten its followers,
    and one that was not tells nothing twice.
    """

    def __init__(
        self,
        session_id: str,
        *,
        after_gen: int,
        after_seq: int,
        ended_gen: int,
        system: System,
        sessions: Ref,
        settings: AdminSocketSettings,
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._session_id = session_id
        self._system = system
        self._sessions = sessions
        self._settings = settings
        self._write = write
        self._port = system.port("/admin/follow", settings.queue)
        # The last event that was written.
        self._after = (after_gen, after_seq)
        # The last turn whose end was written, or is of no interest.
        self._ended_gen = ended_gen

    async def run(self) -> None:
        """Write until cancelled. Raises MailboxFull once too much waits."""
        self._say()
        while True:
            try:
                message = await self._port.receive(Budget.of(self._system.clock, self._settings.recheck_s))
            except DeadlineExceeded:
                self._say()
                continue
            await self._take(message)

    def close(self) -> None:
        """Hear nothing more."""
        self._port.close()
        with contextlib.suppress(RuntimeFault):
            self._sessions.tell(UnfollowTurns(session_id=self._session_id, watcher=self._port))

    def _say(self) -> None:
        # The router may be at its bound, or being restarted: the next time finds it.
        after_gen, after_seq = self._after
        following = FollowTurns(
            session_id=self._session_id, watcher=self._port, after_gen=after_gen, after_seq=after_seq
        )
        with contextlib.suppress(RuntimeFault):
            self._sessions.tell(following)

    async def _take(self, message: Any) -> None:
        match message:
            case TurnEvent():
                await self._take_event(message)
            case TurnOutcome(turn=TurnRow() as turn) if turn.turn_gen > self._ended_gen:
                self._ended_gen = turn.turn_gen
                await self._tell(message)
            case TurnGap():
                await self._tell(message)

    async def _take_event(self, event: TurnEvent) -> None:
        place = (event.turn_gen, event.seq)
        # A snapshot bears the number of the last event that it stands for.
        known = place <= self._after and not isinstance(event, Snapshot)
        if known or event.turn_gen <= self._ended_gen:
            return
        self._after = max(place, self._after)
        if isinstance(event, StateChange) and event.state in LAST:
            self._ended_gen = event.turn_gen
        await self._tell(event)

    async def _tell(self, message: TurnEvent | TurnOutcome | TurnGap) -> None:
        await self._write(frames.turn_event(message, self._system.clock.wall()))
