"""One turn's actor: talks to its lane, publishes typed events, and makes the end durable before it says so."""

from typing import Any

import structlog

from actors.backoff import Backoff
from actors.exceptions import Conflict, MailboxFull, RuntimeFault
from actors.messages.base import ControlMessage
from actors.messages.lane import (
    CancelStream,
    FailureClass,
    OpenStream,
    StreamArmed,
    StreamDelta,
    StreamFailed,
    StreamFinished,
    StreamMessage,
)
from actors.messages.metrics import Outcome
from actors.messages.rows import NewDelivery, Origin, TakenTurn, TurnRow, TurnState
from actors.messages.session import TurnEnded
from actors.messages.store import EndTurn, FlushPartial
from actors.messages.turn import (
    AttachTurnWatcher,
    DetachTurnWatcher,
    LaneRetry,
    Snapshot,
    StopGeneration,
    TurnEvent,
)
from actors.runtime import Actor, Address, Budget, Ref
from actors.turn import machine
from actors.turn.meter import Meter
from actors.turn.recent import Recent
from actors.turn.settings import TurnSettings

log = structlog.get_logger("turnkeep.turn")

STORE_SECONDS = 10.0
"""The budget of one try to store the end; the tries go on until the store answers."""


class BudgetOver(ControlMessage, frozen=True, kw_only=True):
    """The whole turn has used up its time."""


class RetryDue(ControlMessage, frozen=True, kw_only=True):
    """A wait of the ladder, or between tries to store the end, is over."""


class FlushDue(ControlMessage, frozen=True, kw_only=True):
    """The flush interval is over."""


class FlushAnswered(ControlMessage, frozen=True, kw_only=True):
    """The store has answered a flush, in whichever way."""


