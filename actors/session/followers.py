"""Who follows the turns of a session, and what of the past one of them is told. Pure."""

from actors.messages.rows import TurnRow
from actors.messages.session import FOLLOWED_S, FollowTurns, TurnGap, TurnOutcome
from actors.runtime import Address

MAX_MISSED = 20
"""Turns whose end is told one by one to a follower that comes back."""
LOOKED_AT = 100
"""Turns that are looked at for that; messages that were cancelled before their turn are among them."""


class Followers:
    """
    Each is in one of two states: it waits for what it has missed, or it hears what happens.

    Times are monotonic seconds.
    """

    def __init__(self) -> None:
        # When each said last that it is there.
        self._seen: dict[Address, float] = {}
        # Those that wait for the past: nothing else may be told to them before it.
        self._catching_up: set[Address] = set()
        # Those that came while the running turn's end may have been on its way already.
        self._late: set[Address] = set()

    def arrive(self, follower: Address, now: float) -> bool:
        """Note that it is there; say whether it is new."""
        new = follower not in self._seen
        self._seen[follower] = now
        if new:
            self._catching_up.add(follower)
        return new

    def caught_up(self, follower: Address, *, late: bool) -> bool:
        """Note that it is told what it has missed; ``late``: of the running turn, too. Say whether it still follows."""
        if follower not in self._catching_up:
            return False
        self._catching_up.discard(follower)
        if late:
            self._late.add(follower)
        return True

    def leave(self, follower: Address) -> None:
        """Forget it."""
        self._seen.pop(follower, None)
        self._catching_up.discard(follower)
        self._late.discard(follower)

    def expire(self, now: float) -> None:
        """Forget those that have not said for too long that they are there."""
        for follower in [one for one, seen in self._seen.items() if now - seen > FOLLOWED_S]:
            self.leave(follower)

    def listening(self) -> tuple[Address, ...]:
        """Return those that hear what happens, in the order in which they came."""
        return tuple(one for one in self._seen if one not in self._catching_up)

    def take_late(self) -> tuple[Address, ...]:
        """Return those that came late to a turn that has ended now, once."""
        late, self._late = self._late, set()
        return tuple(one for one in self._seen if one in late)

    def __bool__(self) -> bool:
        return bool(self._seen)


def missed(follow: FollowTurns, turns: tuple[TurnRow, ...]) -> tuple[TurnOutcome | TurnGap, ...]:
    """
    Return what the follower is told of turns that have ended, oldest first.

    ``turns`` are the session's last ones, newest first, up to LOOKED_AT. The one that the follower has heard something
    of is told too: its end may have been lost on the way.
    """
    ended = sorted((turn for turn in turns if turn.turn_gen >= max(follow.after_gen, 1)), key=_turn_gen)
    told = ended[-MAX_MISSED:]
    outcomes = tuple(TurnOutcome(inbox_id=turn.inbox_id, turn=turn) for turn in told)
    # Those before the ones that were looked at may be missing as well, unless it has heard of one among them.
    whole = len(turns) < LOOKED_AT or any(0 < turn.turn_gen <= follow.after_gen for turn in turns)
    if whole and len(ended) == len(told):
        return outcomes
    next_gen = told[0].turn_gen if told else None
    gap = TurnGap(session_id=follow.session_id, after_gen=follow.after_gen, next_gen=next_gen)
    return (gap, *outcomes)


def _turn_gen(turn: TurnRow) -> int:
    return turn.turn_gen
