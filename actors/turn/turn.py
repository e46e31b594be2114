"""One turn's actor: talks to its lane, publishes typed events, and makes the end durable before it says so."""

from typing import Any

import msgspec
import structlog

from actors.backoff import Backoff
from actors.exceptions import Conflict
from actors.messages.lane import (
    CancelStream,
    FailureClass,
    LaneBinding,
    OpenStream,
    Prepared,
    ResolveLanes,
    StreamArmed,
    StreamDelta,
    StreamFailed,
    StreamFinished,
    StreamMessage,
    StreamPrepared,
)
from actors.messages.lifecycle import ABNORMAL, Down, Stop
from actors.messages.metrics import Outcome
from actors.messages.rows import Origin, TakenTurn
from actors.messages.session import TurnEnded
from actors.messages.store import FlushPartial
from actors.messages.turn import (
    AttachTurnWatcher,
    DetachTurnWatcher,
    StopGeneration,
)
from actors.runtime import Actor, Address, Budget, Ref
from actors.turn import effects, happenings, machine, outcome, wakes
from actors.turn.compaction import Compaction, CompactionOver
from actors.turn.meter import Meter
from actors.turn.opening import give
from actors.turn.settings import TurnSettings
from actors.turn.state import End, State
from actors.turn.summary import size
from actors.turn.watching import Watching, tell

log = structlog.get_logger("turnkeep.turn")

RESOLVE_SECONDS = 5.0
"""The budget of asking which lanes there are."""

STORE_SECONDS = 10.0
"""The budget of one try to store the end; the tries go on until the store answers."""


