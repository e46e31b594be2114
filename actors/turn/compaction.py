"""The child of a turn that lets a model summarise what was said before, and has the store keep the summary."""

import contextlib
from typing import Any

from actors.exceptions import Conflict, RuntimeFault, TurnkeepError
from actors.keep import keep
from actors.messages.base import ControlMessage
from actors.messages.lane import (
    CancelStream,
    FailureClass,
    LaneBinding,
    OpenStream,
    ResolveLanes,
    StreamDelta,
    StreamFailed,
    StreamFinished,
    StreamMessage,
)
from actors.messages.lifecycle import DownReason
from actors.messages.metrics import Outcome
from actors.messages.rows import Entry, Said, TakenTurn
from actors.messages.store import CompactHistory, ReadConversation
from actors.runtime import Actor, Budget, Ref
from actors.turn import ladder, opening, summary
from actors.turn.happenings import Failed
from actors.turn.meter import Meter
from actors.turn.settings import TurnSettings
from actors.turn.text import Text

ASK_SECONDS = 5.0
"""The budget of what is asked of the store and of /lanes."""


class CompactionOver(ControlMessage, frozen=True, kw_only=True):
    """What a turn hears of its compaction: the history as it is now, or None and why not."""

    history: tuple[Entry, ...] | None
    error_class: str = ""
    superseded: bool = False
    """The turn is not the running one any more."""


class ConversationRead(ControlMessage, frozen=True, kw_only=True):
    """What was said before; None and an error's class if the store did not say."""

    said: tuple[Said, ...] | None
    error_class: str = ""


class LanesKnown(ControlMessage, frozen=True, kw_only=True):
    """Which lanes may write the summary; none if nobody said."""

    lanes: tuple[LaneBinding, ...]


class AskAgain(ControlMessage, frozen=True, kw_only=True):
    """A wait of the ladder is over."""


