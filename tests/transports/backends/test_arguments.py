"""TRN-42: arguments on the wire are a JSON object, whatever a model wrote."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.backends.arguments import legal, spelled_out


@pytest.mark.parametrize("arguments", ["{}", '{"a": 1}', ' {"a":{"b":[1,2]},"a":2} ', '{"n":1e400}'])
def test_trn_42_an_object_stays_as_it_was_written(arguments):
    assert legal(arguments) == arguments


@pytest.mark.parametrize("arguments", ["", "  \n"])
def test_trn_42_no_arguments_are_an_empty_object(arguments):
    assert legal(arguments) == "{}"


@pytest.mark.parametrize(
    "arguments",
    ['{"a": ', "null", "[1]", '"{}"', "{'a': 1}", '{"a":NaN}', "{}{}", "[" * 100_000, '{"a":' * 9999],
)
def test_trn_42_anything_else_is_kept_in_an_object(arguments):
    assert json.loads(legal(arguments)) == {"unparsed": arguments}


@given(st.text())
def test_trn_42_it_is_an_object_whatever_comes_and_once_is_enough(arguments):
    made = legal(arguments)
    assert isinstance(json.loads(made), dict)
    assert legal(made) == made


WORDS = st.text('⟦⟧\\u27e6a"', max_size=8)


@given(st.dictionaries(WORDS, WORDS | st.lists(WORDS)), st.booleans())
def test_a_character_can_not_hide_in_an_escape_and_nothing_else_changes(value, ascii_only):
    arguments = json.dumps(value, ensure_ascii=ascii_only)
    made = spelled_out(arguments, "⟦⟧")
    assert json.loads(made) == value
    assert made.count("⟦") == json.dumps(value, ensure_ascii=False).count("⟦")


def test_escapes_are_read_whatever_the_case_of_their_digits():
    assert spelled_out(r'{"a":"\u27E6\u27e7"}', "⟦⟧") == '{"a":"⟦⟧"}'
    assert spelled_out(r'{"a":"\\u27e6"}', "⟦⟧") == r'{"a":"\\u27e6"}'
