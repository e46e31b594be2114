"""Which rows a list of actors shows."""

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.admin.selection import depth, select
from actors.messages.admin import ActorOrder, ListActors
from actors.messages.lifecycle import ActorInfo

counts = st.integers(0, 3)
ages = st.floats(0, 3)
some_rows = st.lists(
    st.builds(
        ActorInfo,
        path=st.sampled_from(["/", "/a", "/a/b", "/ab", "/b"]),
        kind=st.sampled_from(["lane", "turn"]),
        state=st.sampled_from(["running", "suspended"]),
        incarnation=counts,
        parent=st.none(),
        control_depth=counts,
        ordinary_depth=counts,
        oldest_age=ages,
        busy_for=ages,
        handled=counts,
        restarts=counts,
        last_error=st.none(),
        age=ages,
        since=ages,
    ),
    unique_by=lambda row: row.path,
).map(lambda rows: sorted(rows, key=lambda row: row.path))


def test_a_prefix_is_a_path_and_no_text():
    rows = [blank("/a"), blank("/a/b"), blank("/ab")]
    assert [row.path for row in select(rows, ListActors(prefix="/a"))] == ["/a", "/a/b"]
    assert select(rows, ListActors(prefix="/a/")) == [rows[1]]
    assert select(rows, ListActors()) == rows


@given(some_rows)
def test_filters_let_through_what_they_name(rows):
    request = ListActors(kinds=("lane",), states=("suspended",), depth=2)
    chosen = [row for row in rows if row.kind == "lane" and row.state == "suspended" and depth(row) >= 2]
    assert select(rows, request) == chosen


@given(some_rows, st.sampled_from(ActorOrder), st.integers(1, 3))
def test_the_largest_come_first_and_equal_ones_by_path(rows, order, limit):
    fields = {"depth": depth, "oldest": lambda row: row.oldest_age, "busy": lambda row: row.busy_for}
    value = fields.get(order, lambda row: getattr(row, order))
    whole = select(rows, ListActors(sort=order))
    assert sorted(whole, key=lambda row: row.path) == rows
    if order is ActorOrder.PATH:
        assert whole == rows
    for one, next_one in pairwise(whole):
        assert order is ActorOrder.PATH or (-value(one), one.path) < (-value(next_one), next_one.path)
    assert select(rows, ListActors(sort=order, limit=limit)) == whole[:limit]


def blank(path):
    numbers = dict.fromkeys(ActorInfo.__struct_fields__, 0)
    texts = {"path": path, "kind": "k", "state": "running", "parent": None, "last_error": None}
    return msgspec.convert({**numbers, **texts}, ActorInfo)
