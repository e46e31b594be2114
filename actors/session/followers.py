"""Who follows the turns of a session, and what of the past one of them is told. Pure."""

import msgspec

from actors.messages.rows import TurnRow
from actors.messages.session import FOLLOWED_S, FollowTurns, TurnGap, TurnOutcome
from actors.runtime import Address

MAX_MISSED = 20
"""Turns whose end is told one by one to a follower that comes back."""
LOOKED_AT = 100
"""Turns that are looked at for that; messages that were cancelled before their turn are among them."""


class Follower(msgspec.Struct):
    """What is known of one."""

    seen: float
    """When it said last that it is there, in monotonic seconds."""
    catching_up: bool = True
    """It waits for what it has missed; nothing else may be told to it before that."""
    late: bool = False
    """It came while the running turn's end may have been on its way already."""


class Followers:
    """The followers of one session, in the order in which they came."""

    def __init__(self) -> None:
        self._known: dict[Address, Follower] = {}

    def arrive(self, address: Address, now: float) -> bool:
        """Note that it is there; say whether it is new."""
        known = self._known.get(address)
        if known is None:
            self._known[address] = Follower(now)
            return True
        known.seen = now
        return False

    def caught_up(self, address: Address, *, late: bool) -> bool:
        """Note that it is told what it has missed; ``late``: of the running turn, too. Say whether it waited for that."""
        known = self._known.get(address)
        if known is None or not known.catching_up:
            return False
        known.catching_up, known.late = False, late
        return True

    def leave(self, address: Address) -> None:
        """Forget it."""
        self._known.pop(address, None)

    def expire(self, now: float) -> None:
        """Forget those that have not said for too long that they are there."""
        self._known = {
            address: known for address, known in self._known.items() if now - known.seen <= FOLLOWED_S
        }

    def listening(self) -> tuple[Address, ...]:
        """Return those that hear what happens."""
        return tuple(address for address, known in self._known.items() if not known.catching_up)

    def take_late(self) -> tuple[Address, ...]:
        """Return those that came late to a turn that has ended now, once."""
        late = tuple(address for address, known in self._known.items() if known.late)
        for address in late:
            self._known[address].late = False
        return late

    def __bool__(self) -> bool:
        return bool(self._known)


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
