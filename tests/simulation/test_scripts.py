"""Whatever a backend does, and whoever stops a turn or takes it over: what is shown is what is stored, once."""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from actors.messages.rows import ENDED_TURNS, HistoryKind, TurnState
from actors.messages.turn import (
    Cancelled,
    Content,
    LaneRetry,
    Retry,
    RunPhase,
    Snapshot,
    StateChange,
    StreamDiscarded,
    ThinkingStart,
    TurnCommitted,
    TurnError,
    TurnEvent,
)
from actors.turn.ends import BROKEN_OFF_MARK, CANCELLED_MARK
from tests.fakes.backend_script import Text
from tests.simulation.scripted import LETTERS, Case, Played, cases, events, outcomes, play

MOST_REQUESTS = 3 * 3 * 4
"""Answers begin three times, on three lanes, each of which is asked four times. A compaction is asked for once more."""

OVER = (RunPhase.IDLE, RunPhase.ERROR)
"""What is told last of a turn."""

WRITTEN_SECONDS = 0.75
"""How long after something to be kept the store has been asked to keep it, and has answered."""

HOP_SECONDS = 0.001
"""How long a stop takes at most from the session that has answered it to its turn."""


def _shown(heard: list[Any]) -> str:
    """What somebody has before the eyes who follows the events."""
    text = ""
    for event in heard:
        match event:
            case Snapshot(text=so_far):
                text = so_far
            case Content(text=piece):
                text += piece
            case StreamDiscarded():
                text = ""
    return text


def _last_shown(heard: list[Any]) -> str:
    """What was before the eyes last, of the last attempt that had anything to show."""
    texts = [_shown(heard[:n]) for n in range(len(heard) + 1)]
    return texts[-1] or next((text for text in reversed(texts) if text), "")


def _nothing_is_held(case: Case) -> bool:
    """Say whether all text is shown as it comes."""
    said = "".join(step.text for one in case.responses for step in one.steps if isinstance(step, Text))
    return not set("<>") & set(said) and not any(
        lane["hold_back"] or lane["think_tags"] == "anywhere" for lane in case.lanes
    )


def check(case: Case, played: Played) -> None:
    """Raise if something of it must not be."""
    turn = played.turn
    told = [message for _, message in _told_of_the_last(played)]
    heard = events(told)
    assert turn.state in ENDED_TURNS
    _check_numbers(heard)
    _check_rows(played)
    _check_requests(played)
    _check_given_back(played)
    if played.taken_over is not None:
        _check_taken_over(played, told)
        return
    last = heard[-1]
    assert isinstance(last, StateChange) and last.state in OVER
    # Those that follow a session may be told a second time how its turn has ended.
    assert told[-1] is last or (played.given_back and outcomes(told) == [told[-1]] and told[-1].turn == turn)
    over = [event for event in heard if isinstance(event, Cancelled | TurnError)]
    match turn.state:
        case TurnState.COMMITTED:
            assert turn.text == _shown(heard) == last.text and last.state is RunPhase.IDLE
            assert isinstance(heard[-2], TurnCommitted) and not over
            _check_answer(case, turn.text)
        case TurnState.CANCELLED:
            assert last.state is RunPhase.IDLE and len(over) == 1 and played.stopped_at
            assert last.text.startswith(_shown(heard))
            assert not played.clinging or played.given_back
            if _nothing_is_held(case):
                assert last.text == _last_shown(heard)
            stored = [row.content for row in played.history if row.role == "assistant"]
            assert stored in ([], [f"{last.text}\n\n{CANCELLED_MARK}".lstrip("\n")])
            assert stored or not last.text
        case _:
            assert turn.state is TurnState.FAILED and last.state is RunPhase.ERROR and len(over) == 1
            assert not _shown(heard) and "secret" not in turn.error
            kept = [row.content for row in played.history if row.kind is HistoryKind.INTERRUPTED]
            assert all(content.endswith(f"\n\n{BROKEN_OFF_MARK}") for content in kept)
    if played.given_back:
        return
    for late in played.late:
        said = outcomes(late)
        assert [outcome.turn for outcome in said] == [turn] or (
            events(late)[-1] == last and _shown(events(late)) == _shown(heard)
        )


