"""The messages of a request: what is read of them, told apart, and refused by name."""

import json
from typing import Any

import pytest

from actors.messages.lane import Capability
from actors.messages.rows import Entry, ToolCall
from tests.transports.front.test_completion_request import HI, body, contents, refused
from transports.front import conversation
from transports.front.completion_request import parse

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "a", "content": "42"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
FILE = {"type": "file", "file": {"file_id": "f", "filename": "x.pdf"}}


# What is told apart


def test_leading_system_and_developer_messages_become_texts_beside() -> None:
    leading = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}]
    request = parse(body(*leading, {"role": "system", "content": "c"}, HI, user="u", developer="forged"))
    assert request.params == {"system": "a\n\nc", "developer": "b"}
    assert contents(request.entries) == [("user", "hi")] and request.seed == ()


def test_what_comes_after_the_last_answer_is_new_and_the_rest_is_history() -> None:
    request = parse(
        body(
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": "2"},
            {"role": "developer", "content": "3"},
            {"role": "user", "content": "4"},
            {"role": "system", "content": "5"},
            {"role": "user", "content": "6"},
        )
    )
    assert contents(request.seed) == [("user", "1"), ("assistant", "2")]
    assert contents(request.entries) == [("developer", "3"), ("user", "4"), ("system", "5"), ("user", "6")]


def test_a_note_after_the_users_message_does_not_hide_it() -> None:
    request = parse(body(HI, {"role": "system", "content": "be brief"}))
    assert request.said == "hi" and contents(request.entries) == [("user", "hi"), ("system", "be brief")]


# Tool calls


def test_api_19_calls_are_history_and_their_results_new_input() -> None:
    request = parse(body(HI, {**ASKS, "content": "let me see"}, TOLD))
    asked = Entry(
        role="assistant",
        content="let me see",
        tool_calls=(ToolCall(call_id="a", name="f", arguments="{"),),
    )
    assert request.seed == (Entry(role="user", content="hi"), asked)
    assert request.entries == (Entry(role="tool", content="42", tool_call_id="a"),)
    assert request.said == ""
    assert request.needs == {Capability.TOOLS: "messages[1].tool_calls"}


def test_api_19_results_alone_are_left_to_the_stored_history() -> None:
    request = parse(body({"role": "system", "content": "s"}, TOLD, {**TOLD, "tool_call_id": "b"}))
    assert [entry.tool_call_id for entry in request.entries] == ["a", "b"]
    assert request.needs == {Capability.TOOLS: "messages[1]"}


def test_api_19_a_person_may_speak_beside_a_result() -> None:
    assert parse(body(HI, ASKS, TOLD, {"role": "user", "content": "and?"})).said == "and?"


def test_a_result_of_long_ago_needs_no_call() -> None:
    assert parse(body(TOLD, {"role": "assistant", "content": "x"}, HI)).said == "hi"


def test_an_id_of_a_call_is_read_of_results_only() -> None:
    assert parse(body({**HI, "tool_call_id": "a"})).entries == (Entry(role="user", content="hi"),)


def calls(*changes: Any) -> Any:
    return {**ASKS, "tool_calls": [{**CALL, **change} for change in changes]}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([HI, ASKS, {**TOLD, "tool_call_id": "b"}], "messages[2].tool_call_id"),
        ([HI, ASKS, TOLD, {"role": "assistant", "content": "x"}, TOLD], "messages[4].tool_call_id"),
        ([HI, ASKS, {"role": "tool", "content": "x"}], "messages[2].tool_call_id"),
        ([HI, ASKS, {**TOLD, "tool_call_id": ""}], "messages[2].tool_call_id"),
        ([HI, ASKS, {**TOLD, "tool_call_id": 7}], "messages[2].tool_call_id"),
        ([HI, ASKS, {**TOLD, "content": None}], "messages[2].content"),
        ([HI, ASKS], "messages"),
        ([{**HI, "tool_calls": [CALL]}], "messages[0].tool_calls"),
        ([calls({"function": None}), TOLD], "messages[0].tool_calls[0].function.name"),
        (
            [calls({"function": {"name": "", "arguments": ""}}), TOLD],
            "messages[0].tool_calls[0].function.name",
        ),
        ([calls({"function": {"arguments": ""}}), TOLD], "messages[0].tool_calls[0].function"),
        (
            [calls({"function": {"name": "f", "arguments": {}}}), TOLD],
            "messages[0].tool_calls[0].function.arguments",
        ),
        ([calls({"type": "custom"}), TOLD], "messages[0].tool_calls[0]"),
        ([calls({"id": ""}), TOLD], "messages[0].tool_calls[0].id"),
        ([calls({}, {}), TOLD], "messages[0].tool_calls[1].id"),
        ([{**ASKS, "tool_calls": "x"}, TOLD], "messages[0].tool_calls"),
        ([{**ASKS, "content": 7}, TOLD], "messages[0].content"),
    ],
)
def test_wrong_calls_and_results_are_named(messages: Any, param: str) -> None:
    error = refused(body(*messages))
    assert error.param == param and (param == "messages" or str(error).startswith(param))


