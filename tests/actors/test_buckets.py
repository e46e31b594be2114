"""Values lie under the bounds that they do not exceed."""

import pytest

from actors.buckets import Buckets


@pytest.mark.parametrize(
    ("value", "place"), [(0.0, 0), (-1.0, 0), (1.0, 0), (1.0001, 1), (2.0, 1), (2.5, 2), (1e300, 2)]
)
def test_a_value_lies_under_the_first_bound_that_it_does_not_exceed(value, place):
    buckets = Buckets((1.0, 2.0))
    buckets.add(value)
    assert buckets.histogram().counts == tuple(int(place == n) for n in range(3))


def test_values_add_up():
    buckets = Buckets((1.0, 2.0))
    for value in (0.5, 1.5, 1.75, 7.0):
        buckets.add(value)
    told = buckets.histogram()
    assert (told.bounds, told.counts, told.total) == ((1.0, 2.0, float("inf")), (1, 2, 1), 10.75)


def test_what_was_told_does_not_grow():
    buckets = Buckets((1.0,))
    told = buckets.histogram()
    buckets.add(0.5)
    assert told.counts == (0, 0)
