"""/relays/<peer>/answer-<turn>: shows one answer while it is being made; what it shows is decided in actors.relay.live."""

import contextlib
from collections.abc import Awaitable
from typing import Any

from actors.exceptions import Conflict, RuntimeFault, TurnkeepError
from actors.keep import keep
from actors.messages.descriptor import Descriptor
from actors.messages.relay import (
    AnswerShown,
    AnswerTaken,
    BeginningKept,
    BeginningSettled,
    BeginningWithdrawn,
    DeliveryReady,
    EditAnswer,
    LinkCame,
    ListenAgain,
    Result,
    ShowAnswer,
    ShowMore,
)
from actors.messages.rows import ENDED_TURNS, DeliveryRow, DeliveryState, NewDelivery
from actors.messages.session import AttachWatcher, DetachWatcher, TurnOutcome
from actors.messages.store import BeginAnswer, WithdrawBeginning
from actors.messages.turn import (
    Content,
    RunPhase,
    Snapshot,
    StateChange,
    StreamDiscarded,
    ThinkingStart,
    TurnEvent,
)
from actors.relay import live, results
from actors.relay.peer_link import send_budget
from actors.relay.settings import RelaySettings
from actors.runtime import Actor, Address, Budget, Ref

SILENCE_S = 60.0
"""Nothing of a turn for so long may mean that its session was lost, and with it who listens."""


