"""Think tags and held text: whatever the chunks, the same answer, the same reasoning, and nothing shown too early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import ThinkTags
from actors.turn.text import HELD, OPENING, Text

OFF, LEADING, ANYWHERE = ThinkTags.OFF, ThinkTags.LEADING, ThinkTags.ANYWHERE


def feed(text, *pieces, finish=True):
    """Feed pieces; return the text, the contents shown and the reasoning shown."""
    contents, reasonings = [], []
    for piece in pieces:
        text, shown = text.feed(piece)
        assert text.length == len(text.partial)
        contents.append(shown.content)
        reasonings.append(shown.reasoning)
    if finish:
        text, shown = text.finish()
        contents.append(shown.content)
        reasonings.append(shown.reasoning)
    return text, [content for content in contents if content], "".join(reasonings)


@pytest.mark.parametrize(
    ("tags", "stream", "content", "reasoning"),
    [
        (OFF, "<think>a</think>b", "<think>a</think>b", ""),
        (LEADING, "<think>a</think>b", "b", "a"),
        (LEADING, " \n<think>a</think>\n\nb <think>c</think>", "b <think>c</think>", "a"),
        (LEADING, "a <think>b</think>", "a <think>b</think>", ""),
        (LEADING, "  a", "  a", ""),
        (LEADING, "<thin", "<thin", ""),
        (LEADING, "<thinker>a", "<thinker>a", ""),
        (LEADING, "<reasoning>a", "", "a"),
        (LEADING, "<think>a</thinking>b</think>c", "c", "a</thinking>b"),
        (LEADING, "<think>a</think> <thought>b</thought> c", "c", "ab"),
        (ANYWHERE, "a <think>b</think> c", "a  c", "b"),
        (ANYWHERE, "<think>a</think>\n\nb", "b", "a"),
        (ANYWHERE, "   <think>a</think>b", "b", "a"),
        (ANYWHERE, "   b", "   b", ""),
        (ANYWHERE, "a</think>b", "a</think>b", ""),
        (ANYWHERE, "a<think>b", "a", "b"),
    ],
)
def test_what_is_answer_and_what_is_reasoning(tags, stream, content, reasoning):
    for pieces in ([stream], list(stream)):
        text, contents, thoughts = feed(Text(tags), *pieces)
        assert ("".join(contents), thoughts, text.partial) == (content, reasoning, content)


def test_trn_1_anywhere_holds_the_last_twelve_characters_back():
    assert HELD == 12
    text, contents, _ = feed(Text(ANYWHERE), "Half an answer", finish=False)
    assert contents == ["Ha"] and text.partial == "Half an answer"


def test_ordinary_text_is_never_held_by_leading():
    text = Text(LEADING)
    for piece in ("H", "el", "lo <", "think"):
        text, shown = text.feed(piece)
        assert shown.content == piece


def test_a_lane_that_holds_back_shows_all_at_the_end():
    text, contents, _ = feed(Text(LEADING, hold_back=True), "Hel", "lo", finish=False)
    assert contents == [] and text.partial == "Hello"
    assert text.finish()[1].content == "Hello"


PIECES = st.lists(
    st.sampled_from([*OPENING, *(f"</{tag[1:]}" for tag in OPENING), "<th", "ink>", "</", "<", ">", " ", "\n", "a", "word "]),
    max_size=12,
)  # fmt: skip


@given(st.sampled_from(ThinkTags), st.booleans(), PIECES, st.data())
def test_any_chunking_gives_the_same(tags, hold_back, pieces, data):
    stream = "".join(pieces)
    whole = feed(Text(tags, hold_back), stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    text, contents, reasoning = feed(Text(tags, hold_back), *parts)
    assert "".join(contents) == "".join(whole[1]) == text.partial == text.content
    assert reasoning == whole[2]
    # Nothing but tags, and white space about them, is lost.
    kept = "".join(contents) + reasoning
    assert len(kept) <= len(stream)
    if tags is OFF:
        assert kept == stream


@given(st.sampled_from(ThinkTags), PIECES)
def test_what_is_shown_is_never_taken_back(tags, pieces):
    text, shown_so_far = Text(tags), ""
    for piece in pieces:
        text, shown = text.feed(piece)
        shown_so_far += shown.content
        assert text.partial.startswith(shown_so_far) and text.content[: text.shown] == shown_so_far
    assert text.finish()[0].content.startswith(shown_so_far)