class Compaction(Actor):
    """
    Summarises for one turn; tells it CompactionOver once, and ends.

    The lane that the history did not fit into is asked first, each piece on its own; the others follow as they would for
    the turn itself. ``window`` is how many characters that lane may be given.
    """

    kind = "compaction"

    def __init__(
        self,
        taken: TakenTurn,
        *,
        turn: Ref,
        lane: LaneBinding,
        window: int,
        store: Ref,
        lanes: Ref,
        metrics: Ref,
        budget: Budget,
        settings: TurnSettings,
    ) -> None:
        self._taken = taken
        self._turn = turn
        self._left = [lane]
        self._window = window
        self._store = store
        self._lanes = lanes
        self._metrics = metrics
        self._budget = budget
        self._settings = settings
        self._work: summary.Work | None = None
        # How often the first of the lanes that are left has not taken the request in hand.
        self._failures = 0
        self._asked = 0
        self._text = Text()
        self._meter: Meter | None = None

    async def on_start(self) -> None:
        """Find out which lanes there are."""
        model = self._taken.params.get("model")
        resolve = ResolveLanes(model=model if isinstance(model, str) else None)
        self.ctx.pipe(
            self._lanes.ask(resolve, self._budget.at_most(ASK_SECONDS)),
            lambda lanes: LanesKnown(lanes=lanes),
            lambda error: LanesKnown(lanes=()),
        )

    async def on_receive(self, message: Any) -> None:
        """Go on to what comes next."""
        match message:
            case LanesKnown(lanes=lanes):
                self._read(lanes)
            case ConversationRead(said=None, error_class=error_class):
                self._fail(error_class)
            case ConversationRead(said=said):
                self._begin(said or ())
            case StreamMessage() if message.stream_id == self._stream_id():
                self._stream(message)
            case AskAgain():
                self._ask()
            case CompactionOver():
                self._finish(message)

    async def on_stop(self, reason: DownReason) -> None:
        """Let the backend go."""
        if self._meter is not None:
            self._measure(Outcome.STOPPED)
            self._cancel()

    def _read(self, lanes: tuple[LaneBinding, ...]) -> None:
        first = self._left[0].traits.name
        named = [lane for lane in lanes if lane.traits.name == first]
        self._left = [*(named or self._left), *(lane for lane in lanes if lane.traits.name != first)]
        read = ReadConversation(session_id=self._taken.session_id, inbox_id=self._taken.inbox_id)
        self.ctx.pipe(
            self._store.ask(read, self._budget.at_most(ASK_SECONDS)),
            lambda said: ConversationRead(said=said),
            lambda error: ConversationRead(said=None, error_class=type(error).__name__),
        )

    def _begin(self, said: tuple[Said, ...]) -> None:
        self._work = summary.begin(said, self._window)
        if self._work is None:
            self._fail("NothingToCompact")
        else:
            self._ask()

    # The model

    def _stream_id(self) -> str:
        return f"{self._taken.turn_id}:{self._taken.turn_gen}:compaction:{self._asked}"

    def _ask(self) -> None:
        assert self._work is not None
        lane = self._left[0]
        self._asked += 1
        self._text = Text(lane.traits.think_tags)
        self._meter = Meter(lane.traits.name, self.ctx.now())
        opening.give(
            lane,
            OpenStream(
                stream_id=self._stream_id(),
                entries=summary.request(self._work),
                params={},
                reply_to=self.ctx.ref,
                budget=self._budget,
            ),
        )

    def _stream(self, message: StreamMessage) -> None:
        self.ctx.system.failpoints.hit("compaction.stream")
        match message:
            case StreamDelta(text=text):
                if self._meter is not None:
                    self._meter.heard(self.ctx.now())
                self._text, _ = self._text.feed(text)
            case StreamFinished(usage=usage):
                self._measure(Outcome.COMPLETED, usage)
                whole, _ = self._text.finish()
                self._answered(whole.content)
            case StreamFailed(failure=failure, error_class=name, retry_after=retry_after):
                self._measure(failure)
                self._failed(Failed(failure, name, retry_after, self.ctx.system.random.random()))

    def _answered(self, text: str) -> None:
        assert self._work is not None
        if not text.strip():
            self._next_lane("EmptySummary")
            return
        self._failures = 0
        self._work = summary.answered(self._work, text)
        if self._work.is_done:
            self.ctx.run(self._keep(self._work), "keep")
        else:
            self._ask()

    def _failed(self, failed: Failed) -> None:
        assert self._work is not None
        if failed.failure is FailureClass.OVERFLOW:
            shorter = summary.halved(self._work)
            if shorter is not None:
                self._work = shorter
                self._ask()
                return
        self._failures += 1
        if self._failures < self._settings.creation_tries and ladder.is_retryable(self._left[0], failed):
            self.ctx.set_timer("again", ladder.delay(self._failures, failed, self._settings), AskAgain())
        else:
            self._next_lane(failed.error_class)

    def _next_lane(self, error_class: str) -> None:
        self._failures = 0
        del self._left[0]
        if self._left:
            self._ask()
        else:
            self._fail(error_class)

    def _measure(self, outcome: Outcome | FailureClass, usage: dict[str, int] | None = None) -> None:
        measured = self._meter.end(outcome, usage=usage) if self._meter is not None else None
        if measured is not None:
            with contextlib.suppress(RuntimeFault):
                self._metrics.tell(measured)

    def _cancel(self) -> None:
        if self._left:
            with contextlib.suppress(RuntimeFault):
                self._left[0].lane.tell(CancelStream(stream_id=self._stream_id()))

    # The end

    async def _keep(self, work: summary.Work) -> None:
        write = CompactHistory(
            turn_id=self._taken.turn_id,
            turn_gen=self._taken.turn_gen,
            upto=work.upto,
            summary=summary.text(work),
            at=self.ctx.wall(),
        )
        try:
            history: tuple[Entry, ...] = await keep(self._store, write, self._budget.at_most(ASK_SECONDS))
            over = CompactionOver(history=history)
        except TurnkeepError as error:
            over = CompactionOver(
                history=None, error_class=type(error).__name__, superseded=isinstance(error, Conflict)
            )
        self.ctx.ref.tell(over)

    def _fail(self, error_class: str) -> None:
        self._finish(CompactionOver(history=None, error_class=error_class))

    def _finish(self, over: CompactionOver) -> None:
        with contextlib.suppress(RuntimeFault):
            self._turn.tell(over)
        self.ctx.stop()
