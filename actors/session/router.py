"""
/sessions: addresses sessions by id, so that nobody holds the ref of one that may leave.

The first message activates a session. One that wants to leave proves that it has handled all that was forwarded to it;
what arrives after the grant waits here until it is gone, and then activates it again.
"""

from typing import Any

import structlog

from actors.backoff import Backoff
from actors.messages.lifecycle import ABNORMAL, Down
from actors.messages.relay import DeliveryReady
from actors.messages.session import (
    AttachWatcher,
    DetachWatcher,
    DrainOver,
    DrainSessions,
    DrainShareOver,
    HoldTurns,
    InboxReady,
    Interrupt,
    LiveSessions,
    Passivate,
    RecoverAgain,
    RecoveryRead,
    StopTurn,
)
from actors.messages.store import EndTurn, SessionsWithMail, Unfinished
from actors.runtime import DEFERRED, Actor, Address, Ref, Reply
from actors.session.recovery import recover
from actors.session.session import Session, TurnFactory
from actors.session.settings import SessionSettings

log = structlog.get_logger("turnkeep.session")

DRAIN_SHARE = 0.8
"""The part of a drain's budget in which running turns may end by themselves."""


class Sessions(Actor):
    """The parent of all sessions."""

    kind = "router"

    def __init__(
        self, *, store: Ref, relays: Address, make_turn: TurnFactory, settings: SessionSettings
    ) -> None:
        self._store = store
        self._relays = relays
        self._make_turn = make_turn
        self._settings = settings
        self._backoff = Backoff(settings.retry_base_s, settings.retry_cap_s)
        # Messages forwarded to the living incarnation of each session.
        self._forwarded: dict[str, int] = {}
        # Sessions that were granted to leave, with what came since.
        self._leaving: dict[str, list[Any]] = {}
        # Crashes in a row, of sessions that have not come to rest since.
        self._crashes: dict[str, int] = {}
        self._drain: Reply[int] | None = None
        self._draining = False
        self._interrupted = 0

    async def on_start(self) -> None:
        """Settle what the last run left unfinished, then wake the sessions that have mail."""
        budget = self.ctx.within(self._settings.store_s)
        unfinished = await self._store.ask(Unfinished(), budget)
        writes = recover(
            unfinished,
            policy=self._settings.on_restart,
            clients_gone=self.ctx.incarnation == 0,
            now=self.ctx.wall(),
        )
        answers = [self._store.ask(write, self.ctx.within(self._settings.store_s)) for write in writes]
        for answer in answers:
            await answer
        self._announce(writes)
        for session_id in await self._store.ask(SessionsWithMail(), self.ctx.within(self._settings.store_s)):
            self._forward(session_id, InboxReady(session_id=session_id))

    async def on_receive(self, message: Any) -> Any:
        """Forward what is for a session; serve passivation, crashes and the drain."""
        match message:
            case InboxReady(session_id=session_id):
                if not self._draining:
                    self._forward(session_id, message)
            case AttachWatcher(session_id=session_id) | DetachWatcher(session_id=session_id):
                self._forward(session_id, message)
            case StopTurn(session_id=session_id):
                return self._forward_asked(session_id, message)
            case Passivate():
                return self._passivate(message)
            case Down():
                self._gone(message)
            case RecoverAgain(session_id=session_id):
                self._recover(session_id)
            case RecoveryRead():
                self._settle(message)
            case DrainSessions():
                return self._begin_drain()
            case DrainShareOver():
                self._cut()
            case DrainOver():
                self._end_drain()
            case LiveSessions():
                return tuple(ref.path.rsplit("/", 1)[-1] for ref in self.ctx.children())
        return None

    # Forwarding

    def _forward(self, session_id: str, message: Any) -> None:
        if session_id in self._leaving:
            self._leaving[session_id].append(message)
            return
        session = self.ctx.child(session_id)
        if session is None:
            session = self._activate(session_id)
            if isinstance(message, InboxReady):
                # A session looks into its inbox when it starts.
                return
        self._forwarded[session_id] += 1
        session.tell(message)

    def _forward_asked(self, session_id: str, message: StopTurn) -> Any:
        if session_id in self._leaving:
            # It had nothing to do, or it would not have left.
            return False
        session = self.ctx.child(session_id)
        if session is None:
            if message.inbox_id is None:
                return False
            session = self._activate(session_id)
        self._forwarded[session_id] += 1
        self.ctx.forward(session)
        return DEFERRED

    def _activate(self, session_id: str) -> Ref:
        me = self.ctx.ref
        self._forwarded[session_id] = 0
        return self.ctx.spawn(
            session_id,
            lambda: Session(
                session_id,
                router=me,
                store=self._store,
                relays=self._relays,
                make_turn=self._make_turn,
                settings=self._settings,
            ),
        )

    # Passivation and crashes

    def _passivate(self, message: Passivate) -> bool:
        if message.seen != self._forwarded.get(message.session_id):
            return False
        self._leaving[message.session_id] = []
        return True

    def _gone(self, down: Down) -> None:
        session_id = down.path.rsplit("/", 1)[-1]
        self._forwarded.pop(session_id, None)
        waiting = self._leaving.pop(session_id, [])
        if down.reason in ABNORMAL:
            self._crashes[session_id] = self._crashes.get(session_id, 0) + 1
            self._recover(session_id)
        else:
            self._crashes.pop(session_id, None)
            for message in waiting:
                self._forward(session_id, message)
        if self._draining and not self.ctx.children():
            self._end_drain()

    def _recover(self, session_id: str) -> None:
        def settled(unfinished: Any) -> RecoveryRead:
            mine = tuple(entry for entry in unfinished if entry[0].session_id == session_id)
            writes = recover(mine, policy=self._settings.on_restart, clients_gone=False, now=self.ctx.wall())
            return RecoveryRead(session_id=session_id, writes=writes)

        self.ctx.pipe(
            self._store.ask(Unfinished(), self.ctx.within(self._settings.store_s)),
            settled,
            lambda error: RecoveryRead(session_id=session_id, writes=(None,)),
        )

    def _settle(self, message: RecoveryRead) -> None:
        session_id = message.session_id
        crashes = self._crashes.get(session_id, 1)
        delay = self._backoff.delay(crashes, self.ctx.system.random.random())
        if message.writes == (None,):
            self.ctx.set_timer(f"recover:{session_id}", delay, RecoverAgain(session_id=session_id))
            return
        for write in message.writes:
            self._store.ask(write, self.ctx.within(self._settings.store_s))
        self._announce(message.writes)
        # The store serves in order, so the session's first look comes after these writes.
        self.ctx.set_timer(f"recover:{session_id}", delay, InboxReady(session_id=session_id))

    def _announce(self, writes: tuple[Any, ...]) -> None:
        for write in writes:
            if isinstance(write, EndTurn):
                self.ctx.publish("turn.interrupted", turn_id=write.turn_id, reason=write.reason)
                if write.delivery is not None:
                    self._relays.tell(DeliveryReady(peer=write.delivery.peer))

    # Drain

    def _begin_drain(self) -> Any:
        self._draining = True
        if not self.ctx.children():
            return 0
        budget = self.ctx.budget or self.ctx.within(self._settings.store_s)
        self._drain = self.ctx.defer()
        for session in self.ctx.children():
            session.tell(HoldTurns())
        self.ctx.set_timer("drain-share", budget.remaining() * DRAIN_SHARE, DrainShareOver())
        self.ctx.set_timer("drain", budget.remaining() * (1 + DRAIN_SHARE) / 2, DrainOver())
        return DEFERRED

    def _cut(self) -> None:
        for session in self.ctx.children():
            self._interrupted += 1
            session.tell(Interrupt())

    def _end_drain(self) -> None:
        self.ctx.cancel_timer("drain-share")
        self.ctx.cancel_timer("drain")
        if self._drain is not None:
            self._drain.set(self._interrupted)
            self._drain = None