class EndAnswered(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the end; None and an error's class if it failed."""

    row: TurnRow | None
    conflict: bool = False


class Turn(Actor):
    """Runs one attempt ladder over one message."""

    kind = "turn"

    def __init__(
        self,
        taken: TakenTurn,
        *,
        session: Ref,
        store: Ref,
        lanes: dict[str, Ref],
        metrics: Ref,
        watchers: tuple[Address, ...],
        settings: TurnSettings,
    ) -> None:
        self._taken = taken
        self._session = session
        self._store = store
        self._metrics = metrics
        self._watchers = list(watchers)
        self._settings = settings
        # A chat has nobody who runs tools.
        self._state = machine.State(runs_tools=taken.origin is Origin.API)
        self._seq = 0
        self._recent = Recent()
        # Measures the attempt under way, or the last one.
        self._meter: Meter | None = None
        self._lane_name = str(taken.params.get("model") or next(iter(lanes), ""))
        self._lane = lanes.get(self._lane_name)
        self._store_backoff = Backoff(settings.store_retry_base_s, settings.store_retry_cap_s)

    async def on_start(self) -> None:
        """Begin the first attempt."""
        self._budget: Budget = self.ctx.within(self._settings.budget_s)
        self.ctx.set_timer("budget", self._settings.budget_s, BudgetOver())
        self._decide(machine.Begun(self._lane_name if self._lane is not None else None))

    async def on_receive(self, message: Any) -> None:
        """Translate a message into an event of the machine, or serve a watcher."""
        match message:
            case StreamMessage():
                self._stream(message)
            case StopGeneration(by=by):
                self._decide(machine.StopAsked(by))
            case AttachTurnWatcher(watcher=watcher, after_seq=after_seq):
                self._attach(watcher, after_seq)
            case DetachTurnWatcher(watcher=watcher):
                self._detach(watcher)
            case EndAnswered():
                self._end_answered(message)
            case RetryDue():
                self._decide(machine.RetryDue())
            case FlushDue():
                self._decide(machine.FlushDue())
            case FlushAnswered():
                self._decide(machine.Flushed())
            case BudgetOver():
                self._decide(machine.BudgetOver())

    def _stream(self, message: StreamMessage) -> None:
        if message.stream_id != self._stream_id(self._state.attempt):
            # What a lost attempt still says is fenced.
            return
        self.ctx.system.failpoints.hit("turn.stream")
        match message:
            case StreamDelta(text=text, reasoning=reasoning, tool_calls=calls):
                if self._meter is not None:
                    self._meter.heard(self.ctx.system.clock.monotonic())
                self._decide(machine.Delta(text, reasoning, calls))
            case StreamArmed():
                self._decide(machine.Armed())
            case StreamFinished(finish_reason=finish_reason, usage=usage):
                self._measure(Outcome.COMPLETED, usage)
                self._decide(machine.Finished(finish_reason, usage))
            case StreamFailed():
                self._measure(message.failure)
                fraction = self.ctx.system.random.random()
                self._decide(
                    machine.Failed(message.failure, message.error_class, message.retry_after, fraction)
                )

    def _decide(self, event: machine.Event) -> None:
        self._state, effects = machine.step(self._state, event, self._settings)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: machine.Effect) -> None:
        match effect:
            case machine.Emit(kind=kind, fields=fields):
                self._emit(kind, fields)
            case machine.OpenAttempt(attempt=attempt):
                self._open(attempt)
            case machine.CancelAttempt(attempt=attempt):
                self._measure(Outcome.STOPPED)
                if self._lane is not None:
                    self._tell(self._lane, CancelStream(stream_id=self._stream_id(attempt)))
            case machine.ArmRetry(delay=delay):
                self.ctx.set_timer("retry", delay, RetryDue())
            case machine.DisarmRetry():
                self.ctx.cancel_timer("retry")
            case machine.ArmFlush():
                self.ctx.set_timer("flush", self._settings.flush_s, FlushDue())
            case machine.Flush(text=text):
                self._flush(text)
            case machine.Store(end=end):
                self._store_end(end)
            case machine.StoreAgain(failures=failures):
                delay = self._store_backoff.delay(failures, self.ctx.system.random.random())
                log.warning("turn.end_not_stored", turn_id=self._taken.turn_id, failures=failures)
                self.ctx.set_timer("retry", delay, RetryDue())
            case machine.Leave(end=end):
                self._leave(end)
            case machine.Vanish():
                self.ctx.publish(
                    "turn.superseded", turn_id=self._taken.turn_id, turn_gen=self._taken.turn_gen
                )
                self.ctx.stop()

    # The lane

    def _stream_id(self, attempt: int) -> str:
        return f"{self._taken.turn_id}:{self._taken.turn_gen}:{attempt}"

    def _open(self, attempt: int) -> None:
        self.ctx.system.failpoints.hit("turn.open")
        assert self._lane is not None
        self._meter = Meter(self._lane_name, self.ctx.system.clock.monotonic())
        request = OpenStream(
            stream_id=self._stream_id(attempt),
            entries=self._taken.history,
            params=self._taken.params,
            reply_to=self.ctx.ref,
            budget=self._budget,
        )
        try:
            self._lane.tell(request)
        except RuntimeFault as fault:
            # The lane is at its bound or being restarted: a failure like one of its backend.
            failure = FailureClass.RATE_LIMITED if isinstance(fault, MailboxFull) else FailureClass.CONNECT
            self.ctx.ref.tell(
                StreamFailed(stream_id=request.stream_id, failure=failure, error_class=type(fault).__name__)
            )

    def _measure(self, outcome: Outcome | FailureClass, usage: dict[str, int] | None = None) -> None:
        measured = self._meter.end(outcome, usage=usage) if self._meter is not None else None
        if measured is not None:
            self._tell(self._metrics, measured)

    # Watchers

    def _emit(self, kind: type[TurnEvent], fields: dict[str, Any]) -> None:
        self._seq += 1
        if kind is LaneRetry:
            fields = {**fields, "lane": self._lane_name}
        event = kind(**self._head(self._seq), **fields)
        self._recent.keep(event)
        for watcher in list(self._watchers):
            if not self._tell(watcher, event):
                self._watchers.remove(watcher)

    def _head(self, seq: int) -> dict[str, Any]:
        return {
            "session_id": self._taken.session_id,
            "turn_id": self._taken.turn_id,
            "turn_gen": self._taken.turn_gen,
            "attempt": self._state.attempt,
            "seq": seq,
        }

    def _tell(self, address: Address, message: Any) -> bool:
        try:
            address.tell(message)
        except RuntimeFault:
            return False
        return True

    def _attach(self, watcher: Address, after_seq: int | None) -> None:
        if watcher in self._watchers:
            return
        lacks = self._recent.after(after_seq) if after_seq is not None else None
        if lacks is None:
            state, gap = self._state, after_seq is not None
            head = self._head(self._seq)
            lacks = (Snapshot(**head, text=state.text, tool_calls=state.calls.calls, gap=gap),)
        if all(self._tell(watcher, event) for event in lacks):
            self._watchers.append(watcher)

    def _detach(self, watcher: Address) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    # The store

    def _flush(self, text: str) -> None:
        self.ctx.system.failpoints.hit("turn.flush")
        self.ctx.cancel_timer("flush")
        partial = FlushPartial(
            turn_id=self._taken.turn_id, turn_gen=self._taken.turn_gen, text=text, at=self.ctx.wall()
        )
        self.ctx.pipe(
            self._store.ask(partial, self.ctx.within(STORE_SECONDS)),
            lambda _: FlushAnswered(),
            lambda error: FlushAnswered(),
        )

    def _store_end(self, end: machine.End) -> None:
        self.ctx.system.failpoints.hit("turn.end")
        self.ctx.cancel_timer("budget")
        self.ctx.cancel_timer("flush")
        request = EndTurn(
            turn_id=self._taken.turn_id,
            turn_gen=self._taken.turn_gen,
            state=end.state,
            reason=end.reason,
            text=end.text,
            tool_calls=end.tool_calls,
            interrupted_text=end.interrupted_text,
            notice=end.notice,
            usage=end.usage,
            delivery=self._delivery(end),
            at=self.ctx.wall(),
        )
        self.ctx.pipe(
            self._store.ask(request, self.ctx.within(STORE_SECONDS)),
            lambda row: EndAnswered(row=row),
            lambda error: EndAnswered(row=None, conflict=isinstance(error, Conflict)),
        )

    def _delivery(self, end: machine.End) -> NewDelivery | None:
        """The chat gets the answer, or the sentence that says why there is none (CHAT-1)."""
        taken = self._taken
        if taken.origin is not Origin.RELAY or taken.route is None or end.state is TurnState.CANCELLED:
            return None
        content = end.text or end.notice
        if not content:
            return None
        # Named after the turn, so that a repeated end stores no second one.
        delivery_id = f"{taken.turn_id}-answer-{taken.turn_gen}"
        return NewDelivery(delivery_id=delivery_id, peer=taken.peer, route=taken.route, content=content)

    def _end_answered(self, message: EndAnswered) -> None:
        if message.row is not None:
            self._decide(machine.Stored())
        elif message.conflict:
            self._decide(machine.Superseded())
        else:
            self._decide(machine.StoreFailed())

    def _leave(self, end: machine.End) -> None:
        self.ctx.system.failpoints.hit("turn.leave")
        delivery = self._delivery(end)
        self.ctx.publish(
            f"turn.{end.state}",
            session_id=self._taken.session_id,
            turn_id=self._taken.turn_id,
            origin=self._taken.origin,
            reason=end.reason,
        )
        self._tell(
            self._session,
            TurnEnded(
                turn_id=self._taken.turn_id,
                turn_gen=self._taken.turn_gen,
                state=end.state,
                peer_to_deliver=delivery.peer if delivery is not None else None,
            ),
        )
        self.ctx.stop()
