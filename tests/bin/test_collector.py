"""The garbage collector of a daemon: what lives long is set aside, and what refers to itself goes all the same."""

import gc
import weakref

import pytest

from bin.collector import GROWTH, Collector


class Node:
    """Something that can refer to itself."""

    def __init__(self):
        self.me = self


@pytest.fixture
def collector():
    gc.disable()
    made = Collector()
    made.start()
    yield made
    made.stop()
    gc.enable()


def test_what_outlives_a_full_collection_is_looked_at_no_more(collector):
    nodes = [Node() for _ in range(100)]
    assert len([one for one in gc.get_objects() if isinstance(one, Node)]) == 100
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Node)]
    # What goes by itself is not kept by that.
    plain = nodes[0]
    plain.me = None
    gone = weakref.ref(plain)
    nodes.clear()
    del plain
    assert gone() is None


def test_what_came_to_refer_to_itself_goes_with_the_next_look_at_everything(collector):
    node = Node()
    gc.collect()
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is not None
    # Much has come since.
    much = [[] for _ in range(GROWTH * gc.get_freeze_count())]
    gc.collect()
    assert len(much) and gc.get_freeze_count() == 0
    gc.collect()
    assert gone() is None and gc.get_freeze_count() > len(much)


def test_younger_collections_set_nothing_aside(collector):
    before = gc.get_freeze_count()
    nodes = [Node()]
    gc.collect(0)
    gc.collect(1)
    assert gc.get_freeze_count() == before and nodes
