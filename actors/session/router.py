"""
/sessions: addresses sessions by id, so that nobody holds the ref of one that may leave.

The first message activates a session. One that wants to leave proves that it has handled all that was forwarded to it;
what arrives after the grant waits here until it is gone, and then activates it again. The same holds for one that is
lost, until the turn that it left behind is settled: who came earlier would take that for a turn that nobody has begun.
And it holds for one whose earlier actor still runs, until that has ended or an operator lets it go.

Whoever has a message kept tells its session. Should it be lost between the two, nobody would ever look: so every now and
then the store is asked who has mail.
"""

import contextlib
from typing import Any

import structlog

from actors.backoff import Backoff
from actors.exceptions import ActorStopped, MailboxFull, Refusal, TurnkeepError
from actors.messages.lifecycle import Down, DownReason
from actors.messages.quarantine import PlaceFree
from actors.messages.relay import DeliveryReady
from actors.messages.session import (
    AttachWatcher,
    DetachWatcher,
    DrainOver,
    DrainSessions,
    DrainShareOver,
    FollowTurns,
    HoldTurns,
    InboxReady,
    Interrupt,
    LiveSessions,
    MailFound,
    MailWaits,
    Passivate,
    RecoverAgain,
    Recovered,
    RecoveryRead,
    RecoveryStored,
    RescanDue,
    StopTurn,
    UnfollowTurns,
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
        # Sessions that were granted to leave, that end or that are being recovered, with what came since.
        self._waiting: dict[str, list[Any]] = {}
        # Those of them that come back as soon as their earlier actor has ended.
        self._held_back: set[str] = set()
        # Losses in a row, of sessions that have not come to rest since.
        self._losses: dict[str, int] = {}
        self._drain: Reply[int] | None = None
        self._draining = False
        self._interrupted = 0

    async def on_start(self) -> None:
        """Settle what the last run left unfinished, then wake the sessions that have mail."""
        await self.ctx.system.failpoints.reach("sessions.start")
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
        self._rescan_later()

    async def on_receive(self, message: Any) -> Any:
        """Forward what is for a session; serve passivation, losses and the drain."""
        match message:
            case InboxReady(session_id=session_id):
                if not self._draining:
                    self._forward(session_id, message)
            case (
                AttachWatcher(session_id=session_id)
                | DetachWatcher(session_id=session_id)
                | FollowTurns(session_id=session_id)
            ):
                self._forward(session_id, message)
            case UnfollowTurns(session_id=session_id):
                # One that has left has forgotten its followers.
                if session_id in self._waiting or self.ctx.child(session_id) is not None:
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
            case RecoveryStored():
                self._settled(message)
            case Recovered(session_id=session_id):
                self._come_back(session_id)
            case PlaceFree(name=session_id) if session_id in self._held_back:
                self._held_back.discard(session_id)
                self._come_back(session_id)
            case RescanDue():
                self._rescan()
            case MailFound():
                self._remind(message)
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
        if session_id in self._waiting:
            self._let_wait(session_id, message)
            return
        session = self.ctx.child(session_id)
        if session is None:
            session = self._activate(session_id)
            if session is None:
                self._let_wait(session_id, message)
                return
            if isinstance(message, InboxReady):
                # A session looks into its inbox when it starts.
                return
        try:
            session.tell(message)
        except ActorStopped:
            # Its Down is on the way here.
            self._waiting[session_id] = [message]
        except MailboxFull:
            # Suspended, as a rule. It has been told of mail often enough; a watcher asks again after a silence.
            log.warning("session.busy", session_id=session_id, message=type(message).__name__)
        else:
            self._forwarded[session_id] += 1

    def _forward_asked(self, session_id: str, message: StopTurn) -> Any:
        if session_id in self._waiting:
            # No turn runs there, or it has been cut off; a message that waits is stopped before one can.
            if message.inbox_id is None:
                return False
            self._let_wait(session_id, message)
            return True
        session = self.ctx.child(session_id)
        if session is None:
            if message.inbox_id is None:
                return False
            session = self._activate(session_id)
            if session is None:
                self._let_wait(session_id, message)
                return True
        self._forwarded[session_id] += 1
        self.ctx.forward(session)
        return DEFERRED

    def _let_wait(self, session_id: str, message: Any) -> None:
        waiting = self._waiting[session_id]
        # Those who wait ask again and again, and it may take long.
        if message not in waiting:
            waiting.append(message)

    def _activate(self, session_id: str) -> Ref | None:
        """Start a session; None if it has to wait for the end of an earlier actor of that id."""
        if not self.ctx.wait_for_place(session_id):
            self._waiting.setdefault(session_id, [])
            self._held_back.add(session_id)
            return None
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
                holding=self._draining,
            ),
        )

    # Mail that nobody was told of

    def _rescan_later(self) -> None:
        self.ctx.set_timer("rescan", self._settings.rescan_s, RescanDue())

    def _rescan(self) -> None:
        self.ctx.pipe(
            self._store.ask(SessionsWithMail(), self.ctx.within(self._settings.store_s)),
            lambda sessions: MailFound(sessions=sessions),
            lambda error: MailFound(sessions=None),
        )

    def _remind(self, message: MailFound) -> None:
        self._rescan_later()
        if message.sessions is None or self._draining:
            return
        for session_id in message.sessions:
            session = self.ctx.child(session_id)
            if session_id in self._waiting:
                # It is on its way, out or back, and looks into its inbox when it comes.
                continue
            if session is None:
                self._activate(session_id)
            else:
                with contextlib.suppress(ActorStopped):
                    session.tell(MailWaits())

    # Passivation and losses

    def _passivate(self, message: Passivate) -> bool:
        session_id = message.session_id
        if session_id in self._waiting or self.ctx.child(session_id) is not message.session:
            return False
        if message.seen != self._forwarded.get(session_id):
            return False
        self._waiting[session_id] = []
        return True

    def _gone(self, down: Down) -> None:
        session_id = down.path.rsplit("/", 1)[-1]
        self._forwarded.pop(session_id, None)
        if down.reason is DownReason.PASSIVATED:
            self._losses.pop(session_id, None)
            self._serve_waiting(session_id)
        else:
            # Whoever ended it, and in whichever way: it may have left a turn behind.
            self._waiting.setdefault(session_id, [])
            self._losses[session_id] = self._losses.get(session_id, 0) + 1
            self._recover(session_id)
        if self._draining and not self.ctx.children():
            self._end_drain()

    def _serve_waiting(self, session_id: str) -> None:
        for message in self._waiting.pop(session_id, []):
            self._forward(session_id, message)

    def _come_back(self, session_id: str) -> None:
        if not self.ctx.wait_for_place(session_id):
            self._held_back.add(session_id)
            return
        self._serve_waiting(session_id)
        if not self._draining:
            self._forward(session_id, InboxReady(session_id=session_id))

    def _recover(self, session_id: str) -> None:
        self.ctx.system.failpoints.hit("sessions.recover")

        def settling(unfinished: Any) -> RecoveryRead:
            mine = tuple(entry for entry in unfinished if entry[0].session_id == session_id)
            writes = recover(mine, policy=self._settings.on_restart, clients_gone=False, now=self.ctx.wall())
            return RecoveryRead(session_id=session_id, writes=writes)

        self.ctx.pipe(
            self._store.ask(Unfinished(), self.ctx.within(self._settings.store_s)),
            settling,
            lambda error: RecoveryRead(session_id=session_id, writes=None),
        )

    def _settle(self, message: RecoveryRead) -> None:
        if message.writes is None:
            self._after_losses(RecoverAgain(session_id=message.session_id))
        else:
            self.ctx.run(self._store_all(message.session_id, message.writes), f"recover-{message.session_id}")

    async def _store_all(self, session_id: str, writes: tuple[Any, ...]) -> None:
        stored: tuple[Any, ...] | None = writes
        for write in writes:
            try:
                await self._store.ask(write, self.ctx.within(self._settings.store_s))
            except Refusal:
                # Its turn has ended, or its message gone on, in another way meanwhile.
                continue
            except TurnkeepError:
                stored = None
                break
        self.ctx.ref.tell(RecoveryStored(session_id=session_id, writes=stored))

    def _settled(self, message: RecoveryStored) -> None:
        if message.writes is None:
            self._after_losses(RecoverAgain(session_id=message.session_id))
            return
        self._announce(message.writes)
        self._after_losses(Recovered(session_id=message.session_id))

    def _after_losses(self, message: RecoverAgain | Recovered) -> None:
        losses = self._losses.get(message.session_id, 1)
        delay = self._backoff.delay(losses, self.ctx.system.random.random())
        self.ctx.set_timer(f"recover:{message.session_id}", delay, message)

    def _announce(self, writes: tuple[Any, ...]) -> None:
        for write in writes:
            if isinstance(write, EndTurn):
                self.ctx.publish("turn.interrupted", turn_id=write.turn_id, reason=write.reason)
                if write.delivery is not None:
                    # Without them it waits in the store.
                    with contextlib.suppress(ActorStopped):
                        self._relays.tell(DeliveryReady(peer=write.delivery.peer))

    # Drain

    def _begin_drain(self) -> Any:
        self._draining = True
        if not self.ctx.children():
            return 0
        budget = self.ctx.budget or self.ctx.within(self._settings.store_s)
        self._drain = self.ctx.defer()
        for session in self.ctx.children():
            with contextlib.suppress(ActorStopped):
                session.tell(HoldTurns())
        self.ctx.set_timer("drain-share", budget.remaining() * DRAIN_SHARE, DrainShareOver())
        self.ctx.set_timer("drain", budget.remaining() * (1 + DRAIN_SHARE) / 2, DrainOver())
        return DEFERRED

    def _cut(self) -> None:
        for session in self.ctx.children():
            with contextlib.suppress(ActorStopped):
                session.tell(Interrupt())
                self._interrupted += 1

    def _end_drain(self) -> None:
        self.ctx.cancel_timer("drain-share")
        self.ctx.cancel_timer("drain")
        if self._drain is not None:
            self._drain.set(self._interrupted)
            self._drain = None
