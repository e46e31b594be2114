"""Lines come out whole however they were cut."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transports.relay.framing import LONGEST_LINE, LineSplitter, LineTooLong

quick = settings(max_examples=150, deadline=None)


def test_one_message_may_hold_several_lines() -> None:
    assert LineSplitter().feed('{"a":1}\n{"b":2}\n') == [b'{"a":1}', b'{"b":2}']


def test_one_line_may_come_in_several_messages() -> None:
    splitter = LineSplitter()
    assert splitter.feed('{"a"') == []
    assert splitter.feed(":1") == []
    assert splitter.feed('}\n{"b"') == [b'{"a":1}']
    assert splitter.feed(":2}\n") == [b'{"b":2}']


def test_a_line_without_its_newline_is_not_given() -> None:
    assert LineSplitter().feed('{"a":1}') == []


def test_blank_lines_are_skipped() -> None:
    assert LineSplitter().feed("\n \n\r\n\t\nx\n\n") == [b"x"]


def test_only_a_newline_ends_a_line() -> None:
    assert LineSplitter().feed("a\x85b\u2028c\x0bd\re\n") == ["a\x85b\u2028c\x0bd\re".encode()]


def test_a_character_may_be_spread_over_binary_messages() -> None:
    first, second = "é".encode()[:1], "é".encode()[1:]
    splitter = LineSplitter()
    assert splitter.feed(first) == []
    assert splitter.feed(second + b"\n") == ["é".encode()]


def test_what_is_no_utf_8_does_not_stop_it() -> None:
    assert LineSplitter().feed(b"\xff\xfe\nok\n") == [b"\xff\xfe", b"ok"]
    assert LineSplitter().feed("\ud800\nok\n")[1] == b"ok"


@quick
@given(st.data(), st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=20)))
def test_every_cut_gives_the_same_lines(data: st.DataObject, written: list[str]) -> None:
    stream = "".join(line + "\n" for line in written).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter = LineSplitter()
    lines: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        lines += splitter.feed(stream[start:end])
    assert lines == [line.encode() for line in written if line.encode().strip()]


def test_a_line_may_be_as_long_as_the_limit_in_bytes() -> None:
    line = "é" * (LONGEST_LINE // 2)
    assert LineSplitter().feed(line + "\n") == [line.encode()]


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_longer_line_ends_it_with_or_without_a_newline(end: str) -> None:
    with pytest.raises(LineTooLong):
        LineSplitter().feed("é" * (LONGEST_LINE // 2) + "x" + end)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_that_grows_too_long_over_several_messages_ends_it(end: str) -> None:
    splitter = LineSplitter(limit=10)
    assert splitter.feed("x" * 10) == []
    with pytest.raises(LineTooLong, match="longer than 10 bytes"):
        splitter.feed("x" + end)


def test_the_lines_before_a_too_long_one_are_not_lost() -> None:
    splitter = LineSplitter(limit=10)
    splitter.feed("fir")
    with pytest.raises(LineTooLong) as caught:
        splitter.feed("st\n\nsecond\n" + "x" * 11 + "\nthird\n")
    assert caught.value.lines == [b"first", b"second"]
    assert splitter.feed("after\n") == [b"after"]


def test_many_tiny_pieces_take_the_room_of_one_line() -> None:
    splitter = LineSplitter()
    tracemalloc.start()
    for _ in range(20_000):
        assert splitter.feed("ab") == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000
    assert splitter.feed("\n") == [b"ab" * 20_000]
