"""Who starts again, when, and when no more."""

import pytest

from actors.backoff import Backoff
from actors.messages.lifecycle import ABNORMAL, DownReason
from actors.supervision.decisions import Fate, Verdict, companions, judge, wants_restart
from actors.supervision.spec import Intensity, Restart, Strategy

BACKOFF = Backoff(1.0, 30.0)
INTENSITY = Intensity(3, 10.0)


@pytest.mark.parametrize("reason", list(DownReason))
def test_restart_types_follow_the_table(reason):
    assert wants_restart(Restart.PERMANENT, reason)
    assert wants_restart(Restart.TRANSIENT, reason) is (reason in ABNORMAL)
    assert not wants_restart(Restart.TEMPORARY, reason)


def crash(restarts, now, fraction=1.0):
    return judge(
        Restart.PERMANENT, DownReason.CRASHED, restarts, INTENSITY, BACKOFF, now=now, fraction=fraction
    )


def test_the_first_restart_comes_at_once_and_later_ones_wait_longer():
    restarts, delays = (), []
    for now in (0.0, 1.0, 2.0):
        verdict = crash(restarts, now)
        restarts = verdict.restarts
        delays.append(verdict.delay)
    assert delays == [0.0, 1.0, 2.0]


def test_one_restart_more_than_the_intensity_is_a_quarantine():
    assert crash((0.0, 1.0, 2.0), 3.0).fate is Fate.QUARANTINED
    assert crash((0.0, 1.0), 3.0).fate is Fate.AGAIN


def test_restarts_outside_the_window_do_not_count():
    verdict = crash((0.0, 1.0, 2.0), 11.5)
    assert verdict.fate is Fate.AGAIN and verdict.restarts == (2.0, 11.5)


def test_jitter_takes_its_fraction_of_the_bound():
    assert crash((0.0,), 1.0, fraction=0.25).delay == 0.25


@pytest.mark.parametrize("restart", list(Restart))
def test_an_ordered_restart_comes_at_once_whatever_the_type_and_does_not_count(restart):
    full = (0.0, 1.0, 2.0)
    verdict = judge(restart, DownReason.RESTART, full, INTENSITY, BACKOFF, now=3.0, fraction=1.0)
    assert verdict == Verdict(Fate.AGAIN, full, 0.0)


@pytest.mark.parametrize(
    ("strategy", "others"),
    [
        (Strategy.ONE_FOR_ONE, ()),
        (Strategy.ONE_FOR_ALL, ("a", "c", "d")),
        (Strategy.REST_FOR_ONE, ("c", "d")),
    ],
)
def test_strategies_follow_the_table(strategy, others):
    assert companions(strategy, ("a", "b", "c", "d"), "b") == others
