"""How a client names its chat, and how it begins anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.front.errors import ApiError
from transports.front.session_header import (
    MAX_LENGTH,
    echoed_token,
    is_token,
    minted_token,
    read_command,
    response_headers,
    supplied_token,
)

ONE, OTHER = b"x-session-id", b"x-hermes-session-id"


@pytest.mark.parametrize("token", ["a", "~", "!", "a.b", "1:b", "AB:c", "x" * MAX_LENGTH, "api-0123", "{}"])
def test_visible_ascii_names_a_chat(token: str) -> None:
    assert is_token(token)
    assert supplied_token([(ONE, token.encode())]) == token


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"a b",
        b"a\tb",
        b"\x7f",
        b"\xe9",
        b"\xc3\xa9",
        b"..",
        b"a..b",
        b"a/b",
        b"a\\b",
        b"C:",
        b"c:x",
    ],
)
def test_what_could_be_a_path_or_is_not_visible_names_none(value: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        supplied_token([(ONE, value)])
    assert (raised.value.status, raised.value.code) == (400, "invalid_session_id")
    assert echoed_token([(ONE, value)]) is None


def test_a_name_may_be_256_long_and_no_longer() -> None:
    assert is_token("x" * 256) and not is_token("x" * 257) and not is_token("")


@pytest.mark.parametrize("names", [(ONE,), (OTHER,), (ONE, OTHER), (ONE, ONE)])
def test_either_header_or_both_alike_name_the_chat(names: tuple[bytes, ...]) -> None:
    assert supplied_token([(name, b"c1") for name in names]) == "c1"


@pytest.mark.parametrize("names", [(ONE, OTHER), (ONE, ONE), (OTHER, OTHER)])
def test_two_that_differ_are_refused_and_not_echoed(names: tuple[bytes, bytes]) -> None:
    headers = [(names[0], b"a"), (names[1], b"b")]
    with pytest.raises(ApiError, match="different sessions"):
        supplied_token(headers)
    assert echoed_token(headers) is None


def test_no_header_names_none() -> None:
    assert supplied_token([(b"authorization", b"x")]) is None


@given(st.binary(max_size=300))
def test_whatever_bytes_come_a_name_is_good_or_refused(value: bytes) -> None:
    token = echoed_token([(OTHER, value)])
    assert token is None or (is_token(token) and token.encode("ascii") == value)


@given(st.integers(min_value=0, max_value=2**160 - 1))
def test_a_minted_name_is_one_that_a_client_may_send_back(bits: int) -> None:
    token = minted_token(bits)
    assert is_token(token) and len(token) == len("chat-") + 40
    assert supplied_token([(ONE, token.encode())]) == token


def test_answers_carry_both_names_once_the_chat_is_known() -> None:
    assert response_headers(None) == ()
    assert response_headers("c1") == (("X-Session-Id", "c1"), ("X-Hermes-Session-Id", "c1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/new", (True, "")),
        ("  /new \n", (True, "")),
        ("/new hello", (True, "hello")),
        ("/new   two  words ", (True, "two  words")),
        ("/news", (False, "/news")),
        ("/New", (False, "/New")),
        ("/new\ttext", (False, "/new\ttext")),
        ("/new\ntext", (False, "/new\ntext")),
        ("say /new", (False, "say /new")),
        ("", (False, "")),
        ("  spaced  ", (False, "  spaced  ")),
    ],
)
def test_new_is_a_word_of_its_own_at_the_beginning(text: str, expected: tuple[bool, str]) -> None:
    assert read_command(text) == expected
