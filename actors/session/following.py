"""Serves those who follow a session's turns, within its actor: what they have missed, then what happens."""

from collections.abc import Callable
from typing import Any

from actors.exceptions import RuntimeFault
from actors.messages.rows import ENDED_TURNS, TakenTurn
from actors.messages.session import EndRead, FollowTurns, PastRead, TurnOutcome, UnfollowTurns
from actors.messages.store import GetTurn, ListTurns
from actors.runtime import Address, Context, Ref
from actors.session.followers import LOOKED_AT, Followers, missed


class Following:
    """
    ``running`` tells the turn whose events there are, if there is one; ``watch`` has it tell somebody those after a
    number, and ``unwatch`` no more. The store has ``store_s`` seconds for an answer.
    """

    def __init__(
        self,
        ctx: Context,
        session_id: str,
        *,
        store: Ref,
        store_s: float,
        running: Callable[[], TakenTurn | None],
        watch: Callable[[Address, int], None],
        unwatch: Callable[[Address], None],
    ) -> None:
        self._ctx = ctx
        self._session_id = session_id
        self._store = store
        self._store_s = store_s
        self._running = running
        self._watch = watch
        self._unwatch = unwatch
        self._followers = Followers()

    def hear(self, message: Any) -> None:
        """Take what a follower says, or what the store answers."""
        match message:
            case FollowTurns():
                self._follow(message)
            case UnfollowTurns(watcher=follower):
                self._leave(follower)
            case PastRead():
                self._catch_up(message)
            case EndRead():
                self._tell_end(message)

    def listening(self) -> tuple[Address, ...]:
        """Return those to whom a turn that begins now is to be told."""
        return self._followers.listening()

    def anybody(self) -> bool:
        """Say whether somebody follows."""
        self._followers.expire(self._ctx.system.clock.monotonic())
        return bool(self._followers)

    def turn_ended(self, turn_id: str) -> None:
        """Tell those how it ended who may have come when its last event was out already."""
        late = self._followers.take_late()
        if late:
            self._ctx.pipe(
                self._store.ask(GetTurn(turn_id=turn_id), self._ctx.within(self._store_s)),
                lambda turn: EndRead(followers=late, turn=turn),
                lambda error: EndRead(followers=late, turn=None),
            )

    def _follow(self, message: FollowTurns) -> None:
        if not self._followers.arrive(message.watcher, self._ctx.system.clock.monotonic()):
            return
        ended = ListTurns(session_id=self._session_id, states=tuple(sorted(ENDED_TURNS)), limit=LOOKED_AT)
        self._ctx.pipe(
            self._store.ask(ended, self._ctx.within(self._store_s)),
            lambda turns: PastRead(follow=message, turns=turns),
            lambda error: PastRead(follow=message, turns=None),
        )

    def _catch_up(self, message: PastRead) -> None:
        follow = message.follow
        if message.turns is None:
            # It says again that it is there, and is new then.
            self._leave(follow.watcher)
            return
        # A turn that has ended since the store looked still runs for this session: its end comes to it after the look.
        turn = self._running()
        if not self._followers.caught_up(follow.watcher, late=turn is not None):
            return
        for told in missed(follow, message.turns):
            self._tell(follow.watcher, told)
        if turn is not None:
            self._watch(follow.watcher, follow.after_seq if follow.after_gen == turn.turn_gen else 0)

    def _tell_end(self, message: EndRead) -> None:
        for follower in message.followers:
            if message.turn is None:
                # It comes back, and hears then what it has missed.
                self._leave(follower)
            else:
                self._tell(follower, TurnOutcome(inbox_id=message.turn.inbox_id, turn=message.turn))

    def _leave(self, follower: Address) -> None:
        self._followers.leave(follower)
        self._unwatch(follower)

    def _tell(self, follower: Address, message: Any) -> None:
        try:
            follower.tell(message)
        except RuntimeFault:
            self._leave(follower)
