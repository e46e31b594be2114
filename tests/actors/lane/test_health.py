"""Which lanes serve a request, and in which order."""

from actors.lane.health import DEGRADED_AFTER, Health, ladder
from actors.messages.lane import LaneBinding, LaneTraits


def lane(name, order=None, *, degraded=False, live=True):
    traits = LaneTraits(name=name, kind="openai", model="m", backend="http://h", order=order)
    return LaneBinding(traits=traits, gen=0, lane=None, degraded=degraded, live=live)


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


def test_lanes_that_are_not_live_come_after_all_others():
    lanes = (lane("a", live=False), lane("b", 1, degraded=True), lane("c", 2))
    assert names(lanes, "a") == ["c", "b", "a"]
    assert names((lane("a", live=False),), "a") == ["a"]


def test_the_default_is_the_first_live_lane():
    lanes = (lane("a", live=False), lane("b"), lane("c"))
    assert names(lanes) == ["b"]
    assert names((lane("a", live=False), lane("b", 1, live=False))) == ["a", "b"]


def test_health_is_forgotten_but_for_some_backends():
    health = Health().heard("a", good=False).heard("b", good=False)
    assert health.of({"b", "c"}) == Health().heard("b", good=False)
