"""Which lanes serve a request, and in which order."""

from actors.lane.health import DEGRADED_AFTER, Health, ladder
from actors.messages.lane import LaneBinding, LaneTraits


def lane(name, order=None, *, degraded=False):
    traits = LaneTraits(name=name, kind="openai", model="m", backend="http://h", order=order)
    return LaneBinding(traits=traits, gen=0, lane=None, degraded=degraded)


def names(lanes, model=None):
    return [lane.traits.name for lane in ladder(lanes, model)]


def test_a_backend_is_degraded_by_failures_in_a_row_and_healthy_after_one_success():
    health = Health()
    for _ in range(DEGRADED_AFTER):
        assert not health.is_degraded("a")
        health = health.heard("a", good=False)
    assert health.is_degraded("a") and not health.is_degraded("b")
    assert not health.heard("a", good=True).is_degraded("a")
    health = health.heard("a", good=True)
    for _ in range(DEGRADED_AFTER - 1):
        health = health.heard("a", good=False)
    assert not health.is_degraded("a")


def test_the_lane_that_was_named_comes_first_and_the_fallbacks_by_their_order():
    lanes = (lane("a"), lane("b", 2), lane("c", 1), lane("d"))
    assert names(lanes) == ["a", "c", "b"]
    assert names(lanes, "d") == ["d", "c", "b"]
    assert names(lanes, "b") == ["b", "c"]
    assert names(lanes, "nope") == [] and names(()) == []


def test_degraded_lanes_come_last():
    lanes = (lane("a", degraded=True), lane("b", 1, degraded=True), lane("c", 2))
    assert names(lanes) == ["c", "a", "b"]
