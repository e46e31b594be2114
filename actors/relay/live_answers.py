"""
The answers that a peer shows while they are being made, within its actor: who shows which, and whose edit is under way.

The end of a turn is a delivery, and the outbox edits the answer's message with it. From the moment in which it has that in
hand the answer has no say any more, and what of it is still under way is waited for there.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from actors.exceptions import RuntimeFault
from actors.messages.descriptor import Descriptor
from actors.messages.link import SendAction
from actors.messages.relay import (
    AnswerEdited,
    AnswerTaken,
    BeginningSettled,
    EditAnswer,
    EditSpaced,
    LinkCame,
    RunningRead,
    ShowAnswer,
    ShowDue,
)
from actors.messages.rows import DeliveryRow, Origin, TurnState
from actors.messages.store import Unfinished
from actors.relay import outbox_state, results
from actors.relay.actions import edit_of
from actors.relay.link_decisions import bot_of
from actors.relay.live_answer import LiveAnswer
from actors.relay.peer_link import PeerLink, send_budget
from actors.relay.settings import RelaySettings
from actors.runtime import DEFERRED, Address, Context, Overflow, Ref

log = structlog.get_logger("turnkeep.relay")


class Shown(msgspec.Struct, frozen=True):
    """One of them."""

    inbox_id: str
    ref: Ref


class LiveAnswers:
    """
    Those of one peer. ``current`` tells the link that counts; ``decide`` tells the outbox what happens to a message.
    """

    def __init__(
        self,
        ctx: Context,
        name: str,
        *,
        store: Ref,
        sessions: Address,
        settings: RelaySettings,
        current: Callable[[], PeerLink | None],
        decide: Callable[[outbox_state.Event], None],
    ) -> None:
        self._ctx = ctx
        self._name = name
        self._store = store
        self._sessions = sessions
        self._settings = settings
        self._current = current
        self._decide = decide
        # Both by turn: answers that may be whole before there is anything to show, and those that are being shown.
        self._wanted: dict[str, ShowAnswer] = {}
        self._shown: dict[str, Shown] = {}
        # Messages whose edit the link has not answered yet.
        self._under_way: set[outbox_state.Place] = set()
        # The links that have let an edit go unanswered, by number.
        self._mute: set[int] = set()

    def can_edit(self, link: PeerLink, platform: str) -> bool:
        """Say whether messages on a platform can be edited by way of a link."""
        descriptor = link.describes(platform)
        return (
            descriptor is not None
            and descriptor.supports_edit
            and descriptor.supports("edit")
            and link.link_gen not in self._mute
        )

    def want(self, message: ShowAnswer) -> None:
        """Show an answer unless it is whole soon, if that can be done; it is sent when it is whole in any case."""
        turn_id = message.turn_id
        if turn_id in self._shown or turn_id in self._wanted:
            return
        for shown in list(self._shown.values()):
            if shown.inbox_id == message.inbox_id:
                self._end(shown)
        for other in list(self._wanted.values()):
            if other.inbox_id == message.inbox_id:
                self._forget(other.turn_id)
        if self._descriptor(message) is not None:
            self._wanted[turn_id] = message
            due = ShowDue(turn_id=turn_id)
            self._ctx.set_timer(_show_timer(turn_id), self._settings.edit_delay_s, due)

    def show(self, turn_id: str) -> None:
        """Begin to show an answer that is not whole yet."""
        message = self._wanted.pop(turn_id, None)
        descriptor = self._descriptor(message) if message is not None else None
        if message is None or descriptor is None:
            return
        name = f"answer-{turn_id}"
        if len(self._shown) >= self._settings.live_answers_max or self._ctx.child(name) is not None:
            return
        me = self._ctx.ref
        ref = self._ctx.spawn(
            name,
            lambda: LiveAnswer(
                message,
                descriptor,
                peer=me,
                sessions=self._sessions,
                store=self._store,
                settings=self._settings,
            ),
            overflow=Overflow.DROP_OLDEST,
        )
        self._shown[turn_id] = Shown(message.inbox_id, ref)

    def _descriptor(self, message: ShowAnswer) -> Descriptor | None:
        """Return what the peer has said of the platform, if an answer can be shown there by edits."""
        link, platform = self._current(), message.route.platform
        if link is None or not self._settings.edit_streaming or not self.can_edit(link, platform):
            return None
        descriptor = link.describes(platform)
        return descriptor if descriptor is not None and descriptor.supports("send") else None

    def _forget(self, turn_id: str) -> None:
        if self._wanted.pop(turn_id, None) is not None:
            self._ctx.cancel_timer(_show_timer(turn_id))

    def gone(self, path: str) -> None:
        """Forget one whose actor has ended."""
        self._shown = {turn: shown for turn, shown in self._shown.items() if shown.ref.path != path}

    def link_came(self) -> None:
        """Let them know that another link is up, and look for turns that began without one."""
        for shown in self._shown.values():
            self._tell(shown, LinkCame())
        if self._settings.edit_streaming:
            self._ctx.pipe(
                self._store.ask(Unfinished(), self._ctx.within(self._settings.store_s)),
                lambda turns: RunningRead(turns=turns),
                lambda error: RunningRead(turns=None),
            )

    def show_running(self, message: RunningRead) -> None:
        """Show the answers of turns that run."""
        for turn, peer, route in message.turns or ():
            relayed = turn.state is TurnState.RUNNING and turn.origin is Origin.RELAY
            if relayed and peer == self._name and route is not None:
                self.want(
                    ShowAnswer(
                        peer=peer,
                        session_id=turn.session_id,
                        inbox_id=turn.inbox_id,
                        turn_id=turn.turn_id,
                        turn_gen=turn.turn_gen,
                        route=route,
                    )
                )

    # The outbox

    def claimed(self, row: DeliveryRow) -> None:
        """End the one whose turn's end is in the outbox's hands."""
        if row.begins or row.turn_id is None:
            return
        self._forget(row.turn_id)
        if (shown := self._shown.get(row.turn_id)) is not None:
            self._end(shown)

    def settled(self, row: DeliveryRow) -> None:
        """Let one know what became of its beginning."""
        shown = self._shown.get(row.turn_id or "")
        if shown is not None and row.begins:
            self._tell(shown, BeginningSettled(state=row.state, message_id=row.message_id))

    # Edits

    def edit(self, message: EditAnswer) -> Any:
        """Send an edit, unless its turn's end has the word."""
        place = (message.chat, message.message_id)
        if message.turn_id not in self._shown:
            return results.closed()
        link = self._current()
        if link is None:
            return results.not_connected()
        if place in self._under_way:
            return results.busy()
        self._ctx.system.failpoints.hit("relay.edit")
        self._under_way.add(place)
        self._ctx.cancel_timer(_timer(place))
        self._decide(outbox_state.EditBegan(place, message.content))
        route, link_gen, reply = message.route, link.link_gen, self._ctx.defer()
        request = SendAction(
            action=edit_of(route, message.message_id, message.content),
            platform=route.platform,
            bot_id=bot_of(link.row, route.platform),
        )
        self._ctx.pipe(
            link.ref.ask(request, send_budget(self._ctx, self._settings)),
            lambda result: self._edited(message, link_gen, result, reply),
            lambda error: self._edited(message, link_gen, results.of_error(error), reply),
        )
        return DEFERRED

    def _edited(self, message: EditAnswer, link_gen: int, result: Any, reply: Any) -> AnswerEdited:
        return AnswerEdited(
            chat=message.chat,
            message_id=message.message_id,
            link_gen=link_gen,
            result=result,
            reply=reply,
        )

    def edited(self, message: AnswerEdited) -> None:
        """Pass the result on; the next edit of the message comes after the interval, if it was one."""
        place = (message.chat, message.message_id)
        self._under_way.discard(place)
        if results.unanswered(message.result):
            self._mute.add(message.link_gen)
            # What they still say is said by their ends.
            for shown in list(self._shown.values()):
                self._end(shown)
            log.warning("relay.edit_unanswered", path=self._ctx.path, link_gen=message.link_gen)
            self._decide(outbox_state.EditOver(place, answered=False))
        elif results.unsent(message.result):
            self._decide(outbox_state.EditOver(place, unsent=True))
        else:
            if message.result.get("success") is True:
                self._decide(outbox_state.EditDone(place))
            spaced = EditSpaced(chat=message.chat, message_id=message.message_id)
            self._ctx.set_timer(_timer(place), self._settings.edit_interval_s, spaced)
        if message.reply is not None:
            message.reply.set(message.result)

    def spaced(self, message: EditSpaced) -> None:
        """Let the outbox edit the message."""
        self._decide(outbox_state.EditOver((message.chat, message.message_id)))

    def _end(self, shown: Shown) -> None:
        self._shown = {turn: other for turn, other in self._shown.items() if other is not shown}
        self._tell(shown, AnswerTaken())

    def _tell(self, shown: Shown, message: Any) -> None:
        # One that has ended has nothing to be told.
        with contextlib.suppress(RuntimeFault):
            shown.ref.tell(message)


def _show_timer(turn_id: str) -> str:
    return f"show:{turn_id}"


def _timer(place: outbox_state.Place) -> str:
    return f"edit:{place[0]}:{place[1]}"