# Parts


def test_images_and_files_are_kept_as_they_were_written() -> None:
    parts = [{"type": "text", "text": "look", "cache_control": {}}, IMAGE, "here", FILE]
    request = parse(body(HI, {"role": "assistant", "content": "x"}, {"role": "user", "content": parts}))
    (entry,) = request.entries
    assert (entry.content, request.said) == ("look\nhere", "look\nhere")
    assert entry.parts == (parts[0], IMAGE, {"type": "text", "text": "here"}, FILE)
    assert request.seed[0].parts == ()
    assert request.needs == {
        Capability.IMAGES: "messages[2].content[1]",
        Capability.FILES: "messages[2].content[3]",
    }


def test_an_image_alone_is_a_message() -> None:
    (entry,) = parse(body({"role": "user", "content": [IMAGE]})).entries
    assert (entry.content, entry.parts) == ("", (IMAGE,))


@pytest.mark.parametrize("role", ["assistant", "system", "developer", "tool"])
def test_only_a_person_shows_images(role: str) -> None:
    message = {"role": role, "content": [IMAGE], "tool_call_id": "a"}
    error = refused(body(HI, message, HI))
    assert (error.code, error.param) == ("invalid_content", "messages[1].content[0]")


def test_text_parts_are_joined_by_newlines() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c", "cache_control": {}}]
    assert parse(body({"role": "user", "content": parts})).said == "a\nb\nc"


@pytest.mark.parametrize(
    ("content", "param"),
    [
        ({"type": "text", "text": "x"}, "messages[0].content"),
        (7, "messages[0].content"),
        (True, "messages[0].content"),
        (None, "messages[0].content"),
        ([], "messages[0].content"),
        ([7], "messages[0].content[0]"),
        ([{"text": "x"}], "messages[0].content[0]"),
        ([{"type": 7}], "messages[0].content[0].type"),
        ([{"type": "text"}], "messages[0].content[0].text"),
        ([{"type": "text", "text": 7}], "messages[0].content[0].text"),
        ([{"type": "input_audio", "input_audio": {}}], "messages[0].content[0]"),
        (["a", {"type": "image_url", "image_url": "http://h"}], "messages[0].content[1].image_url"),
        ([{"type": "image_url", "image_url": {}}], "messages[0].content[0].image_url"),
        ([{"type": "image_url", "image_url": {"url": 7}}], "messages[0].content[0].image_url.url"),
        ([{"type": "image_url"}], "messages[0].content[0].image_url"),
        ([{"type": "file", "file": "x"}], "messages[0].content[0].file"),
        ([{"type": "file", "file": None}], "messages[0].content[0].file"),
    ],
)
def test_other_content_is_refused_by_its_place(content: Any, param: str) -> None:
    error = refused(body({"role": "user", "content": content}))
    assert (error.code, error.param) == ("invalid_content", param)
    assert str(error).startswith(param)


@pytest.mark.parametrize("calls", [None, []])
def test_a_message_that_only_could_have_had_tool_calls_passes(calls: Any) -> None:
    assert parse(body({"role": "assistant", "content": "x", "tool_calls": calls}, HI)).said == "hi"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ("x", "messages"),
        (None, "messages"),
        ([], "messages"),
        ([7], "messages[0]"),
        ([HI, {"role": "user"}], "messages[1].content"),
        ([{"content": "x"}], "messages[0]"),
        ([{"role": "pope", "content": "x"}], "messages[0].role"),
        ([{"role": None, "content": "x"}], "messages[0].role"),
        ([{"role": "system", "content": "x"}], "messages"),
        ([HI, {"role": "assistant", "content": "x"}], "messages"),
    ],
)
def test_wrong_messages_are_named(messages: Any, param: str) -> None:
    assert refused(json.dumps({"messages": messages}).encode()).param == param


def test_the_number_of_messages_is_bounded() -> None:
    error = refused(body(*[HI] * (conversation.MAX_MESSAGES + 1)))
    assert error.param == "messages" and "more than" in str(error)
