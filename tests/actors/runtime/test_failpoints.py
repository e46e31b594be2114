"""Points at which a test makes the program fail."""

import pytest

from actors.runtime import Failpoints


def test_an_action_runs_at_its_passage_only():
    points = Failpoints()
    runs = []
    points.set("here", lambda: runs.append(1), at=3)
    for _ in range(5):
        points.hit("here")
        points.hit("elsewhere")
    assert runs == [1] and points.passed == {"here": 5, "elsewhere": 5}


def test_the_environment_form_raises_where_it_says():
    points = Failpoints.parse("a=raise@2, b=kill@9")
    points.hit("a")
    with pytest.raises(OSError, match="failpoint"):
        points.hit("a")


def test_an_unknown_action_is_refused_by_name():
    with pytest.raises(ValueError, match="explode"):
        Failpoints.parse("a=explode")


def test_a_cleared_point_is_passed():
    points = Failpoints.parse("a=raise")
    points.clear("a")
    points.hit("a")
