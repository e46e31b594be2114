"""Tool calls, in all the ways in which backends number and name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import ToolCallDelta as Delta
from transports.backends.calls import MAX_CALLS, Calls, ImpossibleCalls, joined
from transports.backends.chunks import CallPiece as Piece

WANTED = [("a", "f", '{"n":1}'), ("b", "g", "{}")]


def whole(deltas):
    """Put the deltas together as a client does."""
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        call = calls.setdefault(delta.index, ["", "", ""])
        call[0] += delta.call_id or ""
        call[1] += delta.name or ""
        call[2] += delta.arguments
    return [tuple(calls[index]) for index in range(len(calls))]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                Piece(0, "a", "f"), Piece(0, arguments='{"n"'), Piece(0, arguments=":1}"), Piece(1, "b", "g", "{"),
                Piece(1, arguments="}"),
            ],
            id="as OpenAI does",
        ),
        pytest.param(
            [Piece(0, "a", "f", '{"n"'), Piece(1, "b", "g", "{"), Piece(0, arguments=":1}"), Piece(1, arguments="}")],
            id="in turns",
        ),
        pytest.param(
            [Piece(0, "a", "f", '{"n"'), Piece(0, "a", "f", ":1}"), Piece(1, "b", "g", "{"), Piece(1, "b", "g", "}")],
            id="each piece with id and name",
        ),
        pytest.param([Piece(0, "a", "f", '{"n":1}'), Piece(0, "b", "g", "{}")], id="all of them at index 0"),
        pytest.param(
            [Piece(0, "a", "f", '{"n":'), Piece(0, "b", "g", "{"), Piece(0, "a", "", "1}"), Piece(0, arguments="}")],
            id="at index 0 in turns",
        ),
        pytest.param([Piece(None, "a", "f", '{"n":1}'), Piece(None, "b", "g", "{}")], id="without an index"),
        pytest.param(
            [Piece(None, "a", "f", '{"n"'), Piece(arguments=":1}"), Piece(None, "b", "g"), Piece(arguments="{}")],
            id="without an index, in pieces",
        ),
        pytest.param([Piece(7, "a", "f", '{"n":1}'), Piece(3, "b", "g", "{}")], id="indexes that mean nothing"),
    ],
)  # fmt: skip
def test_the_calls_are_the_same_however_they_are_told_apart(pieces):
    calls = Calls("call_")
    assert not calls
    deltas = calls.feed(pieces)
    assert calls
    assert whole(deltas) == WANTED
    assert whole(joined(deltas)) == WANTED


@pytest.mark.parametrize(
    "pieces",
    [
        [Piece(0, "", "f", '{"n":1}'), Piece(1, "", "g", "{}")],
        [Piece(None, "", "f", '{"n":1}'), Piece(None, "", "g", "{}")],
    ],
)
def test_a_call_without_an_id_gets_one(pieces):
    assert whole(Calls("call_x_").feed(pieces)) == [
        ("call_x_0", "f", '{"n":1}'), ("call_x_1", "g", "{}"),
    ]  # fmt: skip


def test_an_id_that_comes_late_is_not_a_second_call_nor_a_second_id():
    deltas = Calls("call_x_").feed([Piece(0, "", "f", "{"), Piece(0, "late", "", "}")])
    assert whole(deltas) == [("call_x_0", "f", "{}")]


def test_what_has_no_name_at_all_is_a_call_still():
    assert Calls("c").feed([Piece(0, arguments="{}")]) == [Delta(index=0, call_id="c0", arguments="{}")]


def test_calls_without_end_are_refused():
    calls = Calls("c")
    calls.feed(Piece(n, f"id{n}") for n in range(MAX_CALLS))
    calls.feed([Piece(3, arguments="more")])
    with pytest.raises(ImpossibleCalls):
        calls.feed([Piece(MAX_CALLS, "one too many")])


@pytest.mark.parametrize("piece", [Piece(0, "x" * 513), Piece(0, "a", "x" * 513)])
def test_an_id_or_a_name_without_end_is_refused(piece):
    with pytest.raises(ImpossibleCalls):
        Calls("c").feed([piece])


@given(
    st.lists(
        st.builds(
            Piece,
            st.sampled_from([None, 0, 1, 2]),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", "f", "g"]),
            st.text("{}", max_size=2),
        ),
        max_size=12,
    )
)
def test_whatever_comes_calls_count_up_and_begin_with_their_only_id(pieces):
    deltas = Calls("c").feed(pieces)
    begun = -1
    for delta in deltas:
        assert (delta.call_id is not None) == (delta.index == begun + 1)
        begun = max(begun, delta.index)
        assert delta.index <= begun
    assert len(deltas) == len(pieces)
    assert "".join(delta.arguments for delta in deltas) == "".join(piece.arguments for piece in pieces)
    ids = [delta.call_id for delta in deltas if delta.call_id]
    assert len(set(ids)) == len(ids)
    assert whole(joined(deltas)) == whole(deltas)
