"""Who follows, and what they are told of the past."""

from typing import Any, cast

import pytest

from actors.messages.rows import Origin, TurnRow, TurnState
from actors.messages.session import FOLLOWED_S, FollowTurns, TurnGap, TurnOutcome
from actors.runtime import Address
from actors.session.followers import LOOKED_AT, MAX_MISSED, Followers, missed

A, B = cast(Address, "a"), cast(Address, "b")


def ended(gen: int, state: TurnState = TurnState.COMMITTED) -> TurnRow:
    return TurnRow(
        turn_id=f"t{gen}",
        session_id="s",
        inbox_id=f"i{gen}",
        turn_gen=gen,
        state=state,
        reason=None,
        partial="",
        text=None,
        usage=None,
        origin=Origin.API,
        detached=False,
        tries=1,
        admitted_at=0.0,
        ended_at=1.0,
    )


def told(after: int, *gens: int) -> list[Any]:
    """Return generations, and gaps as pairs."""
    follow = FollowTurns(session_id="s", watcher=None, after_gen=after, after_seq=1)
    found: list[Any] = []
    for one in missed(follow, tuple(ended(gen) for gen in gens)):
        match one:
            case TurnOutcome(turn=TurnRow(turn_gen=gen)):
                found.append(gen)
            case TurnGap(after_gen=after_gen, next_gen=next_gen):
                found.append((after_gen, next_gen))
    return found


@pytest.mark.parametrize(
    ("after", "gens", "expected"),
    [
        (0, (), []),
        (0, (2, 1), [1, 2]),
        (3, (5, 4, 3, 2, 1), [3, 4, 5]),
        (9, (5, 4), []),
        # One that was run again stands where it was, with a later number.
        (1, (3, 4, 2, 1), [1, 2, 3, 4]),
        # A message that was cancelled before its turn is none.
        (1, (0, 2, 0), [2]),
    ],
)
def test_each_turn_that_has_ended_since_is_told_oldest_first(after, gens, expected):
    assert told(after, *gens) == expected


def test_more_than_are_told_one_by_one_are_a_gap():
    gens = range(MAX_MISSED + 5, 0, -1)
    assert told(0, *gens) == [(0, 6), *range(6, MAX_MISSED + 6)]
    assert told(5, *gens) == [(5, 6), *range(6, MAX_MISSED + 6)]
    assert told(6, *gens) == list(range(6, MAX_MISSED + 6))


def test_what_was_not_looked_at_is_a_gap():
    newest = range(LOOKED_AT + 50, 50, -1)
    assert told(7, *newest)[0] == (7, LOOKED_AT + 50 - MAX_MISSED + 1)
    assert told(LOOKED_AT + 49, *newest) == [LOOKED_AT + 49, LOOKED_AT + 50]
    assert told(7, *([0] * LOOKED_AT)) == [(7, None)]
    assert told(7, *([0] * (LOOKED_AT - 1))) == []


def test_a_follower_hears_nothing_before_what_it_has_missed():
    followers = Followers()
    assert followers.arrive(A, 0.0) and followers.listening() == ()
    assert followers.caught_up(A, late=False) and followers.listening() == (A,)
    assert not followers.arrive(A, 1.0) and followers.listening() == (A,)


def test_one_that_has_left_meanwhile_is_not_caught_up():
    followers = Followers()
    followers.arrive(A, 0.0)
    followers.leave(A)
    assert not followers.caught_up(A, late=True)
    assert not followers and followers.take_late() == ()


def test_one_that_does_not_say_again_that_it_is_there_is_forgotten():
    followers = Followers()
    for follower in (A, B):
        followers.arrive(follower, 0.0)
        followers.caught_up(follower, late=False)
    followers.arrive(B, 1.0)
    followers.expire(FOLLOWED_S)
    assert followers.listening() == (A, B)
    followers.expire(FOLLOWED_S + 0.5)
    assert followers.listening() == (B,) and followers


def test_who_came_late_to_a_turn_is_known_once():
    followers = Followers()
    for follower, late in ((A, True), (B, False)):
        followers.arrive(follower, 0.0)
        followers.caught_up(follower, late=late)
    assert followers.take_late() == (A,) and followers.take_late() == ()
