"""One answer, from bytes to an outcome."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import FailureClass, ToolCallDelta
from tests.fakes.backend_script import Done, Event, Finish, Raw, Reasoning, Role, Step, Text, Usage, payload
from tests.fakes.chunks import chunk
from transports.backends.failures import INCOMPLETE
from transports.backends.reading import Piece, Progress, Reading
from transports.backends.stream import Failure

BROKEN = Failure(FailureClass.INCOMPLETE, "ReadError")


def reading(**changes: object) -> Reading:
    return Reading(**{"max_event_bytes": 1 << 16, "finish_optional": False, **changes})


def wire(*steps: Step) -> bytes:
    return b"".join(payload(step) or b"" for step in steps)


GOOD = (Role(), Reasoning("hm"), Text("Hel"), Text("lo"), Finish(), Usage(), Done())


def test_a_good_answer():
    answer = reading()
    assert answer.feed(wire(*GOOD)) == [Piece(reasoning="hm"), Piece(text="Hello")]
    assert (answer.progress, answer.failure, answer.done) == (Progress.CLOSED, None, True)
    assert answer.finish_reason == "stop"
    assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


@given(st.data())
def test_any_cut_gives_the_same_answer(data):
    stream = wire(*GOOD)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    answer = reading()
    pieces = [
        piece
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for piece in answer.feed(stream[start:end])
    ]
    assert "".join(piece.text for piece in pieces) == "Hello"
    assert "".join(piece.reasoning for piece in pieces) == "hm"
    assert (answer.failure, answer.finish_reason, answer.done) == (None, "stop", True)


@pytest.mark.parametrize(
    ("steps", "failure"),
    [
        ((Text("a"),), INCOMPLETE),
        ((), INCOMPLETE),
        ((Text("a"), Done()), INCOMPLETE),
        ((Text("a"), Raw(b"data: {\n\n")), Failure(FailureClass.PROTOCOL, "MalformedChunk")),
        ((Text("a"), Raw(b"x" * 70_000)), Failure(FailureClass.PROTOCOL, "EventTooLarge")),
        (
            (Text("a"), Event({"error": {"code": "server_error", "message": "secret"}}), Text("b"), Finish()),
            Failure(FailureClass.SERVER_ERROR, "ServerError"),
        ),
        ((Text("a"), Finish("error"), Done()), Failure(FailureClass.SERVER_ERROR, "ServerError")),
    ],
)
def test_an_answer_that_fails(steps, failure):
    answer = reading()
    answer.feed(wire(*steps))
    answer.end()
    assert (answer.failure, answer.progress) == (failure, Progress.CLOSED)


@pytest.mark.parametrize(
    "rest",
    [
        (),
        (Done(), Done()),
        (Finish("length"),),
        (Raw(b"data: {\n\n"),),
        (Event({"error": {"code": "server_error"}}),),
        (Raw(b"\n\n: ping\n\n"), Raw(b"data:\n\n")),
    ],
)
def test_nothing_after_the_finish_reason_makes_it_a_failure(rest):
    answer = reading()
    answer.feed(wire(Text("a"), Finish("stop"), *rest))
    answer.broke(BROKEN)
    assert (answer.failure, answer.finish_reason) == (None, "stop")


def test_a_break_before_the_finish_reason_is_the_failure():
    answer = reading()
    answer.feed(wire(Text("a")))
    answer.broke(BROKEN)
    assert answer.failure == BROKEN


def test_what_stood_before_a_failure_is_kept():
    assert reading().feed(wire(Text("a"), Raw(b"data: {\n\n"), Text("b"))) == [Piece(text="a")]


@pytest.mark.parametrize("steps", [(Text("a"), Done()), (Text("a"),)])
def test_a_lane_may_do_without_finish_reasons(steps):
    answer = reading(finish_optional=True)
    answer.feed(wire(*steps))
    answer.end()
    assert (answer.failure, answer.finish_reason) == (None, None)


def test_the_last_event_may_lack_its_end():
    answer = reading()
    assert answer.feed(wire(Text("a"), Finish())[:-1]) == [Piece(text="a")]
    assert answer.end() == []
    assert (answer.failure, answer.finish_reason) == (None, "stop")


def test_usage_may_stand_in_every_chunk():
    answer = reading()
    answer.feed(wire(Usage(1, 1), Text("a"), Usage(1, 2), Finish()))
    assert answer.usage == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


CALLS = (
    Text("So"),
    Event(chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]})),
    Event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})),
    Event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]})),
)


def test_tool_calls_come_after_the_text_before_them_and_in_few_pieces():
    answer = reading()
    call = ToolCallDelta(index=0, call_id="a", name="f", arguments="{}")
    assert answer.feed(wire(*CALLS, Finish("tool_calls"), Done())) == [
        Piece(text="So"), Piece(tool_calls=(call,)),
    ]  # fmt: skip
    assert (answer.failure, answer.finish_reason) == (None, "tool_calls")


@pytest.mark.parametrize(
    ("said", "understood"), [("stop", "tool_calls"), ("tool_calls", "tool_calls"), ("length", "length")]
)
def test_a_backend_that_calls_it_a_stop_asks_for_its_tools_all_the_same(said, understood):
    answer = reading()
    answer.feed(wire(*CALLS, Finish(said), Done()))
    assert answer.finish_reason == understood


def test_tool_calls_that_simply_end_are_no_end_unless_the_lane_says_so():
    answer, lenient = reading(), reading(finish_optional=True)
    for one in (answer, lenient):
        one.feed(wire(*CALLS))
        one.end()
    assert answer.failure == INCOMPLETE
    assert (lenient.failure, lenient.finish_reason) == (None, "tool_calls")


def test_more_tool_calls_than_anybody_means_are_a_fault_of_the_backend():
    answer = reading()
    many = [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(200)]
    answer.feed(wire(Event(chunk({"tool_calls": many})), Finish("tool_calls")))
    assert answer.failure == Failure(FailureClass.PROTOCOL, "ImpossibleCalls")
