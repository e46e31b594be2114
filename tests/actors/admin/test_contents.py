"""What a message shows of itself to an operator."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.admin.contents import DEEPEST, HIDDEN, LONGEST_TEXT, MORE, MOST_ITEMS, shown
from actors.messages.secret import Secret


class Holds(msgspec.Struct):
    what: object


def test_a_secret_is_hidden_wherever_it_lies():
    value = Holds(
        [Secret("canary"), {"a": (Secret("canary"),)}, Holds(Secret("canary")), {Secret("canary"): 1}]
    )
    text = json.dumps(shown(value))
    assert "canary" not in text and text.count(HIDDEN) == 4


def test_what_is_long_is_cut():
    assert shown("x" * 5000) == "x" * LONGEST_TEXT + MORE
    assert shown(list(range(60))) == [*range(MOST_ITEMS), f"{MORE} 10 more"]
    assert shown(dict.fromkeys(range(60)))[MORE] == 10
    assert shown(b"x" * 10) == "10 bytes"


def test_what_is_deep_is_cut():
    deep = value = []
    for _ in range(5000):
        deep.append([])
        deep = deep[0]
    cut = shown(value)
    for _ in range(DEEPEST):
        (cut,) = cut
    assert cut == MORE


def test_what_is_no_data_is_told_by_its_path_or_type(system):
    assert shown(system.port("/a")) == "/a"
    assert shown(Holds(object())) == {"what": "(object)"}


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_like)
def test_anything_becomes_json(value):
    json.dumps(shown(Holds(value)))


def test_short_data_is_shown_as_it_is():
    value = {"a": [1, 2.5, None, True, "x"], "b": {"c": []}}
    assert shown(value) == value
