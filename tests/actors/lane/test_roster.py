"""How the lanes are set, and what another set of them changes."""

from hypothesis import given
from hypothesis import strategies as st

from actors.lane.roster import Changes, Roster, settle
from actors.messages.lane import LaneSpec, LaneTraits


def spec(name, settings="one", backend="http://h"):
    traits = LaneTraits(name=name, kind="openai", model="m", backend=backend)
    return LaneSpec(traits=traits, settings=settings, make=lambda gen: None)


def gens(settings):
    return {name: kept.gen for name, kept in settings.items()}


def test_each_lane_is_new_changed_gone_or_as_it_was():
    now, first = settle({}, (spec("a"), spec("b"), spec("c")), 1)
    assert first == Changes(new=("a", "b", "c"), changed=(), gone=())
    then, changes = settle(now, (spec("d"), spec("b", "two"), spec("a")), 2)
    assert changes == Changes(new=("d",), changed=("b",), gone=("c",))
    assert changes.names == ("d", "b", "c")
    assert gens(then) == {"d": 2, "b": 2, "a": 1} and list(then) == ["d", "b", "a"]


def test_another_order_is_kept_and_changes_no_lane():
    now, _ = settle({}, (spec("a"), spec("b")), 1)
    then, changes = settle(now, (spec("b"), spec("a")), 2)
    assert changes.names == () and list(then) == ["b", "a"]


def test_a_lane_that_went_and_came_back_has_another_gen():
    roster = Roster((spec("a"), spec("b")))
    roster.reload((spec("b"),))
    assert roster.reload((spec("a"), spec("b"))).new == ("a",)
    assert gens(roster.settings) == {"a": 3, "b": 1}


def test_the_health_of_backends_that_no_lane_has_is_forgotten():
    roster = Roster((spec("a", backend="x"), spec("b", backend="y")))
    for backend in "xy":
        roster.health = roster.health.heard(backend, good=False)
    roster.reload((spec("b", "two", backend="y"),))
    assert roster.health.failures == {"y": 1}


LANES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["one", "two"]))


@given(st.lists(LANES, max_size=8))
def test_a_gen_stands_for_one_set_of_settings(reloads):
    roster = Roster(())
    seen = {}
    for lanes in reloads:
        before = dict(roster.settings)
        changes = roster.reload(spec(name, settings) for name, settings in lanes.items())
        assert {name: kept.spec.settings for name, kept in roster.settings.items()} == lanes
        assert set(changes.new) == set(lanes) - set(before) and set(changes.gone) == set(before) - set(lanes)
        for name, kept in roster.settings.items():
            assert seen.setdefault((name, kept.gen), kept.spec.settings) == kept.spec.settings
            assert (name in changes.names) == (before.get(name) != kept)
