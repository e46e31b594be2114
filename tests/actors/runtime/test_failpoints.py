"""Points at which a test makes the program fail."""

import ast
import asyncio
from collections import Counter
from pathlib import Path

import pytest

from actors.runtime import Failpoints
from actors.runtime.failpoints import POINTS, Verb

ROOT = Path(__file__).parents[3]
CODE = [path for part in ("actors", "bin", "storage", "transports") for path in (ROOT / part).rglob("*.py")]
VERBS = {verb.value for verb in Verb}


def _passages():
    """Every place of the code that passes a point: its verb and its name."""
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
                continue
            function = node.func
            verb = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            name = node.args[0].value
            if verb in VERBS and isinstance(name, str) and "." in name:
                yield verb, name


def test_the_list_and_the_code_name_the_same_points_once_each():
    found = Counter(_passages())
    assert found == Counter({(point.verb.value, name): 1 for name, point in POINTS.items()})


def test_an_action_runs_at_its_passage_only():
    points = Failpoints()
    runs = []
    points.set("turn.open", lambda: runs.append(1), at=3)
    for _ in range(5):
        points.hit("turn.open")
        points.hit("turn.end")
    assert runs == [1] and points.passed == {"turn.open": 5, "turn.end": 5}


def test_an_action_may_run_at_several_passages_or_at_all():
    points = Failpoints()
    runs = []
    points.set("turn.open", lambda: runs.append("open"), at=2, times=2)
    points.always("turn.end", lambda: runs.append("end"))
    for _ in range(4):
        points.hit("turn.open")
        points.hit("turn.end")
    assert Counter(runs) == {"open": 2, "end": 4}


async def test_a_point_that_is_reached_waits_for_what_the_action_returns():
    points = Failpoints()
    released = asyncio.Event()
    points.set("relay.frame", released.wait)
    reaching = asyncio.ensure_future(points.reach("relay.frame"))
    await asyncio.sleep(0)
    assert not reaching.done()
    released.set()
    await reaching
    await points.reach("relay.frame")


def test_an_action_may_leave_out_what_comes_next():
    points = Failpoints()
    assert not points.drops("store.answer")
    points.set("store.answer", lambda: True, at=2)
    assert [points.drops("store.answer") for _ in range(3)] == [False, True, False]


def test_the_environment_form_raises_where_it_says():
    points = Failpoints.parse("turn.open=raise@2, turn.end=kill@9")
    points.hit("turn.open")
    with pytest.raises(OSError, match="failpoint"):
        points.hit("turn.open")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("turn.open=explode", "explode"),
        ("turn.opn=raise", "there is no failpoint turn.opn; known are store.connect"),
        ("turn.open=raise@0", "count from 1"),
        ("turn.open=raise@x", "count from 1"),
        ("turn.open=hang", "nothing can hang"),
    ],
)
def test_what_is_wrong_in_the_environment_form_is_named(text, told):
    with pytest.raises(ValueError, match=told):
        Failpoints.parse(text)


def test_a_cleared_point_is_passed():
    points = Failpoints.parse("turn.open=raise")
    points.clear("turn.open")
    points.hit("turn.open")
