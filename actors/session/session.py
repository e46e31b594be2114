"""One conversation: performs what its machine decides, and holds who waits for which turn."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from actors.backoff import Backoff
from actors.exceptions import Conflict, RuntimeFault, StoreUnavailable, TurnkeepError
from actors.keep import keep
from actors.messages.lifecycle import Down, DownReason
from actors.messages.quarantine import PlaceFree
from actors.messages.relay import DeliveryReady, ShowAnswer
from actors.messages.rows import Origin, TakenTurn, TurnRow, TurnState
from actors.messages.session import (
    AttachWatcher,
    DetachWatcher,
    EndRead,
    FollowTurns,
    HoldTurns,
    IdleTooLong,
    InboxReady,
    Interrupt,
    LostTurnEnded,
    MailWaits,
    MessageBuried,
    OutcomeRead,
    Passivate,
    PassivationAnswered,
    PastRead,
    RetryTake,
    StopTurn,
    TakeFailed,
    TurnEnded,
    TurnOutcome,
    TurnReclaimed,
    TurnTaken,
    UnfollowTurns,
    UnseenTurns,
)
from actors.messages.store import BuryMessage, GetTurn, ListTurns, TakeTurn
from actors.messages.turn import AttachTurnWatcher, DetachTurnWatcher, StopGeneration
from actors.notifier.notice import Cause
from actors.runtime import DEFERRED, Actor, Address, Ref, Reply
from actors.session import machine
from actors.session.following import Following
from actors.session.recovery import CutTurn, interruption, reclaim
from actors.session.settings import SessionSettings

log = structlog.get_logger("turnkeep.session")

TURN = "turn"
REST = "rest"
RETRY = "retry"

TurnFactory = Callable[[TakenTurn, Ref, tuple[Address, ...]], Actor]
"""Makes the actor of a turn: what was taken, the session to tell, and who watches from the start."""


class Session(Actor):
    """Reads its inbox, runs one turn at a time, and goes when it has rested."""

    kind = "session"

    def __init__(
        self,
        session_id: str,
        *,
        router: Ref,
        store: Ref,
        relays: Address,
        make_turn: TurnFactory,
        settings: SessionSettings,
        holding: bool,
    ) -> None:
        self._session_id = session_id
        self._router = router
        self._store = store
        self._relays = relays
        self._make_turn = make_turn
        self._settings = settings
        self._backoff = Backoff(settings.retry_base_s, settings.retry_cap_s)
        # One that is made while the daemon drains serves its watchers and begins no turn.
        self._state = machine.State(holding=holding)
        # Who waits for the turn over which inbox row.
        self._waiting: dict[str, list[Address]] = {}
        # Who watches the running turn: told its outcome if the turn's actor crashes.
        self._watching: list[Address] = []
        # Serves who follows every turn, once there has been somebody.
        self._following: Following | None = None
        # Stops of messages that still wait, by inbox row.
        self._stops: dict[str, list[Reply[bool]]] = {}
        # Messages of the router handled by this incarnation: proves to it that nothing is on its way.
        self._seen = 0

    async def on_start(self) -> None:
        """Look into the inbox: whatever woke it, that is what it is for."""
        self._decide(machine.Mail())

    async def on_receive(self, message: Any) -> Any:
        """Translate a message into an event of the machine, or serve a watcher."""
        match message:
            case InboxReady():
                self._seen += 1
                self._decide(machine.Mail())
            case MailWaits() if not self.ctx.suspended:
                self._decide(machine.Mail())
            case AttachWatcher():
                self._seen += 1
                self._attach(message)
            case DetachWatcher():
                self._seen += 1
                self._detach(message)
            case FollowTurns() | UnfollowTurns():
                self._seen += 1
                self._follow(message)
            case PastRead() | EndRead():
                self._follow(message)
            case StopTurn():
                self._seen += 1
                return self._stop(message)
            case TurnTaken(turn=turn):
                self._decide(machine.Taken(turn))
            case TakeFailed(unsure=unsure):
                self._decide(machine.TakeRefused(unsure))
            case UnseenTurns(turns=turns):
                self._decide(machine.UnseenRead(turns))
            case TurnReclaimed(done=done):
                self._decide(machine.Reclaimed(done))
            case RetryTake() | PlaceFree():
                self._decide(machine.Retry())
            case TurnEnded():
                self.ctx.system.failpoints.hit("session.ended")
                self._decide(machine.EndStored(message.turn_gen, message.state, message.peer_to_deliver))
                if self._following is not None:
                    self._following.turn_ended(message.turn_id)
            case LostTurnEnded():
                self._lost_turn_ended(message)
            case MessageBuried():
                self._message_buried(message)
            case OutcomeRead():
                self._outcome_read(message)
            case IdleTooLong() if self.ctx.suspended or self._followed():
                # Going would end the suspension with it, or the following.
                self._perform(machine.ArmRest())
            case IdleTooLong():
                self._decide(machine.Rested())
            case PassivationAnswered(granted=granted):
                self._decide(machine.LeaveAnswered(granted))
            case HoldTurns():
                self._decide(machine.Held())
            case Interrupt():
                self._decide(machine.Cut())
            case Down(reason=reason):
                self._turn_gone(reason)
        return None

    def _decide(self, event: machine.Event) -> None:
        self._state, effects = machine.step(self._state, event)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: machine.Effect) -> None:
        match effect:
            case machine.Take():
                self._take()
            case machine.FindUnseen():
                self._find_unseen()
            case machine.Reclaim(turn=unseen):
                self._reclaim(unseen)
            case machine.StartTurn(turn=turn):
                self._start_turn(turn)
            case machine.StopRunning(by=by):
                self._tell_turn(StopGeneration(by=by))
            case machine.BuryQueued(inbox_id=inbox_id, by=by):
                self._bury(inbox_id, by)
            case machine.EndLost(turn=turn):
                self._end_lost(turn)
            case machine.RetryLater(failures=failures):
                self.ctx.set_timer(RETRY, self._delay(failures), RetryTake())
            case machine.Deliver(peer=peer):
                self._tell(self._relays, DeliveryReady(peer=peer))
            case machine.SettleWatchers():
                for inbox_id in list(self._waiting):
                    self._read_outcome(inbox_id)
            case machine.ArmRest():
                self.ctx.set_timer(REST, self._settings.idle_s, IdleTooLong())
            case machine.DisarmRest():
                self.ctx.cancel_timer(REST)
            case machine.AskToLeave():
                self._ask_to_leave()
            case machine.Leave():
                self.ctx.stop(DownReason.PASSIVATED)

    # The turn

    def _take(self) -> None:
        if not self.ctx.wait_for_place(TURN):
            # The actor of an earlier turn still runs: no other begins before it has ended.
            self.ctx.ref.tell(TakeFailed(unsure=False))
            return
        self.ctx.system.failpoints.hit("session.take")
        request = TakeTurn(session_id=self._session_id, turn_id=self.ctx.system.new_id(), at=self.ctx.wall())
        self.ctx.pipe(
            self._store.ask(request, self.ctx.within(self._settings.store_s)),
            lambda turn: TurnTaken(turn=turn),
            # After a definite failure nothing of the request was kept; after a late answer nobody knows.
            lambda error: TakeFailed(unsure=not isinstance(error, StoreUnavailable)),
        )

    def _find_unseen(self) -> None:
        self.ctx.pipe(
            self._store.ask(
                ListTurns(session_id=self._session_id, states=(TurnState.RUNNING,)),
                self.ctx.within(self._settings.store_s),
            ),
            lambda turns: UnseenTurns(turns=turns),
            lambda error: UnseenTurns(turns=None),
        )

    def _reclaim(self, turn: TurnRow) -> None:
        self.ctx.pipe(
            self._store.ask(reclaim(turn, self.ctx.wall()), self.ctx.within(self._settings.store_s)),
            lambda row: TurnReclaimed(done=True),
            # Contradicted, it has ended in another way.
            lambda error: TurnReclaimed(done=isinstance(error, Conflict)),
        )

    def _start_turn(self, turn: TakenTurn) -> None:
        self.ctx.system.failpoints.hit("session.taken")
        followers = self._following.listening() if self._following is not None else ()
        self._watching = list(dict.fromkeys((*self._waiting.pop(turn.inbox_id, []), *followers)))
        watchers = tuple(self._watching)
        me = self.ctx.ref
        self.ctx.spawn(TURN, lambda: self._make_turn(turn, me, watchers))
        if turn.origin is Origin.RELAY and turn.route is not None:
            show = ShowAnswer(
                peer=turn.peer,
                session_id=turn.session_id,
                inbox_id=turn.inbox_id,
                turn_id=turn.turn_id,
                turn_gen=turn.turn_gen,
                route=turn.route,
            )
            self._tell(self._relays, show)

    def _tell_turn(self, message: Any) -> None:
        turn = self.ctx.child(TURN)
        if turn is not None:
            turn.tell(message)

    def _turn_gone(self, reason: DownReason) -> None:
        if self._state.ended is not None:
            self._watching = []
        self._decide(machine.TurnGone(reason))

    def _end_lost(self, turn: TakenTurn) -> None:
        # What the turn had flushed is in its row, where it stays readable.
        cut = CutTurn(
            turn_id=turn.turn_id, turn_gen=turn.turn_gen, origin=turn.origin, peer=turn.peer, route=turn.route
        )
        end = interruption(cut, Cause.CRASH, False, self.ctx.wall())
        self.ctx.pipe(
            self._store.ask(end, self.ctx.within(self._settings.store_s)),
            lambda row: LostTurnEnded(turn_gen=turn.turn_gen, turn=row, stored=True),
            lambda error: LostTurnEnded(turn_gen=turn.turn_gen, contradicted=isinstance(error, Conflict)),
        )

    def _read_lost(self, turn: TakenTurn) -> None:
        self.ctx.pipe(
            self._store.ask(GetTurn(turn_id=turn.turn_id), self.ctx.within(self._settings.store_s)),
            lambda row: LostTurnEnded(turn_gen=turn.turn_gen, turn=row, stored=True),
            lambda error: LostTurnEnded(turn_gen=turn.turn_gen),
        )

    def _lost_turn_ended(self, message: LostTurnEnded) -> None:
        lost = self._state.turn
        if lost is None or lost.turn_gen != message.turn_gen:
            return
        if message.contradicted:
            # Its actor was lost after its end had been stored: that end counts.
            self._read_lost(lost)
            return
        if message.stored:
            for watcher in self._watching:
                self._tell(watcher, TurnOutcome(inbox_id=lost.inbox_id, turn=message.turn))
            self._watching = []
            if lost.route is not None and lost.origin is Origin.RELAY:
                self._tell(self._relays, DeliveryReady(peer=lost.peer))
        self._decide(machine.LostEndStored(message.turn_gen, message.stored))

    # Watchers

    def _attach(self, message: AttachWatcher) -> None:
        turn = self._state.turn
        if turn is not None and turn.inbox_id == message.inbox_id and self._state.ended is None:
            if message.watcher not in self._watching:
                self._watching.append(message.watcher)
                self._tell_turn(AttachTurnWatcher(watcher=message.watcher))
            return
        waiting = self._waiting.setdefault(message.inbox_id, [])
        if message.watcher not in waiting:
            waiting.append(message.watcher)
        # If the message waits, the next look takes it; if its turn is over, the look finds that out.
        self._decide(machine.Mail())

    def _detach(self, message: DetachWatcher) -> None:
        for watchers in (self._watching, self._waiting.get(message.inbox_id, [])):
            if message.watcher in watchers:
                watchers.remove(message.watcher)
        self._tell_turn(DetachTurnWatcher(watcher=message.watcher))

    def _read_outcome(self, inbox_id: str) -> None:
        self.ctx.pipe(
            self._store.ask(GetTurn(inbox_id=inbox_id), self.ctx.within(self._settings.store_s)),
            lambda turn: OutcomeRead(inbox_id=inbox_id, turn=turn),
            lambda error: OutcomeRead(inbox_id=inbox_id, turn=None, known=False),
        )

    def _outcome_read(self, message: OutcomeRead) -> None:
        if not message.known:
            self.ctx.set_timer(RETRY, self._delay(1), RetryTake())
            return
        for watcher in self._waiting.pop(message.inbox_id, []):
            self._tell(watcher, TurnOutcome(inbox_id=message.inbox_id, turn=message.turn))

    # Followers

    def _follow(self, message: Any) -> None:
        if self._following is None:
            self._following = Following(
                self.ctx,
                self._session_id,
                store=self._store,
                store_s=self._settings.store_s,
                running=lambda: self._state.turn if self._state.ended is None else None,
                watch=self._watch_from,
                unwatch=self._unwatch,
            )
        self._following.hear(message)

    def _watch_from(self, watcher: Address, after_seq: int) -> None:
        self._watching.append(watcher)
        self._tell_turn(AttachTurnWatcher(watcher=watcher, after_seq=after_seq))

    def _unwatch(self, watcher: Address) -> None:
        if watcher in self._watching:
            self._watching.remove(watcher)
            self._tell_turn(DetachTurnWatcher(watcher=watcher))

    def _followed(self) -> bool:
        return self._following is not None and self._following.anybody()

    def _tell(self, address: Address, message: Any) -> None:
        """Tell a watcher, who may be gone, or the relays, which find a stored delivery by themselves if they are away."""
        try:
            address.tell(message)
        except RuntimeFault as fault:
            log.debug("session.not_told", path=address.path, fault=type(fault).__name__)

    # Stops

    def _stop(self, message: StopTurn) -> Any:
        before = self._state
        self._state, effects = machine.step(before, machine.StopAsked(message.by, message.inbox_id))
        answer: Any = False
        for effect in effects:
            if isinstance(effect, machine.AnswerStop):
                answer = effect.stopped
            elif isinstance(effect, machine.BuryQueued):
                reply = self.ctx.defer()
                if reply is not None:
                    self._stops.setdefault(effect.inbox_id, []).append(reply)
                    answer = DEFERRED
                self._bury(effect.inbox_id, effect.by)
            else:
                self._perform(effect)
        return answer

    def _bury(self, inbox_id: str, by: str) -> None:
        burial = BuryMessage(inbox_id=inbox_id, reason=by, at=self.ctx.wall())
        kept = keep(self._store, burial, self.ctx.within(self._settings.store_s))
        self.ctx.run(self._see_buried(inbox_id, by, kept), f"bury-{inbox_id}")

    async def _see_buried(self, inbox_id: str, by: str, kept: Awaitable[bool]) -> None:
        try:
            message = MessageBuried(inbox_id=inbox_id, by=by, buried=await kept)
        except TurnkeepError as error:
            message = MessageBuried(inbox_id=inbox_id, by=by, buried=False, fault=error)
        self.ctx.ref.tell(message)

    def _message_buried(self, message: MessageBuried) -> None:
        turn = self._state.turn
        stopped = message.buried
        if not stopped and turn is not None and turn.inbox_id == message.inbox_id:
            # It was taken while the burial was on its way: the stop is meant for the turn that it became.
            self._tell_turn(StopGeneration(by=message.by))
            stopped = True
        for reply in self._stops.pop(message.inbox_id, []):
            if message.fault is not None and not stopped:
                reply.set_exception(message.fault)
            else:
                reply.set(stopped)
        if message.buried and message.inbox_id in self._waiting:
            self._read_outcome(message.inbox_id)

    # Rest

    def _ask_to_leave(self) -> None:
        self.ctx.system.failpoints.hit("session.leave")
        self.ctx.pipe(
            self._router.ask(
                Passivate(session_id=self._session_id, seen=self._seen, session=self.ctx.ref),
                self.ctx.within(self._settings.store_s),
            ),
            lambda granted: PassivationAnswered(granted=granted),
            lambda error: PassivationAnswered(granted=False),
        )

    def _delay(self, failures: int) -> float:
        return self._backoff.delay(failures, self.ctx.system.random.random())