class Turn(Actor):
    """Runs one attempt ladder over one message."""

    kind = "turn"

    def __init__(
        self,
        taken: TakenTurn,
        *,
        session: Ref,
        store: Ref,
        lanes: Ref,
        metrics: Ref,
        watchers: tuple[Address, ...],
        settings: TurnSettings,
    ) -> None:
        self._taken = taken
        self._session = session
        self._store = store
        self._lanes = lanes
        self._metrics = metrics
        self._settings = settings
        self._state = State()
        self._watching = Watching(taken, watchers)
        # Measures the attempt under way, or the last one.
        self._meter: Meter | None = None
        # The request as it went out last, for as long as its lane is the same.
        self._prepared: Prepared | None = None
        # Whether the request is still to be dumped (TRN-36).
        self._dump = True
        # How many compactions were begun.
        self._compactions = 0
        self._store_backoff = Backoff(settings.store_retry_base_s, settings.store_retry_cap_s)

    async def on_start(self) -> None:
        """Begin the first attempt."""
        self._budget: Budget = self.ctx.within(self._settings.budget_s)
        self.ctx.set_timer("budget", self._settings.budget_s, wakes.BudgetOver())
        model = self._taken.params.get("model")
        self._decide(
            happenings.Begun(
                model=model if isinstance(model, str) else None,
                prompt_chars=self._prompt_chars(),
                # A chat has nobody who runs tools.
                runs_tools=self._taken.origin is Origin.API,
            )
        )

    async def on_receive(self, message: Any) -> None:
        """Translate a message into an event of the machine, or serve a watcher."""
        match message:
            case StreamMessage():
                self._stream(message)
            case wakes.LanesKnown(request=request, lanes=lanes, error_class=error_class):
                known = happenings.Resolved(request, lanes) if lanes is not None else None
                self._decide(known or happenings.Unresolved(request, error_class))
            case CompactionOver():
                self._compacted(message)
            case Down():
                self._compaction_down(message)
            case StopGeneration(by=by):
                self._decide(happenings.StopAsked(by))
            case AttachTurnWatcher(watcher=watcher, after_seq=after_seq):
                self._watching.attach(watcher, after_seq, self._state)
            case DetachTurnWatcher(watcher=watcher):
                self._watching.detach(watcher)
            case wakes.EndAnswered():
                self._end_answered(message)
            case wakes.BackoffOver():
                self._decide(happenings.BackoffOver())
            case wakes.FlushDue():
                self._decide(happenings.FlushDue())
            case wakes.FlushAnswered(superseded=superseded):
                self._decide(happenings.Superseded() if superseded else happenings.Flushed())
            case wakes.BudgetOver():
                self._decide(happenings.BudgetOver())

    def _stream(self, message: StreamMessage) -> None:
        if message.stream_id != self._stream_id(self._state.request):
            # What a lost attempt still says is fenced.
            return
        self.ctx.system.failpoints.hit("turn.stream")
        match message:
            case StreamDelta(text=text, reasoning=reasoning, tool_calls=calls):
                if self._meter is not None:
                    self._meter.heard(self.ctx.system.clock.monotonic())
                self._decide(happenings.Delta(text, reasoning, calls))
            case StreamPrepared(prepared=prepared):
                self._prepared = prepared
            case StreamArmed():
                self._decide(happenings.Armed())
            case StreamFinished(finish_reason=finish_reason, usage=usage):
                self._decide(happenings.Finished(finish_reason, usage))
                end = self._state.end
                self._measure(
                    Outcome.COMPLETED, end.usage if end else usage, estimated=bool(end and end.estimated)
                )
            case StreamFailed(failure=failure, error_class=name, retry_after=retry_after):
                self._measure(failure)
                fraction = self.ctx.system.random.random()
                self._decide(happenings.Failed(failure, name, retry_after, fraction))

    def _decide(self, event: happenings.Event) -> None:
        self._state, wanted = machine.step(self._state, event, self._settings)
        for effect in wanted:
            self._perform(effect)

    def _perform(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Emit():
                self._watching.emit(effect)
            case effects.Resolve(request=request):
                self._resolve(request)
            case effects.OpenAttempt(request=request, lane=lane):
                self._open(request, lane)
            case effects.CancelAttempt(request=request, lane=lane):
                self._measure(Outcome.STOPPED)
                tell(lane.lane, CancelStream(stream_id=self._stream_id(request)))
            case effects.Compact(lane=lane):
                self._compact(lane)
            case effects.CancelCompaction():
                child = self.ctx.child(self._compaction())
                if child is not None:
                    tell(child, Stop())
            case effects.ArmBackoff(delay=delay):
                self.ctx.set_timer("backoff", delay, wakes.BackoffOver())
            case effects.DisarmBackoff():
                self.ctx.cancel_timer("backoff")
            case effects.ArmFlush():
                self.ctx.set_timer("flush", self._settings.flush_s, wakes.FlushDue())
            case effects.Flush(text=text):
                self._flush(text)
            case effects.Warn(event=event, fields=fields, severe=severe):
                (log.error if severe else log.warning)(event, turn_id=self._taken.turn_id, **fields)
            case effects.Store(end=end):
                self._store_end(end)
            case effects.StoreAgain(failures=failures):
                delay = self._store_backoff.delay(failures, self.ctx.system.random.random())
                log.warning("turn.end_not_stored", turn_id=self._taken.turn_id, failures=failures)
                self.ctx.set_timer("backoff", delay, wakes.BackoffOver())
            case effects.Leave(end=end):
                self._leave(end)
            case effects.Vanish():
                self.ctx.publish(
                    "turn.superseded", turn_id=self._taken.turn_id, turn_gen=self._taken.turn_gen
                )
                self.ctx.stop()

    # The lane

    def _stream_id(self, request: int) -> str:
        return f"{self._taken.turn_id}:{self._taken.turn_gen}:{request}"

    def _resolve(self, request: int) -> None:
        asked = ResolveLanes(model=self._state.model)
        self.ctx.pipe(
            self._lanes.ask(asked, self._budget.at_most(RESOLVE_SECONDS)),
            lambda lanes: wakes.LanesKnown(request=request, lanes=lanes),
            lambda error: wakes.LanesKnown(request=request, lanes=None, error_class=type(error).__name__),
        )

    def _open(self, request: int, lane: LaneBinding) -> None:
        self.ctx.system.failpoints.hit("turn.open")
        self._meter = Meter(lane.traits.name, self.ctx.system.clock.monotonic())
        opening = OpenStream(
            stream_id=self._stream_id(request),
            entries=self._taken.history,
            params=self._taken.params,
            reply_to=self.ctx.ref,
            budget=self._budget,
            prepared=self._prepared,
            dump=self._dump,
        )
        self._dump = False
        give(lane, opening)

    def _compact(self, lane: LaneBinding) -> None:
        self.ctx.system.failpoints.hit("turn.compact")
        taken, window = self._taken, self._prompt_chars()
        if lane.traits.context_window is not None:
            window = min(window, int(lane.traits.context_window * lane.traits.chars_per_token))
        turn, budget = self.ctx.ref, self._budget
        self._compactions += 1
        self.ctx.spawn(
            self._compaction(),
            lambda: Compaction(
                taken,
                turn=turn,
                lane=lane,
                window=window,
                store=self._store,
                lanes=self._lanes,
                metrics=self._metrics,
                budget=budget,
                settings=self._settings,
            ),
        )

    def _compaction(self) -> str:
        return f"compaction-{self._compactions}"

    def _compacted(self, message: CompactionOver) -> None:
        if message.superseded:
            self._decide(happenings.Superseded())
        elif message.history is None:
            self._decide(happenings.NotCompacted(message.error_class))
        else:
            self._taken = msgspec.structs.replace(self._taken, history=message.history)
            self._prepared = None
            self._dump = True
            self._decide(happenings.Compacted(self._prompt_chars()))

    def _compaction_down(self, down: Down) -> None:
        # It has said how it ended, unless it could not.
        if down.reason in ABNORMAL and down.path == f"{self.ctx.path}/{self._compaction()}":
            self._decide(happenings.NotCompacted(down.error or "ActorStopped"))

    def _prompt_chars(self) -> int:
        return sum(map(size, self._taken.history))

    def _measure(
        self,
        outcome: Outcome | FailureClass,
        usage: dict[str, int] | None = None,
        *,
        estimated: bool = False,
    ) -> None:
        measured = self._meter.end(outcome, usage=usage, estimated=estimated) if self._meter else None
        if measured is not None:
            tell(self._metrics, measured)

    # The store

    def _flush(self, text: str) -> None:
        self.ctx.system.failpoints.hit("turn.flush")
        self.ctx.cancel_timer("flush")
        partial = FlushPartial(
            turn_id=self._taken.turn_id, turn_gen=self._taken.turn_gen, text=text, at=self.ctx.wall()
        )
        self.ctx.pipe(
            self._store.ask(partial, self.ctx.within(STORE_SECONDS)),
            lambda _: wakes.FlushAnswered(),
            lambda error: wakes.FlushAnswered(superseded=isinstance(error, Conflict)),
        )

    def _store_end(self, end: End) -> None:
        self.ctx.system.failpoints.hit("turn.end")
        self.ctx.cancel_timer("budget")
        self.ctx.cancel_timer("flush")
        request = outcome.write(self._taken, end, self.ctx.wall())
        self.ctx.pipe(
            self._store.ask(request, self.ctx.within(STORE_SECONDS)),
            lambda row: wakes.EndAnswered(row=row),
            lambda error: wakes.EndAnswered(row=None, conflict=isinstance(error, Conflict)),
        )

    def _end_answered(self, message: wakes.EndAnswered) -> None:
        if message.row is not None:
            self._decide(happenings.Stored())
        elif message.conflict:
            self._decide(happenings.Superseded())
        else:
            self._decide(happenings.StoreFailed())

    def _leave(self, end: End) -> None:
        self.ctx.system.failpoints.hit("turn.leave")
        delivery = outcome.delivery(self._taken, end)
        self.ctx.publish(
            f"turn.{end.state}",
            session_id=self._taken.session_id,
            turn_id=self._taken.turn_id,
            origin=self._taken.origin,
            reason=end.reason,
        )
        tell(
            self._session,
            TurnEnded(
                turn_id=self._taken.turn_id,
                turn_gen=self._taken.turn_gen,
                state=end.state,
                peer_to_deliver=delivery.peer if delivery is not None else None,
            ),
        )
        self.ctx.stop()
