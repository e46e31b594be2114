"""The wire copy of a conversation: whatever the history, the body is one that a backend can take."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import Capability, LaneTraits
from actors.messages.rows import Entry, ToolCall
from transports.backends.answers import answered
from transports.backends.folding import NOTE
from transports.backends.preparation import (
    UNNAMED,
    FilesNotTaken,
    ImagesNotTaken,
    ToolsNotTaken,
    UnknownPart,
    prepare,
)

EVERYTHING = frozenset(Capability)
IMAGE = {"type": "image_url", "image_url": {"url": "http://h/i.png", "detail": "low"}}
FILE = {"type": "file", "file": {"file_id": "f"}}
TEXT = {"type": "text", "text": "look"}
CALL = ToolCall(call_id="a", name="f", arguments='{"n": 1}')


def traits(capabilities=EVERYTHING):
    return LaneTraits(
        name="main", kind="openai", model="m", backend="http://h", capabilities=frozenset(capabilities)
    )


def body(entries, capabilities=EVERYTHING, **params):
    return json.loads(prepare(entries, params, traits(capabilities)))


def messages(*entries, without=(), **params):
    return body(entries, EVERYTHING - set(without), **params)["messages"]


HI = Entry(role="user", content="hi")


def test_the_body_is_the_conversation_and_what_the_client_passes_through():
    assert body(
        [HI], tools=[{"type": "function"}], temperature=0, response_format={"type": "json_object"}
    ) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function"}],
        "temperature": 0,
        "response_format": {"type": "json_object"},
    }


def test_what_is_the_lanes_own_to_say_no_client_sets():
    own = {"model": "x", "stream": False, "stream_options": {}, "messages": [], "n": 3}
    assert body([HI], **own) == body([HI])


def test_leading_texts_come_first():
    assert messages(HI, system="S", developer="D") == [
        {"role": "system", "content": "S"},
        {"role": "developer", "content": "D"},
        {"role": "user", "content": "hi"},
    ]
    assert messages(system="") == [{"role": "system", "content": ""}]
    assert messages(HI, system=None) == messages(HI)
    with pytest.raises(TypeError):
        messages(HI, system=5)


def test_a_lane_without_the_developers_role_gets_it_as_the_systems():
    made = messages(HI, Entry(role="developer", content="x"), without=[Capability.DEVELOPER], developer="D")
    assert [message["role"] for message in made] == ["system", "user", "system"]


def test_trn_40_a_lane_that_can_keeps_system_messages_where_they_are():
    entries = [HI, Entry(role="system", content="⟦noon⟧"), HI]
    assert messages(*entries) == [{"role": e.role, "content": e.content} for e in entries]


def test_trn_40_a_lane_that_cannot_gets_them_folded():
    noon = Entry(role="system", content="noon")
    made = messages(HI, noon, HI, without=[Capability.SYSTEM_ANYWHERE], system="S")
    assert [message["role"] for message in made] == ["system", "user", "user"]
    assert made[0]["content"] == f"S\n\n{NOTE}"
    assert "noon" in made[2]["content"]


def test_tool_calls_and_their_answers():
    asks = Entry(
        role="assistant", content="", tool_calls=(CALL, ToolCall(call_id="b", name="", arguments="bad"))
    )
    assert messages(HI, asks, Entry(role="tool", content="42", tool_call_id="a")) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}},
                {
                    "id": "b",
                    "type": "function",
                    "function": {"name": UNNAMED, "arguments": '{"unparsed":"bad"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "42"},
        {"role": "tool", "tool_call_id": "b", "content": "cancelled, outcome unknown"},
    ]
    assert asks.tool_calls[1].arguments == "bad"


def test_parts_pass_through_as_they_were_written():
    look = Entry(role="user", content="look", parts=(TEXT, IMAGE, FILE))
    assert messages(look) == [{"role": "user", "content": [TEXT, IMAGE, FILE]}]


@pytest.mark.parametrize(
    ("lacks", "entries", "params", "fault"),
    [
        (Capability.IMAGES, [Entry(role="user", content="", parts=(TEXT, IMAGE))], {}, ImagesNotTaken),
        (Capability.FILES, [Entry(role="user", content="", parts=(FILE,))], {}, FilesNotTaken),
        (Capability.TOOLS, [HI], {"tools": [{}]}, ToolsNotTaken),
        (Capability.TOOLS, [Entry(role="assistant", content="", tool_calls=(CALL,)), HI], {}, ToolsNotTaken),
        (None, [Entry(role="user", content="", parts=({"type": "input_audio"},))], {}, UnknownPart),
        (None, [Entry(role="user", content="", parts=({"type": ["text"]},))], {}, UnknownPart),
        (None, [Entry(role="user", content="", parts=({},))], {}, UnknownPart),
    ],
)
def test_trn_41_what_the_lane_does_not_take_is_a_fault(lacks, entries, params, fault):
    with pytest.raises(fault):
        body(entries, EVERYTHING - {lacks}, **params)
    if lacks is not None:
        body(entries, EVERYTHING, **params)


# Whatever the history

TEXTS = st.text("ab⟦⟧ \n", max_size=6)
IDS = st.sampled_from(["a", "b", "c", ""])
ARGUMENTS = st.sampled_from(["", "{}", '{"x":1}', "{", "[]", '{"x":"\\u27e6"}', "⟦"])
CALLS = st.lists(st.builds(ToolCall, call_id=IDS, name=TEXTS, arguments=ARGUMENTS), max_size=3).map(tuple)
PARTS = st.lists(st.sampled_from([TEXT, IMAGE, FILE, {"type": "text", "text": "⟦"}]), max_size=3).map(tuple)
ENTRIES = st.lists(
    st.builds(Entry, role=st.sampled_from(["system", "developer"]), content=TEXTS)
    | st.builds(Entry, role=st.just("user"), content=TEXTS, parts=PARTS)
    | st.builds(Entry, role=st.just("assistant"), content=TEXTS, tool_calls=CALLS)
    | st.builds(Entry, role=st.just("tool"), content=TEXTS, tool_call_id=IDS | st.none()),
    max_size=12,
)
LEADING = st.fixed_dictionaries({}, optional={"system": TEXTS, "developer": TEXTS})


@given(
    ENTRIES,
    LEADING,
    st.sets(st.sampled_from([Capability.SYSTEM_ANYWHERE, Capability.DEVELOPER])),
)
def test_whatever_the_history_the_body_is_valid(entries, leading, lacks):
    made = messages(*entries, without=lacks, **leading)
    roles = {message["role"] for message in made}
    assert roles <= {"system", "user", "assistant", "tool"} | (
        set() if Capability.DEVELOPER in lacks else {"developer"}
    )
    assert every_call_is_answered_once(made)
    for message in made:
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            assert call["function"]["name"]
    if Capability.SYSTEM_ANYWHERE in lacks:
        privileged = [n for n, message in enumerate(made) if message["role"] in ("system", "developer")]
        assert privileged in ([], [0])
        texts = json.dumps(made, ensure_ascii=False)
        if NOTE in texts:
            fences = texts.replace(NOTE, "").count("⟦system message⟧")
            mid = itertools.dropwhile(lambda e: e.role in ("system", "developer"), answered(entries))
            assert fences == sum(entry.role in ("system", "developer") for entry in mid)
            assert texts.replace(NOTE, "").count("⟦") == 2 * fences


def every_call_is_answered_once(made):
    """Read the messages as a strict backend does."""
    due = []
    for message in made:
        if message["role"] == "tool":
            if message["tool_call_id"] not in due:
                return False
            due.remove(message["tool_call_id"])
        elif due:
            return False
        calls = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(calls)) < len(calls):
            return False
        due += calls
    return not due


@given(ENTRIES, LEADING)
def test_nothing_that_was_said_is_lost_but_answers_to_nothing(entries, leading):
    """A lane that takes everything gets every message that is no tool's, once."""
    made = messages(*entries, **leading)
    count = sum(entry.role != "tool" for entry in entries) + len(leading)
    assert sum(message["role"] != "tool" for message in made) == count


@given(ENTRIES, LEADING)
def test_trn_42_the_stored_history_stays_as_it_was(entries, leading):
    before = repr(entries)
    messages(*entries, without=[Capability.SYSTEM_ANYWHERE, Capability.DEVELOPER], **leading)
    assert repr(entries) == before