def _told_of_the_last(played: Played) -> list[tuple[float, Any]]:
    """Return what was told of the last turn over the message; only those that follow the session hear of several."""
    if not played.given_back:
        return played.heard
    return [
        (at, message)
        for at, message in played.followed
        if getattr(message, "turn", message).turn_gen == played.turn.turn_gen
    ]


def _check_numbers(heard: list[TurnEvent]) -> None:
    assert [event.seq for event in heard] == list(range(1, len(heard) + 1))
    assert all(before.attempt <= after.attempt for before, after in itertools.pairwise(heard))
    begun = 0
    for event in heard:
        if isinstance(event, ThinkingStart):
            begun = event.seq
        elif isinstance(event, StreamDiscarded):
            assert event.keep_upto == begun - 1


def _check_given_back(played: Played) -> None:
    """Each turn but the last has fallen silent, and has not said that it came to an end; none ran beside another."""
    if not played.given_back:
        return
    heard = [(at, event) for at, event in played.followed if isinstance(event, TurnEvent)]
    gens = [event.turn_gen for _, event in heard]
    assert gens == sorted(gens) and set(gens) == {*played.given_back, played.turn.turn_gen}
    for gen, at in played.given_back.items():
        own = [(when, event) for when, event in heard if event.turn_gen == gen]
        _check_numbers([event for _, event in own])
        _check_silence(at, own)
    # Whoever asked has been told of an end, be it only of the first.
    for told in ([message for _, message in played.heard], *played.late):
        assert outcomes(told) or (isinstance(told[-1], StateChange) and told[-1].state in OVER)


def _check_silence(since: float, own: list[tuple[float, Any]]) -> None:
    """A turn whose row is another's finds that out soon after it has shown something, or has lost an attempt."""
    assert not any(isinstance(event, StateChange) and event.state in OVER for _, event in own)
    written = [at for at, event in own if isinstance(event, Content | Retry | LaneRetry) and at > since]
    assert not written or own[-1][0] < written[0] + WRITTEN_SECONDS


def _check_rows(played: Played) -> None:
    rows = [row for row in played.history if row.role == "assistant" and row.kind is HistoryKind.MESSAGE]
    committed = played.turn.state is TurnState.COMMITTED
    assert [row.content for row in rows] == [played.turn.text] if committed else len(rows) <= 1
    # No answer is put together from two attempts.
    for row in rows:
        assert len(set(row.content) & set(LETTERS)) <= 1


def _check_requests(played: Played) -> None:
    assert len(played.requests) <= (MOST_REQUESTS + 1) * (1 + len(played.given_back))
    # A dead attempt's text is in no later request.
    assert not any(set(str(request)) & set(LETTERS) for request in played.requests)
    over = [
        at
        for at, message in _told_of_the_last(played)
        if isinstance(message, Cancelled | TurnCommitted | TurnError)
    ]
    # A stop of a turn that was given back is no stop of its successor.
    if played.stopped_at is not None and not played.given_back:
        over.append(played.stopped_at + HOP_SECONDS)
    assert not [at for at in played.opened if over and at > min(over)]


def _check_taken_over(played: Played, told: list[Any]) -> None:
    """Nothing of it is stored, and nothing is told once it knows, but how the turn has really ended."""
    turn = played.turn
    assert (turn.state, turn.reason, turn.text) == (TurnState.INTERRUPTED, "elsewhere", None)
    assert {row.role for row in played.history} == {"user"}
    assert [outcome.turn for outcome in outcomes(told)] == [turn] and told[-1] is outcomes(told)[0]
    assert played.taken_over is not None
    _check_silence(
        played.taken_over, [one for one in _told_of_the_last(played) if isinstance(one[1], TurnEvent)]
    )


def _check_answer(case: Case, text: str) -> None:
    for response in case.responses:
        if response.text and set(text) & set(response.text):
            # Whole, as nothing in it could be taken for a tag.
            assert text == response.text


PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
QUICK = settings(max_examples=100, derandomize=True, database=None, phases=PHASES, deadline=None)


@pytest.mark.timeout(300)
@QUICK
@given(case=cases())
def test_trn_whatever_happens_what_is_shown_is_stored_once(case):
    check(case, play(case))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(
    max_examples=2000,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
@given(case=cases())
def test_trn_whatever_else_happens_what_is_shown_is_stored_once(case):
    check(case, play(case))
