"""Parts fit, lose nothing, end at the best border within reach, and keep code fences whole."""

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.messages.descriptor import Descriptor, LenUnit
from actors.relay.fence import LineKind, read_lines
from actors.relay.measure import Measure, length
from actors.relay.split import split, split_text

quick = settings(max_examples=250, deadline=None)

CHARS, UTF16 = LenUnit.CHARS, LenUnit.UTF16
units = st.sampled_from(LenUnit)

FENCE_LINE = re.compile(r"\s*(`{3,}[^`]*|~{3,}.*)")


def units_of(text: str, unit: LenUnit) -> int:
    return len(text) if unit is CHARS else len(text.encode("utf-16-le")) // 2


def bare(text: str) -> str:
    """The text without what a split may drop or add when there is no info string: white space and fences."""
    return re.sub(r"[\s`~]", "", text)


def is_balanced(part: str) -> bool:
    """Whether every fence that the part opens is closed in it."""
    opened = ""
    for line in part.split("\n"):
        if opened:
            run = line.strip()
            if len(run) >= len(opened) and set(run) == {opened[0]}:
                opened = ""
        elif found := re.match(r"\s*(`{3,}(?=[^`]*$)|~{3,})", line):
            opened = found[1]
    return not opened


# Borders


def test_an_empty_or_blank_text_has_no_parts() -> None:
    assert split_text("", 10, CHARS) == []
    assert split_text(" \n\n ", 10, CHARS) == []
    assert split_text(" " * 50, 10, CHARS) == []


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert split_text("  as it is \n", 12, CHARS) == ["  as it is \n"]


def test_a_paragraph_is_better_than_a_later_line() -> None:
    assert split_text("one\n\ntwo\nthree\nfour", 15, CHARS) == ["one", "two\nthree\nfour"]


def test_the_last_paragraph_within_reach_is_taken() -> None:
    assert split_text("one\n\ntwo\n\n  \nthree four", 12, CHARS) == ["one\n\ntwo", "three four"]


def test_a_line_is_better_than_a_later_word() -> None:
    assert split_text("one\ntwo three four", 14, CHARS) == ["one", "two three four"]


def test_a_word_is_better_than_anywhere() -> None:
    assert split_text("one two   three", 10, CHARS) == ["one two", "three"]
    assert split_text("one two three", 7, CHARS) == ["one two", "three"]


def test_a_word_that_is_too_long_is_cut_anywhere() -> None:
    assert split_text("abcdefghij", 4, CHARS) == ["abcd", "efgh", "ij"]


def test_indentation_outlives_a_border_at_a_line() -> None:
    assert split_text("- one\n  - two", 8, CHARS) == ["- one", "  - two"]


def test_long_white_space_makes_no_part() -> None:
    assert split_text(" " * 50 + "x" + " " * 50 + "y", 10, CHARS) == ["x", "y"]


def test_other_line_ends_are_white_space_at_a_border() -> None:
    assert split_text("one\r\n\r\ntwo\r\nthree", 12, CHARS) == ["one", "two\r\nthree"]


# Units


def test_utf16_counts_code_units() -> None:
    text = "😀" * 5
    assert split_text(text, 4, CHARS) == ["😀" * 4, "😀"]
    assert split_text(text, 4, UTF16) == ["😀😀", "😀😀", "😀"]
    assert split_text(text, 5, UTF16) == ["😀😀", "😀😀", "😀"]


def test_under_a_limit_of_one_there_is_progress_all_the_same() -> None:
    assert split_text("a😀 b", 1, UTF16) == ["a", "😀", "b"]
    assert split_text("ab", 1, CHARS) == ["a", "b"]


