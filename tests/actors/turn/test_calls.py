"""Tool calls put together: whatever the pieces, and from wherever somebody begins to hear them."""

from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import ToolCallDelta as Delta
from actors.messages.rows import ToolCall
from actors.turn.calls import Calls


def test_the_pieces_of_each_number_are_one_call():
    pieces = (
        Delta(index=0, call_id="a", name="f", arguments='{"n"'),
        Delta(index=1, call_id="b"),
        Delta(index=0, arguments=":1}"),
        Delta(index=1, name="g", arguments="{}"),
    )
    assert Calls().feed(pieces).calls == (
        ToolCall(call_id="a", name="f", arguments='{"n":1}'),
        ToolCall(call_id="b", name="g", arguments="{}"),
    )


def test_a_piece_of_a_call_that_never_began_is_left_out():
    assert Calls().feed([Delta(index=1, call_id="b", name="g"), Delta(index=-1)]) == Calls()


@st.composite
def answers(draw):
    """Pieces as a lane gives them: each call begins with its id, and is named once."""
    pieces, named = [], []
    for _ in range(draw(st.integers(0, 8))):
        index = draw(st.integers(0, len(named)))
        begins = index == len(named)
        if begins:
            named.append(False)
        name = draw(st.sampled_from(["f", None])) if not named[index] else None
        named[index] = named[index] or name is not None
        pieces.append(
            Delta(
                index=index,
                call_id=f"id{index}" if begins else None,
                name=name,
                arguments=draw(st.text("{}1", max_size=3)),
            )
        )
    return pieces


@given(answers(), st.data())
def test_what_is_beyond_completes_what_is_known(pieces, data):
    cut = data.draw(st.integers(0, len(pieces)))
    known = Calls().feed(pieces[:cut])
    whole = known.feed(pieces[cut:])
    assert whole == Calls().feed(pieces)
    missing = whole.beyond(known)
    assert known.feed(missing) == whole
    assert whole.beyond(whole) == ()
    assert all(delta.call_id is None for delta in missing if delta.index < len(known.calls))
