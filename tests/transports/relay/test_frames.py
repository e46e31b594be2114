"""Frames are read leniently where the contract is open, exactly where it is not, and never with an exception."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.descriptor import LEGACY_OPS, Descriptor, LenUnit
from actors.messages.inbound import InboundEvent, Media, MessageType, PromptResponse, ReplyTo, Source
from transports.relay.frames import (
    DEEPEST,
    DescriptorFrame,
    Frame,
    GoingIdleAckFrame,
    GoingIdleFrame,
    HelloFrame,
    InboundAckFrame,
    InboundFrame,
    InterruptFrame,
    InterruptInboundFrame,
    OutboundFrame,
    OutboundResultFrame,
    PassthroughFrame,
    Rejected,
    Unknown,
    decode_line,
    descriptor_frame,
    encode,
    inbound_frame,
    to_descriptor,
    to_event,
)

quick = settings(max_examples=150, deadline=None)

SECRET = "what-nobody-may-see"

SOURCE = {
    "platform": "discord",
    "chat_id": "C1",
    "chat_type": "group",
    "chat_name": None,
    "user_id": "U1",
    "user_name": "ann",
    "thread_id": None,
    "chat_topic": None,
}
EVENT = {"text": "hi", "message_type": "text", "source": SOURCE}
DESCRIPTOR = {
    "contract_version": 1,
    "platform": "discord",
    "label": "Discord",
    "max_message_length": 2000,
    "supports_draft_streaming": False,
    "supports_edit": True,
    "supports_threads": True,
    "markdown_dialect": "discord",
    "len_unit": "chars",
}
FORWARD = {
    "platform": "discord",
    "botId": "bot-1",
    "method": "POST",
    "path": "/interactions",
    "headers": [["a", "1"], ["a", "2"]],
    "bodyB64": "eyJ0eXBlIjoyff8=",
}
EXAMPLES: dict[type, dict[str, Any]] = {
    HelloFrame: {"type": "hello", "platform": "discord", "botId": "bot-1"},
    DescriptorFrame: {"type": "descriptor", "descriptor": DESCRIPTOR},
    InboundFrame: {"type": "inbound", "event": EVENT, "bufferId": "b-1"},
    InboundAckFrame: {"type": "inbound_ack", "bufferId": "b-1"},
    OutboundFrame: {
        "type": "outbound",
        "requestId": "r1",
        "action": {"op": "send", "chat_id": "C1", "content": "x", "reply_to": None, "metadata": {}},
        "platform": "discord",
        "botId": "bot-1",
    },
    OutboundResultFrame: {
        "type": "outbound_result",
        "requestId": "r1",
        "result": {"success": True, "message_id": "m-1"},
    },
    InterruptFrame: {"type": "interrupt", "session_key": "agent:main:discord:group:C1:U1", "reason": None},
    InterruptInboundFrame: {
        "type": "interrupt_inbound",
        "session_key": "agent:main:discord:group:C1:U1",
        "chat_id": "C1",
    },
    GoingIdleFrame: {"type": "going_idle"},
    GoingIdleAckFrame: {"type": "going_idle_ack"},
    PassthroughFrame: {"type": "passthrough_forward", "forward": FORWARD, "bufferId": "pb-1"},
}


def read(frame: dict[str, Any]) -> Frame | Unknown | Rejected:
    return decode_line(json.dumps(frame))


def event_of(event: dict[str, Any]) -> InboundEvent:
    frame = read({"type": "inbound", "event": event})
    assert isinstance(frame, InboundFrame), frame
    return to_event(frame)


def descriptor_of(**changes: Any) -> Descriptor:
    frame = read({"type": "descriptor", "descriptor": DESCRIPTOR | changes})
    assert isinstance(frame, DescriptorFrame), frame
    return to_descriptor(frame)


# Every frame


@pytest.mark.parametrize("shape", EXAMPLES)
def test_each_frame_is_read_and_written_as_the_contract_has_it(shape: type) -> None:
    frame = read(EXAMPLES[shape])
    assert isinstance(frame, shape)
    written = encode(frame)
    assert written.endswith("\n")
    assert "\n" not in written[:-1]
    assert decode_line(written) == frame
    back = json.loads(written)
    if shape is DescriptorFrame:
        back["descriptor"] = {name: back["descriptor"][name] for name in DESCRIPTOR}
    assert back == EXAMPLES[shape]


@pytest.mark.parametrize("shape", EXAMPLES)
def test_bytes_are_read_like_text(shape: type) -> None:
    line = json.dumps(EXAMPLES[shape])
    assert decode_line(line.encode()) == decode_line(line) == decode_line(line + "\r")


@pytest.mark.parametrize("shape", EXAMPLES)
def test_unknown_fields_are_ignored(shape: type) -> None:
    assert read(EXAMPLES[shape] | {"from_the_future": {"a": [1]}}) == read(EXAMPLES[shape])


@pytest.mark.parametrize(
    ("shape", "field"),
    [(shape, field) for shape, example in EXAMPLES.items() for field in example if field != "type"],
)
def test_a_wrong_field_is_named(shape: type, field: str) -> None:
    rejected = read(EXAMPLES[shape] | {field: [SECRET]})
    assert isinstance(rejected, Rejected)
    assert (rejected.field, rejected.type) == (field, EXAMPLES[shape]["type"])
    assert rejected.reason == f"wrong field {field}"
    assert not rejected.fatal


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (HelloFrame, "platform"),
        (HelloFrame, "botId"),
        (InboundFrame, "event"),
        (InboundAckFrame, "bufferId"),
        (OutboundFrame, "requestId"),
        (OutboundFrame, "action"),
        (OutboundResultFrame, "requestId"),
        (OutboundResultFrame, "result"),
        (InterruptFrame, "session_key"),
        (InterruptInboundFrame, "session_key"),
        (PassthroughFrame, "forward"),
    ],
)
def test_a_missing_field_is_named(shape: type, field: str) -> None:
    absent = read({name: value for name, value in EXAMPLES[shape].items() if name != field})
    null = read(EXAMPLES[shape] | {field: None})
    assert isinstance(absent, Rejected)
    assert absent.reason == f"missing field {field}"
    assert absent == null


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not JSON"),
        ("this is not json", "not JSON"),
        ('{"type":"hello"', "not JSON"),
        ('{"type":"hello"} x', "not JSON"),
        ("\ufeff{}", "not JSON"),
        ('{"type":"going_idle","x":NaN}', "not JSON"),
        ("[]", "not an object"),
        ("null", "not an object"),
        ('"hello"', "not an object"),
        ("{}", "missing field type"),
        ('{"type":5}', "wrong field type"),
        ('{"type":null}', "wrong field type"),
        ('{"type":["hello"]}', "wrong field type"),
    ],
)
def test_what_is_no_frame_is_rejected(line: str, reason: str) -> None:
    rejected = decode_line(line)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == reason


def test_a_frame_of_another_time_is_unknown() -> None:
    assert read({"type": "from_the_future", "event": 5}) == Unknown("from_the_future")
    assert read({"type": ""}) == Unknown("")
    assert read({"type": "x" * 1000}) == Unknown("x" * 64)


# What hostile peers send


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"going_idle","x":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"type":"outbound","requestId":"r","action":{"op":"send","x":'
        + '{"a":' * 5000
        + "1"
        + "}" * 5000
        + "}}",
        '{"type":"outbound","requestId":"r","action":{"op":"send","x":' + "9" * 5000 + "}}",
        '{"type":"outbound","requestId":"r","action":{"op":"send","x":1e999}}',
        '{"type":"inbound","event":{"source":{"platform":"d","chat_id":' + "9" * 5000 + "}}}",
        '{"type":"inbound","event":{"source":{"platform":"d","chat_id":1e3}}}',
        '{"type":"inbound","event":{"source":{"platform":"d","chat_id":true}}}',
        '{"type":"inbound","event":{"source":{"platform":""}}}',
        '{"type":"hello","platform":"d","botId":"\ud800"}',
        b'{"type":"hello","platform":"d","botId":"\xff"}',
        b"\xff\xfe\x00",
        "\x00",
    ],
)
def test_a_hostile_line_is_rejected_and_never_repeated(line: str | bytes) -> None:
    rejected = decode_line(line)
    assert isinstance(rejected, Rejected)
    assert len(rejected.reason) < 100


def test_open_objects_may_be_nested_as_deep_as_they_can_be_written_again() -> None:
    def outbound(depth: int) -> Frame | Unknown | Rejected:
        return read({"type": "outbound", "requestId": "r", "action": {"op": "send", "x": nested(depth)}})

    assert isinstance(outbound(DEEPEST - 1), OutboundFrame)
    rejected = outbound(DEEPEST)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "nested too deep"
    result = read({"type": "outbound_result", "requestId": "r", "result": {"x": nested(DEEPEST)}})
    assert isinstance(result, Rejected)
    assert result.field == "result"


def test_values_are_never_repeated() -> None:
    for frame in (
        {"type": "descriptor", "descriptor": DESCRIPTOR | {"len_unit": f"` - at `$.{SECRET}`"}},
        {"type": "inbound", "event": {"source": {"platform": [SECRET]}}},
        {"type": "outbound", "requestId": "r", "action": {SECRET: 1}},
        {"type": "passthrough_forward", "forward": FORWARD | {"bodyB64": SECRET}},
    ):
        rejected = read(frame)
        assert isinstance(rejected, Rejected)
        assert rejected.field
        assert SECRET not in repr(rejected)


def test_half_an_emoji_does_not_cost_the_message() -> None:
    line = json.dumps({"type": "inbound", "event": EVENT | {"text": "@"}})
    frame = decode_line(line.replace("@", r"cut \ud83d and \ude00, whole \uD83D\uDE00, not \\ud83d"))
    assert isinstance(frame, InboundFrame)
    assert to_event(frame).text == r"cut � and �, whole 😀, not \ud83d"


def test_a_nul_is_a_character() -> None:
    assert event_of(EVENT | {"text": "a\0b"}).text == "a\0b"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@quick
@given(st.binary(max_size=80) | st.text(max_size=80) | json_values.map(json.dumps))
def test_no_line_raises(line: bytes | str) -> None:
    assert isinstance(decode_line(line), Frame | Unknown | Rejected)


@quick
@given(st.sampled_from(list(EXAMPLES.values())), st.data())
def test_no_mutilated_frame_raises(example: dict[str, Any], data: st.DataObject) -> None:
    frame = json.loads(json.dumps(example))
    place = frame
    while True:
        name = data.draw(
            st.sampled_from(sorted(place)) | st.sampled_from(["context", "media", "reply_to", "source"])
        )
        if isinstance(place.get(name), dict) and place[name] and data.draw(st.booleans()):
            place = place[name]
            continue
        place[name] = data.draw(json_values)
        break
    line = json.dumps(frame)
    cut = data.draw(st.integers(0, len(line)))
    for text in (line, line[:cut]):
        read_frame = decode_line(text)
        match read_frame:
            case InboundFrame():
                to_event(read_frame)
            case DescriptorFrame():
                to_descriptor(read_frame)
            case Rejected():
                assert len(read_frame.reason) < 100
                continue
            case Unknown():
                continue
        assert decode_line(encode(read_frame)) == read_frame


# hello, outbound and results


def test_a_command_manifest_never_affects_the_handshake() -> None:
    assert read(EXAMPLES[HelloFrame] | {"command_manifest": "garbage"}) == read(EXAMPLES[HelloFrame])


def test_an_action_is_passed_on_as_it_came() -> None:
    action = {"op": "from_the_future", "chat_id": 5, "metadata": {"thread_id": 7, "x": [None, 2**80]}}
    frame = read({"type": "outbound", "requestId": "r", "action": action, "botId": 9})
    assert isinstance(frame, OutboundFrame)
    assert frame.action == action
    assert frame.bot_id == "9"
    assert not frame.platform
    assert json.loads(encode(frame))["action"] == action


@pytest.mark.parametrize(("op", "word"), [({}, "missing"), ({"op": None}, "missing"), ({"op": 5}, "wrong")])
def test_an_action_needs_an_op(op: dict[str, Any], word: str) -> None:
    rejected = read({"type": "outbound", "requestId": "r", "action": op})
    assert isinstance(rejected, Rejected)
    assert rejected.reason == f"{word} field action.op"


def test_optional_fields_are_left_out_when_written() -> None:
    frame = OutboundFrame(request_id="r", action={"op": "send"})
    assert encode(frame) == '{"type":"outbound","requestId":"r","action":{"op":"send"}}\n'


@pytest.mark.parametrize("success", ["yes", 1, None])
def test_success_is_true_or_false(success: object) -> None:
    rejected = read({"type": "outbound_result", "requestId": "r", "result": {"success": success}})
    assert isinstance(rejected, Rejected)
    assert rejected.field == "result.success"


def test_a_chats_info_may_come_without_success() -> None:
    frame = read(
        {"type": "outbound_result", "requestId": "r", "result": {"name": "general", "type": "group"}}
    )
    assert isinstance(frame, OutboundResultFrame)


def test_a_webhook_keeps_its_headers_and_its_bytes() -> None:
    frame = read(EXAMPLES[PassthroughFrame])
    assert isinstance(frame, PassthroughFrame)
    assert frame.forward.headers == (("a", "1"), ("a", "2"))
    assert frame.forward.body == b'{"type":2}\xff'


# descriptor


@pytest.mark.parametrize("field", DESCRIPTOR)
def test_a_descriptor_without_a_required_field_is_fatal(field: str) -> None:
    given = {name: value for name, value in DESCRIPTOR.items() if name != field}
    rejected = read({"type": "descriptor", "descriptor": given})
    assert isinstance(rejected, Rejected)
    assert rejected.fatal
    assert rejected.reason == f"missing field descriptor.{field}"


def test_a_descriptor_frame_without_a_descriptor_is_fatal() -> None:
    rejected = read({"type": "descriptor"})
    assert isinstance(rejected, Rejected)
    assert rejected.fatal


@pytest.mark.parametrize(
    ("field", "value"), [("label", 5), ("len_unit", "graphemes"), ("supports_edit", "yes"), ("pii_safe", 1)]
)
def test_a_wrong_field_of_a_descriptor_is_skipped_like_any_other(field: str, value: object) -> None:
    rejected = read({"type": "descriptor", "descriptor": DESCRIPTOR | {field: value}})
    assert isinstance(rejected, Rejected)
    assert not rejected.fatal
    assert rejected.field == f"descriptor.{field}"


def test_a_descriptor_is_understood() -> None:
    assert descriptor_of(emoji=None, len_unit="utf16", unknown=42) == Descriptor(
        platform="discord",
        label="Discord",
        max_message_length=2000,
        supports_edit=True,
        supports_threads=True,
        markdown_dialect="discord",
        len_unit=LenUnit.UTF16,
    )


@pytest.mark.parametrize("garbage", [0, -1, None, "many", [], 1.5])
def test_a_useless_length_is_4096(garbage: object) -> None:
    assert descriptor_of(max_message_length=garbage).max_message_length == 4096


@pytest.mark.parametrize("ops", [None, [], "send", {}, [5, None]])
def test_without_usable_ops_the_legacy_ones_are_meant(ops: object) -> None:
    assert descriptor_of(supported_ops=ops).supported_ops == LEGACY_OPS


def test_ops_that_are_no_texts_are_dropped() -> None:
    assert descriptor_of(supported_ops=["send", 5, "react"]).supported_ops == ("send", "react")


descriptors = st.builds(
    Descriptor,
    platform=st.text(st.characters(codec="utf-8"), min_size=1, max_size=9),
    label=st.text(st.characters(codec="utf-8"), max_size=9),
    max_message_length=st.integers(-5, 10**6),
    supports_edit=st.booleans(),
    len_unit=st.sampled_from(LenUnit),
    emoji=st.none() | st.just("🔌"),
    pii_safe=st.booleans(),
    supported_ops=st.lists(st.sampled_from(["send", "edit", "draft"])).map(tuple),
)


@quick
@given(descriptors)
def test_a_descriptor_that_is_written_says_the_same(descriptor: Descriptor) -> None:
    frame = decode_line(encode(descriptor_frame(descriptor)))
    assert isinstance(frame, DescriptorFrame)
    assert to_descriptor(frame) == descriptor


# inbound


def test_an_event_is_understood() -> None:
    event = event_of(
        EVENT
        | {
            "message_type": "photo",
            "message_id": "m1",
            "reply_to_message_id": "m0",
            "reply_to": {"text": "what?", "is_own": True},
            "media_urls": ["https://x/1"],
            "media": [{"url": "https://x/1", "mime": "image/png", "size": 12, "caption": None}],
            "context_error": True,
            "prompt_response": {"prompt_id": "p", "option_id": "yes"},
        }
    )
    assert event == InboundEvent(
        source=Source(platform="discord", chat_id="C1", chat_type="group", user_id="U1", user_name="ann"),
        text="hi",
        message_type=MessageType.PHOTO,
        message_id="m1",
        reply_to_message_id="m0",
        reply_to=ReplyTo(text="what?", is_own=True),
        media_urls=("https://x/1",),
        media=(Media(url="https://x/1", mime="image/png", size=12),),
        context_error=True,
        prompt_response=PromptResponse(prompt_id="p", option_id="yes"),
    )


def test_an_event_with_nothing_but_its_platform_is_one() -> None:
    bare = InboundEvent(source=Source(platform="discord", chat_id="", chat_type="dm"))
    assert event_of({"source": {"platform": "discord"}}) == bare
    nulls = {"text": None, "message_type": None, "media": None, "media_urls": None, "context": None}
    more = {"message_id": None, "reply_to": None, "context_error": None, "prompt_response": None}
    source = {"platform": "discord", "chat_id": None, "chat_type": None, "auto_thread_created": None}
    assert event_of(nulls | more | {"source": source}) == bare


def test_trust_marks_never_come_off_the_wire() -> None:
    marks = {"is_bot": True, "role_authorized": True, "delivered_via_upstream_relay": True}
    assert event_of(EVENT | {"source": SOURCE | marks} | marks) == event_of(EVENT)


@pytest.mark.parametrize("kind", ["from_the_future", "", "TEXT"])
def test_an_unknown_message_type_is_text(kind: str) -> None:
    assert event_of(EVENT | {"message_type": kind}).message_type is MessageType.TEXT


def test_ids_may_be_numbers() -> None:
    ids = [
        "chat_id",
        "user_id",
        "thread_id",
        "scope_id",
        "user_id_alt",
        "message_id",
        "prospective_thread_id",
    ]
    source = event_of(EVENT | {"message_id": 2**60, "source": SOURCE | dict.fromkeys(ids, -100)})
    assert source.message_id == str(2**60)
    assert {getattr(source.source, name) for name in ids} == {"-100"}
    stop = read({"type": "interrupt_inbound", "session_key": "k", "chat_id": 99})
    assert stop == InterruptInboundFrame(session_key="k", chat_id="99")
    buffered = read({"type": "inbound", "event": EVENT, "bufferId": 7})
    assert isinstance(buffered, InboundFrame)
    assert buffered.buffer_id == "7"


def test_only_ids_may_be_numbers() -> None:
    rejected = read({"type": "inbound", "event": EVENT | {"source": SOURCE | {"chat_id": 1, "user_name": 5}}})
    assert isinstance(rejected, Rejected)
    assert rejected.field == "event.source.user_name"


def test_an_empty_id_is_none() -> None:
    source = event_of(EVENT | {"message_id": "", "source": SOURCE | {"user_id": "", "scope_id": ""}})
    assert source.message_id is None
    assert source.source.user_id is None
    assert source.source.scope_id is None


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ({"user_display_name": "Ann B.", "user_handle": "ann#1"}, "Ann B."),
        ({"user_display_name": None}, "ann"),
        ({"user_name": None, "user_handle": "ann#1"}, "ann#1"),
    ],
)
def test_the_name_for_people_wins(names: dict[str, Any], shown: str) -> None:
    assert event_of(EVENT | {"source": SOURCE | names}).source.user_name == shown


def test_context_is_read_as_far_as_it_can_be() -> None:
    before = {"text": "before", "source": SOURCE | {"user_id": 7}, "context": [EVENT]}
    event = event_of(EVENT | {"context": [before, 5, {"text": "no source"}, {"text": 5, "source": SOURCE}]})
    (only,) = event.context
    assert (only.text, only.source.user_id, only.context) == ("before", "7", ())
    assert event_of(EVENT | {"context": "garbage"}).context == ()


def test_a_source_is_written_with_what_the_contract_calls_always_present() -> None:
    event = InboundEvent(source=Source(platform="discord", chat_id="C1"), text="hi")
    assert json.loads(encode(inbound_frame(event))) == {
        "type": "inbound",
        "event": {
            "text": "hi",
            "message_type": "text",
            "source": dict.fromkeys(SOURCE) | {"platform": "discord", "chat_id": "C1", "chat_type": "dm"},
        },
    }


ids = st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
sources = st.builds(
    Source,
    platform=st.just("discord"),
    chat_id=st.text(st.characters(codec="utf-8"), max_size=5),
    user_id=ids,
    user_name=ids,
    thread_id=ids,
    user_id_alt=ids,
    scope_id=ids,
    profile=ids,
    auto_thread_created=st.booleans(),
    prospective_thread_id=ids,
)
plain_events = st.builds(
    InboundEvent, source=sources, text=st.text(st.characters(codec="utf-8"), max_size=9), message_id=ids
)
events = st.builds(
    InboundEvent,
    source=sources,
    text=st.text(st.characters(codec="utf-8"), max_size=9),
    message_type=st.sampled_from(MessageType),
    message_id=ids,
    reply_to=st.none() | st.builds(ReplyTo, text=ids, is_own=st.none() | st.booleans()),
    media_urls=st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=2).map(tuple),
    media=st.lists(st.builds(Media, url=st.just("u"), size=st.none() | st.integers(0, 9)), max_size=2).map(
        tuple
    ),
    context=st.lists(plain_events, max_size=2).map(tuple),
    context_error=st.booleans(),
    prompt_response=st.none()
    | st.builds(PromptResponse, prompt_id=st.just("p"), option_id=st.just("o"), label=ids),
)


@quick
@given(events, ids)
def test_an_event_that_is_written_says_the_same(event: InboundEvent, buffer_id: str | None) -> None:
    frame = decode_line(encode(inbound_frame(event, buffer_id)))
    assert isinstance(frame, InboundFrame)
    assert to_event(frame) == event
    assert (frame.buffer_id or None) == buffer_id
