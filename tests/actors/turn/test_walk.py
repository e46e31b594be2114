"""Whatever happens in whatever order: one end, nothing shown that is not stored, no request after a stop."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import turn as events
from actors.messages.lane import FailureClass, ThinkTags
from actors.messages.rows import ENDED_TURNS, TurnState
from actors.turn import effects, happenings
from actors.turn.state import Phase
from tests.actors.turn.script import (
    ARMED,
    COMPACTED,
    DENIED,
    DIED,
    FINISHED,
    OVER,
    OVERFLOW,
    REFUSED,
    STOP,
    Play,
    lane,
    text,
)

ALPHABET = (
    ARMED,
    text("ab<think>c</think>d"),
    FINISHED,
    REFUSED,
    DIED,
    DENIED,
    OVERFLOW,
    OVER,
    STOP,
    COMPACTED,
    happenings.NotCompacted("X"),
    happenings.Superseded(),
    happenings.BudgetOver(),
    happenings.Stored(),
)
DEPTH = 3
BEGINNINGS = ((), (ARMED,), (text("ab<think>c"), DIED), (REFUSED,))
"""From each of these all paths of that many events are walked."""


def shown(play):
    """The content that is left to a watcher who heeds what was discarded."""
    kept = []
    for emit in play.emitted:
        if emit.kind is events.Content:
            kept.append((emit.seq, emit.fields["text"]))
        elif emit.kind is events.StreamDiscarded:
            kept = [(seq, piece) for seq, piece in kept if seq <= emit.fields["keep_upto"]]
    return "".join(piece for _, piece in kept)


def check(play):
    state = play.state
    ends = {id(effect.end): effect.end for effect in play.all(effects.Store)}
    assert len(ends) <= 1
    assert len(play.all(effects.Leave)) + len(play.all(effects.Vanish)) <= 1
    assert [emit.seq for emit in play.emitted] == list(range(1, len(play.emitted) + 1))
    requests = [effect.request for effect in play.all(effects.OpenAttempt)]
    assert requests == sorted(set(requests))
    if state.phase >= Phase.ENDING and ends:
        assert state.end.state in ENDED_TURNS
    for end in ends.values():
        if end.state is TurnState.COMMITTED:
            assert shown(play) == end.text
        if end.state is TurnState.FAILED:
            assert end.notice and end.error and end.text is None
        assert play.kinds.count(events.TurnError) == (end.state is TurnState.FAILED)


def test_all_paths_to_some_depth():
    for beginning, path in itertools.product(BEGINNINGS, itertools.product(ALPHABET, repeat=DEPTH)):
        play = Play(lane("a", tags=ThinkTags.ANYWHERE), lane("b", order=1)).feed(*beginning)
        stopped = False
        for event in path:
            asked, told = len(play.requests), len(play.emitted)
            gone = play.state.phase is Phase.ENDED
            play.feed(event)
            if stopped or gone:
                assert len(play.requests) == asked
            if gone:
                assert len(play.emitted) == told
            stopped = stopped or event in (STOP, happenings.BudgetOver())
        check(play)


HAPPENINGS = st.one_of(
    st.sampled_from(ALPHABET),
    st.builds(
        happenings.Delta, st.sampled_from(["", "a", "<think>", "</think>", "<th", " "]), st.sampled_from(["", "r"])
    ),
    st.builds(
        happenings.Failed,
        st.sampled_from(FailureClass),
        st.just("X"),
        st.none() | st.floats(0, 500),
        st.floats(0, 1),
    ),
    st.builds(happenings.Finished, st.sampled_from([None, "stop", "length"]), st.none()),
    st.just(happenings.FlushDue()),
    st.just(happenings.Flushed()),
    st.just(happenings.StoreFailed()),
)  # fmt: skip
LANES = st.sampled_from(
    [
        (lane(),),
        (lane(context_window=2, chars_per_token=1.0), lane("b", order=1)),
        (lane(tags=ThinkTags.LEADING), lane("b", order=1, hold_back=True)),
        (lane("a", degraded=True), lane("b", order=1, tags=ThinkTags.ANYWHERE, degraded=True), lane("c", order=2)),
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(LANES, st.lists(HAPPENINGS, max_size=30))
def test_whatever_happens(lanes, happened):
    check(Play(*lanes).feed(*happened))


@settings(max_examples=300, deadline=None)
@given(
    LANES,
    st.lists(HAPPENINGS, max_size=20),
    st.sampled_from([STOP, happenings.Superseded()]),
    st.lists(HAPPENINGS, max_size=10),
)
def test_no_request_goes_out_after_a_stop_and_no_event_after_a_supersession(lanes, before, last, then):
    play = Play(*lanes).feed(*before)
    play.feed(last)
    asked, told = len(play.requests), len(play.emitted)
    play.feed(*then)
    assert len(play.requests) == asked
    if isinstance(last, happenings.Superseded):
        assert len(play.emitted) == told
