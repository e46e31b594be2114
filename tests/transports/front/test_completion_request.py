"""Bodies of POST /v1/chat/completions: what is read of them, and what is refused by name."""

import contextlib
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import Capability
from actors.messages.rows import Entry
from transports.front import completion_request
from transports.front.completion_request import parse
from transports.front.errors import ApiError

HI = {"role": "user", "content": "hi"}


def body(*messages: Any, **members: Any) -> bytes:
    return json.dumps({"messages": list(messages), **members}).encode()


def refused(raw: bytes) -> ApiError:
    with pytest.raises(ApiError) as raised:
        parse(raw)
    assert raised.value.status == 400
    return raised.value


def contents(entries: tuple[Entry, ...]) -> list[tuple[str, str]]:
    return [(entry.role, entry.content) for entry in entries]


def test_one_message_is_all_that_is_needed() -> None:
    request = parse(body(HI))
    assert contents(request.entries) == [("user", "hi")] and request.seed == ()
    assert (request.model, request.stream, request.include_usage, request.params) == (None, False, False, {})
    assert request.said == "hi"


def test_beginning_afresh_leaves_the_rest_of_the_conversation_behind() -> None:
    request = parse(body({"role": "system", "content": "s"}, HI, {"role": "assistant", "content": "x"}, HI))
    afresh = request.afresh("go")
    assert contents(afresh.entries) == [("user", "go")] and afresh.seed == ()
    assert afresh.params == {"system": "s"}


def test_beginning_afresh_takes_along_what_the_message_shows() -> None:
    image = {"type": "image_url", "image_url": {"url": "http://h/i.png"}}
    parts = [image, {"type": "text", "text": "/new look"}]
    (entry,) = parse(body(HI, {"role": "user", "content": parts})).afresh("look").entries
    assert (entry.content, entry.parts) == ("look", ({"type": "text", "text": "look"}, image))


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"stream": 1}, "stream"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"model": ["x"]}, "model"),
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
        ({"n": "1"}, "n"),
    ],
)
def test_a_wrong_member_is_named(members: Any, param: str) -> None:
    assert refused(body(HI, **members)).param == param


@pytest.mark.parametrize("members", [{"n": 1}, {"n": None}, {"stream": None}, {"stream_options": None}])
def test_members_that_say_the_usual_pass(members: Any) -> None:
    assert parse(body(HI, **members)).stream is False


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x",
        b"[]",
        b"7",
        b"null",
        b'{"messages": [',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    ],
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    assert refused(raw).code == "invalid_json"


@pytest.mark.parametrize("value", ["1e999", "9" * 5000])
def test_a_number_that_nothing_holds_is_refused_by_name(value: str) -> None:
    assert (
        refused(b'{"messages": [{"role": "user", "content": "x"}], "seed": ' + value.encode() + b"}").param
        == "seed"
    )


def test_what_a_client_tunes_is_passed_through_and_what_is_ours_is_not() -> None:
    request = parse(
        body(
            HI,
            model="m",
            stream=True,
            stream_options={"include_usage": True, "more": 1},
            n=1,
            user="u",
            store=True,
            metadata={"a": "b"},
            system="a forged one",
            temperature=0.5,
            response_format={"type": "json_object"},
            seed=None,
            unheard_of={"deep": [1, 2]},
        )
    )
    assert (request.model, request.stream, request.include_usage) == ("m", True, True)
    assert request.params == {
        "temperature": 0.5,
        "response_format": {"type": "json_object"},
        "unheard_of": {"deep": [1, 2]},
    }


def test_api_19_tools_are_passed_through_and_need_a_lane_that_takes_them() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    request = parse(body(HI, tools=tools, tool_choice="auto", parallel_tool_calls=False))
    assert request.params == {"tools": tools, "tool_choice": "auto", "parallel_tool_calls": False}
    assert request.needs == {Capability.TOOLS: "tools"}
    assert parse(body(HI, tools=[])).needs == parse(body(HI, tools=None)).needs == {}


def test_the_members_that_are_passed_through_are_bounded_together() -> None:
    half = "x" * (completion_request.MAX_PARAMS_BYTES // 2)
    assert "beside messages" in str(refused(body(HI, a=half, b=half)))


def test_a_huge_body_of_nothing_costs_no_more_than_reading_it() -> None:
    raw = b'{"messages": [' + b"{}," * 3_000_000 + b"{}]}"
    began = time.process_time()
    refused(raw)
    assert time.process_time() - began < 0.25


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "tool", 7]),
        "content": JSON,
        "tool_calls": JSON,
        "tool_call_id": st.sampled_from(["a", "", 7]),
    },
)


@given(st.lists(MESSAGE | JSON, max_size=4), st.dictionaries(st.text(max_size=12), JSON, max_size=4))
def test_whatever_json_comes_it_is_read_or_refused(messages: list[Any], members: dict[str, Any]) -> None:
    raw = json.dumps({**members, "messages": messages}).encode()
    with contextlib.suppress(ApiError):
        request = parse(raw)
        assert any(entry.role == "tool" or entry.content == request.said for entry in request.entries)
        assert msgspec.json.encode(request.params)


@given(st.binary(max_size=200))
def test_whatever_bytes_come_they_are_refused(raw: bytes) -> None:
    with pytest.raises(ApiError):
        parse(raw)