class LiveAnswer(Actor):
    """Listens to one turn, and asks its peer to show what it says. Losing it loses nothing: the turn's end is a delivery."""

    kind = "answer"

    def __init__(
        self,
        show: ShowAnswer,
        descriptor: Descriptor,
        *,
        peer: Ref,
        sessions: Address,
        store: Ref,
        settings: RelaySettings,
    ) -> None:
        self._show = show
        self._peer = peer
        self._sessions = sessions
        self._store = store
        self._settings = settings
        self._state = live.State(limit=descriptor.max_message_length, unit=descriptor.len_unit)
        # The last event heard; None while a Snapshot is on its way.
        self._seq: int | None = None

    async def on_start(self) -> None:
        """Listen."""
        self._listen()

    async def on_receive(self, message: Any) -> None:
        """Translate a message into an event of the machine."""
        match message:
            case TurnEvent():
                self._hear(message)
            case TurnOutcome(turn=turn):
                if turn is None or turn.state in ENDED_TURNS:
                    self._decide(live.TurnOver())
            case BeginningKept():
                self._decide(_kept(message))
            case BeginningSettled():
                self._decide(_settled(message.state, message.message_id))
            case BeginningWithdrawn(gone=gone):
                self._decide(live.Withdrawn(gone))
            case AnswerShown(result=result):
                self._decide(_shown(result))
            case LinkCame():
                self._decide(live.LinkCame())
            case ShowMore():
                self._decide(live.Due())
            case AnswerTaken():
                self._decide(live.TurnOver())
            case ListenAgain():
                self._listen_again()

    # The turn

    def _listen(self) -> None:
        self._seq = None
        show = self._show
        watch = AttachWatcher(session_id=show.session_id, inbox_id=show.inbox_id, watcher=self.ctx.ref)
        self._tell_sessions(watch)
        self.ctx.set_timer("silence", SILENCE_S, ListenAgain())

    def _listen_again(self) -> None:
        show = self._show
        leave = DetachWatcher(session_id=show.session_id, inbox_id=show.inbox_id, watcher=self.ctx.ref)
        self._tell_sessions(leave)
        self._listen()

    def _tell_sessions(self, message: AttachWatcher | DetachWatcher) -> None:
        # The next silence brings another try.
        with contextlib.suppress(RuntimeFault):
            self._sessions.tell(message)

    def _hear(self, event: TurnEvent) -> None:
        if (event.turn_id, event.turn_gen) != (self._show.turn_id, self._show.turn_gen):
            return
        if isinstance(event, Snapshot):
            self._decide(live.CaughtUp(event.seq, event.text))
        elif self._seq is None:
            return
        elif event.seq != self._seq + 1:
            # Some were dropped on the way here.
            self._listen_again()
            return
        self._seq = event.seq
        self.ctx.set_timer("silence", SILENCE_S, ListenAgain())
        match event:
            case Content(text=text):
                self._decide(live.Heard(text))
            case ThinkingStart(seq=seq):
                self._decide(live.AttemptBegan(seq))
            case StreamDiscarded(keep_upto=keep_upto):
                self._decide(live.Discarded(keep_upto))
            case StateChange(state=RunPhase.IDLE | RunPhase.ERROR):
                self._decide(live.TurnOver())

    # What is shown

    def _decide(self, event: live.Event) -> None:
        self._state, effects = live.step(self._state, event, self.ctx.now(), self._settings)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: live.Effect) -> None:
        match effect:
            case live.Begin(content=content):
                self._begin(content)
            case live.Withdraw():
                self._withdraw()
            case live.Edit(message_id=message_id, content=content):
                self._edit(message_id, content)
            case live.Wait(seconds=seconds):
                self.ctx.set_timer("due", seconds, ShowMore())
            case live.End():
                self.ctx.stop()

    def _begin(self, content: str) -> None:
        self.ctx.system.failpoints.hit("relay.begin")
        show = self._show
        begin = BeginAnswer(
            at=self.ctx.wall(),
            turn_id=show.turn_id,
            turn_gen=show.turn_gen,
            delivery=NewDelivery(
                delivery_id=self._beginning, peer=show.peer, route=show.route, content=content
            ),
        )
        self.ctx.run(self._see_begun(keep(self._store, begin, self._store_budget())), "begin")

    async def _see_begun(self, kept: Awaitable[DeliveryRow]) -> None:
        try:
            row = await kept
        except TurnkeepError as error:
            self.ctx.ref.tell(BeginningKept(row=None, over=isinstance(error, Conflict)))
            return
        self.ctx.ref.tell(BeginningKept(row=row))
        self._peer.tell(DeliveryReady(peer=self._show.peer))

    def _withdraw(self) -> None:
        withdraw = WithdrawBeginning(at=self.ctx.wall(), delivery_id=self._beginning)
        self.ctx.pipe(
            self._store.ask(withdraw, self._store_budget()),
            lambda gone: BeginningWithdrawn(gone=gone),
            lambda error: BeginningWithdrawn(gone=False),
        )

    def _edit(self, message_id: str, content: str) -> None:
        show = self._show
        edit = EditAnswer(
            turn_id=show.turn_id,
            chat=show.route.chat,
            route=show.route,
            message_id=message_id,
            content=content,
        )
        self.ctx.pipe(
            self._peer.ask(edit, send_budget(self.ctx, self._settings)),
            lambda result: AnswerShown(result=result),
            lambda error: AnswerShown(result=results.of_error(error)),
        )

    @property
    def _beginning(self) -> str:
        # Named after the turn, so that a repetition keeps no second one.
        return f"{self._show.turn_id}-beginning-{self._show.turn_gen}"

    def _store_budget(self) -> Budget:
        return self.ctx.within(self._settings.store_s)


def _kept(message: BeginningKept) -> live.Event:
    row = message.row
    if row is None:
        return live.NotKept(running=not message.over)
    if row.state in (DeliveryState.PENDING, DeliveryState.ATTEMPTING):
        return live.Kept()
    if row.state is DeliveryState.DELIVERED and row.message_id is not None:
        return live.Kept(row.message_id)
    return live.BeginningLost()


def _settled(state: DeliveryState, message_id: str | None) -> live.Event:
    if state is DeliveryState.PENDING:
        return live.BeginningNotSent()
    if state is DeliveryState.DELIVERED and message_id is not None:
        return live.BeginningShown(message_id)
    return live.BeginningLost()


def _shown(result: Result) -> live.Event:
    if result.get("success") is True:
        return live.EditDone()
    if results.unanswered(result):
        return live.EditUnanswered()
    return live.EditRefused(results.wait_asked(result) or 0.0)