@pytest.mark.parametrize("limit", [0, -1])
def test_nothing_fits_into_no_limit(limit: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        split_text("x", limit, CHARS)


@pytest.mark.parametrize("cluster", ["e\u0301\u0302", "👩\u200d👩\u200d👧", "👍\U0001f3fd", "❤\ufe0f"])
def test_what_is_one_character_to_people_stays_whole(cluster: str) -> None:
    assert split_text("xxxxxx" + cluster, 7, CHARS) == ["xxxxxx", cluster]


def test_endless_accents_do_not_stop_it() -> None:
    parts = split_text("e" + "\u0301" * 200, 50, CHARS)
    assert "".join(parts) == "e" + "\u0301" * 200
    assert max(map(len, parts)) <= 50


@quick
@given(
    st.text(st.sampled_from("a😀é\U00010000")),
    units,
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_a_piece_is_measured_as_if_it_were_alone(
    text: str, unit: LenUnit, one: int, other: int, room: int
) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    measure = Measure(text, unit)
    assert measure.between(start, end) == length(text[start:end], unit) == units_of(text[start:end], unit)
    reached = measure.reach(start, room)
    assert units_of(text[start:reached], unit) <= room
    assert reached == len(text) or units_of(text[start : reached + 1], unit) > room


# Fences

CODE = "```python\n" + "\n".join(f"line{n}" for n in range(8)) + "\n```"


def test_a_cut_fence_is_closed_and_reopened_with_its_info_string() -> None:
    assert split_text(CODE, 44, CHARS) == [
        "```python\nline0\nline1\nline2\nline3\nline4\n```",
        "```python\nline5\nline6\nline7\n```",
    ]


def test_code_is_left_whole_if_it_fits_into_the_next_part() -> None:
    assert split_text("Look:\n" + CODE + "\nSee?", 70, CHARS) == ["Look:\n" + CODE, "See?"]
    assert split_text("Look here, please:\n" + CODE, 65, CHARS) == ["Look here, please:", CODE]


def test_a_border_in_text_is_better_than_one_in_code() -> None:
    assert split_text("one\n" + CODE, 62, CHARS) == ["one", CODE]


def test_blank_lines_and_indentation_of_code_are_kept() -> None:
    text = "```\nif x:\n    y\n\n\n    z\nend\n```"
    assert split_text(text, 20, CHARS) == ["```\nif x:\n    y\n\n```", "```\n\n    z\nend\n```"]


def test_a_long_line_of_code_is_cut_at_a_word_and_keeps_its_spaces() -> None:
    assert split_text("```\naaaa  bbbb cccc\n```", 19, CHARS) == [
        "```\naaaa  bbbb \n```",
        "```\ncccc\n```",
    ]


def test_a_long_word_of_code_is_cut_anywhere() -> None:
    assert split_text("```\n" + "x" * 20 + "\n```", 20, CHARS) == [
        "```\n" + "x" * 12 + "\n```",
        "```\n" + "x" * 8 + "\n```",
    ]


def test_no_part_holds_an_opening_line_alone() -> None:
    text = "intro\n```\n" + "x" * 30 + "\n```"
    assert split_text(text, 20, CHARS)[0] == "intro"


def test_a_closing_line_alone_makes_no_part() -> None:
    text = "```\nfour\nfive \n``````````\nafter"
    assert split_text(text, 18, CHARS) == ["```\nfour\nfive \n```", "after"]
    assert split_text("```\n" + "x" * 11 + " \n`````````\nafter", 20, CHARS) == [
        "```\n" + "x" * 11 + " \n```",
        "after",
    ]


def test_an_indented_fence_is_reopened_where_it_stood() -> None:
    parts = split_text("- item\n  ```py\n  aaaa\n  bbbb\n  cccc\n  ```", 33, CHARS)
    assert parts == ["- item", "  ```py\n  aaaa\n  bbbb\n  ```", "  ```py\n  cccc\n  ```"]


def test_longer_and_other_fences_are_closed_with_their_own_marker() -> None:
    text = "~~~~\n```\naaa\n```\nbbb\nccc\n~~~~~"
    parts = split_text(text, 24, CHARS)
    assert parts == ["~~~~\n```\naaa\n```\n~~~~", "~~~~\nbbb\nccc\n~~~~~"]


def test_what_stands_on_one_line_opens_no_fence() -> None:
    assert split_text("```one line``` and\nmore text", 18, CHARS) == ["```one line``` and", "more text"]


def test_a_long_info_string_is_not_repeated() -> None:
    parts = split_text("```" + "i" * 30 + "\n" + "aaaa\n" * 10 + "```", 50, CHARS)
    assert parts[0].startswith("```" + "i" * 30 + "\naaaa\n")
    assert all(part.startswith("```\naaaa\n") for part in parts[1:])
    assert all(is_balanced(part) for part in parts)


def test_a_fence_that_leaves_no_room_for_code_is_text() -> None:
    parts = split_text("```" + "i" * 60 + "\n" + "aaaa\n" * 5 + "```\nafter " + "b" * 20, 40, CHARS)
    assert parts[0] == "```" + "i" * 37
    assert "".join(parts).count("```") == 2
    assert all(len(part) <= 40 for part in parts)


def test_a_fence_that_was_never_closed_is_closed_where_it_is_cut() -> None:
    assert split_text("```\naaaa\nbbbb\ncccc", 16, CHARS) == ["```\naaaa\n```", "```\nbbbb\ncccc"]


def test_an_empty_block_with_a_long_end_stays_a_block() -> None:
    assert split_text("```\n" + "`" * 30 + "\nafter", 20, CHARS) == ["```\n```", "after"]


def test_lines_know_their_fences() -> None:
    lines = read_lines("a\n\n```py\nx\n```\n", 100, CHARS)
    assert [line.kind.value for line in lines] == ["text", "blank", "opens", "code", "closes", "blank"]
    assert [line.fence is not None for line in lines] == [False, False, True, True, False, False]
    assert all(line.kind in (LineKind.TEXT, LineKind.BLANK) for line in read_lines(CODE, 10, CHARS))


# What holds for all texts

hostile_texts = st.text(st.sampled_from("ab😀é\u0301\u200d \t\n\n\n\r`~"), max_size=120) | st.lists(
    st.sampled_from(["```", "~~~", "````", "```a", "x", "word ", "\n", "\n", "\n\n", "  ", "😀", "`"]),
    max_size=60,
).map("".join)


@settings(max_examples=600, deadline=None)
@given(hostile_texts, st.integers(1, 60), units)
@example("```\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nx\n```", 16, CHARS)
def test_parts_fit_and_lose_nothing(text: str, limit: int, unit: LenUnit) -> None:
    parts = split_text(text, limit, unit)
    assert all(part.strip() for part in parts)
    if limit > 1:
        assert all(units_of(part, unit) <= limit for part in parts)
    lost = bare(text)
    found = iter(bare("".join(parts)))
    # Info strings may come again, so the text is somewhere within the parts.
    assert all(character in found for character in lost)


@quick
@given(st.text(st.sampled_from("ab😀é \t\n\n"), max_size=200), st.integers(2, 40), units)
def test_without_code_the_parts_are_the_text(text: str, limit: int, unit: LenUnit) -> None:
    parts = split_text(text, limit, unit)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)
    assert len(parts) <= 1 or units_of(text, unit) > limit
    if len(parts) > 1:
        assert all(part == part.rstrip() for part in parts)


words = st.text(st.sampled_from("abé😀"), min_size=1, max_size=30)
paragraphs = st.lists(words, min_size=1, max_size=8).map(" ".join)
code = st.lists(st.text(st.sampled_from("xy \t"), max_size=50), max_size=8)
blocks = st.builds(
    lambda marker, info, lines: "\n".join([marker + info, *lines, marker]),
    st.sampled_from(["```", "~~~", "````", "  ```"]),
    st.sampled_from(["", "py", "python title"]),
    code,
)
documents = st.lists(paragraphs | blocks, max_size=8)


@quick
@given(documents, st.sampled_from(["\n", "\n\n"]), st.integers(50, 120), units)
def test_every_part_of_a_document_has_whole_fences(
    pieces: list[str], between: str, limit: int, unit: LenUnit
) -> None:
    text = between.join(pieces)
    parts = split_text(text, limit, unit)
    assert all(is_balanced(part) for part in parts)
    assert all(units_of(part, unit) <= limit for part in parts)
    kept = "\n".join(line for part in parts for line in part.split("\n") if not FENCE_LINE.fullmatch(line))
    given_lines = "\n".join(line for line in text.split("\n") if not FENCE_LINE.fullmatch(line))
    assert re.sub(r"\s", "", kept) == re.sub(r"\s", "", given_lines)


@quick
@given(st.lists(st.text(st.sampled_from("xy  "), min_size=1, max_size=20), min_size=1, max_size=30))
def test_code_comes_out_line_by_line_as_it_was(lines: list[str]) -> None:
    parts = split_text("\n".join(["```py", *lines, "```"]), 40, CHARS)
    out = [line for part in parts for line in part.split("\n") if not line.startswith("```")]
    # Only blank lines at the end of the code may be lost: they could be a part of their own.
    assert out == lines[: len(out)]
    assert not "".join(lines[len(out) :]).strip()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        " " * 100_000 + "x",
        "a\n" * 50_000,
        "```\n" + " " * 100_000 + "x\n```",
        "\u0301" * 100_000,
        "`" * 100_000,
    ],
)
@pytest.mark.parametrize("limit", [20, 4096])
def test_time_grows_with_the_text_only(text: str, limit: int) -> None:
    began = time.process_time()
    split_text(text, limit, UTF16)
    assert time.process_time() - began < 5


def test_a_descriptor_tells_limit_and_unit() -> None:
    descriptor = Descriptor(platform="telegram", label="T", max_message_length=4, len_unit=UTF16)
    assert split("😀😀😀", descriptor) == ("😀😀", "😀")
