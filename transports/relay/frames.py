"""
The frames of the relay wire: one JSON object a line (relay.md, section 2).

Reading never raises and never repeats what it read: a line is a frame, a frame of a type that is unknown here, or
rejected with the name of the field that is wrong. Unknown fields are ignored.
"""

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
from msgspec import UNSET

from actors.messages.descriptor import Descriptor
from actors.messages.inbound import InboundEvent
from transports.relay.descriptor_shape import DescriptorShape
from transports.relay.event_shape import EventShape, Name, Sometimes, spell_ids

DEEPEST = 64
"""Levels of nesting within an open object. It has to be written again by code that recurses."""

_LONGEST_TYPE = 64


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Any frame."""


class HelloFrame(_Frame, frozen=True, kw_only=True, tag="hello"):
    """
    gateway → connector: one identity. The first is the session default.

    Its command_manifest is an unknown field to us: an enrichment that must never affect the handshake.
    """

    platform: Name
    bot_id: str = msgspec.field(name="botId")


class DescriptorFrame(_Frame, frozen=True, kw_only=True, tag="descriptor"):
    """connector → gateway: the answer to a hello, or a connector's first word."""

    descriptor: DescriptorShape


class InboundFrame(_Frame, frozen=True, kw_only=True, tag="inbound"):
    """connector → gateway: a user's message. With a buffer id it has to be acknowledged."""

    event: EventShape
    buffer_id: Sometimes = msgspec.field(name="bufferId", default=UNSET)


class InboundAckFrame(_Frame, frozen=True, kw_only=True, tag="inbound_ack"):
    """gateway → connector: the message is kept."""

    buffer_id: str = msgspec.field(name="bufferId")


class OutboundFrame(_Frame, frozen=True, kw_only=True, tag="outbound"):
    """gateway → connector: an action, an open object with an ``op``."""

    request_id: str = msgspec.field(name="requestId")
    action: dict[str, Any]
    platform: Sometimes = UNSET
    bot_id: Sometimes = msgspec.field(name="botId", default=UNSET)


class OutboundResultFrame(_Frame, frozen=True, kw_only=True, tag="outbound_result"):
    """connector → gateway: what became of an action, an open object whose ``success`` is true or false."""

    request_id: str = msgspec.field(name="requestId")
    result: dict[str, Any]


class InterruptFrame(_Frame, frozen=True, kw_only=True, tag="interrupt"):
    """gateway → connector: a turn is to stop. Null is a reason, too."""

    session_key: str
    reason: str | None = None


class InterruptInboundFrame(_Frame, frozen=True, kw_only=True, tag="interrupt_inbound"):
    """connector → gateway: stop exactly that session's turn."""

    session_key: str
    chat_id: str | None = None


class GoingIdleFrame(_Frame, frozen=True, kw_only=True, tag="going_idle"):
    """gateway → connector: buffer for me from now on."""


class GoingIdleAckFrame(_Frame, frozen=True, kw_only=True, tag="going_idle_ack"):
    """connector → gateway: done."""


class Forward(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook's request. Headers keep their order and duplicates; the body is exact."""

    platform: Name
    bot_id: str = msgspec.field(name="botId")
    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = msgspec.field(name="bodyB64", default=b"")
    profile: Sometimes = UNSET


class PassthroughFrame(_Frame, frozen=True, kw_only=True, tag="passthrough_forward"):
    """connector → gateway: a webhook that the connector has answered already."""

    forward: Forward
    buffer_id: Sometimes = msgspec.field(name="bufferId", default=UNSET)


Frame = (
    HelloFrame
    | DescriptorFrame
    | InboundFrame
    | InboundAckFrame
    | OutboundFrame
    | OutboundResultFrame
    | InterruptFrame
    | InterruptInboundFrame
    | GoingIdleFrame
    | GoingIdleAckFrame
    | PassthroughFrame
)


class Unknown(msgspec.Struct, frozen=True):
    """A frame of a type that is not known here: from a newer peer, to be ignored."""

    type: str
    """Shortened, if it is long."""


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is no frame, to be skipped and counted."""

    reason: str
    """Names the field, never its value; short enough for a close frame."""
    field: str = ""
    """The path of the field that is wrong or missing."""
    type: str = ""
    """The frame's type, if it was a known one."""
    fatal: bool = False
    """A descriptor lacks a required field: close with 4400, as no handshake can come of it."""


def decode_line(line: bytes | str) -> Frame | Unknown | Rejected:
    """Read one line."""
    data = line.encode(errors="surrogatepass") if isinstance(line, str) else line
    try:
        frame = _DECODER.decode(data)
    except (ValueError, RecursionError):
        return _look_closer(data)
    return _check(frame)


def encode(frame: Frame) -> str:
    """Return the frame's line, with its newline."""
    return _ENCODER.encode(frame).decode() + "\n"


def to_event(frame: InboundFrame) -> InboundEvent:
    """Return the message in the frame as actors know it."""
    return frame.event.to_event()


def inbound_frame(event: InboundEvent, buffer_id: str | None = None) -> InboundFrame:
    """Return the frame that carries a message."""
    return InboundFrame(event=EventShape.of(event), buffer_id=buffer_id or UNSET)


def to_descriptor(frame: DescriptorFrame) -> Descriptor:
    """Return the capabilities in the frame as actors know them."""
    return frame.descriptor.to_descriptor()


def descriptor_frame(descriptor: Descriptor) -> DescriptorFrame:
    """Return the frame that carries a platform's capabilities."""
    return DescriptorFrame(descriptor=DescriptorShape.of(descriptor))


_DECODER = msgspec.json.Decoder(Frame)
_ENCODER = msgspec.json.Encoder()
_TYPES = frozenset(shape.__struct_config__.tag for shape in get_args(Frame))
_OPEN_OBJECTS = ("action", "result")

_MISSING = re.compile(r"Object missing required field `(\w+)`")
_PATH = re.compile(r" - at `\$\.?([^`]*)`\Z")
_ESCAPE = re.compile(
    rb"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|(\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2})|\\."
)


def _look_closer(data: bytes) -> Frame | Unknown | Rejected:
    # What the fast way did not take may still be good: an id that is a number, half an emoji where a text was cut.
    try:
        value = msgspec.json.decode(_mend(data))
    except RecursionError:
        return Rejected(reason="nested too deep")
    except ValueError:
        return Rejected(reason="not JSON")
    if not isinstance(value, dict):
        return Rejected(reason="not an object")
    kind = value.get("type")
    if not isinstance(kind, str):
        return Rejected(reason="wrong field type" if "type" in value else "missing field type", field="type")
    if kind not in _TYPES:
        return Unknown(kind[:_LONGEST_TYPE])
    # Open objects are passed on as they came.
    open_objects = {name: value.pop(name) for name in _OPEN_OBJECTS if name in value}
    spell_ids(value)
    try:
        return _check(msgspec.convert(value | open_objects, Frame))
    except msgspec.ValidationError as error:
        return _reject(kind, str(error))


def _mend(data: bytes) -> bytes:
    """Replace escapes of single surrogates, which stand for no character."""
    if rb"\u" not in data:
        return data
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], data)


def _check(frame: Frame) -> Frame | Rejected:
    """Look at the parts of open objects that have a meaning for everybody."""
    if isinstance(frame, OutboundFrame):
        if not isinstance(frame.action.get("op"), str):
            return _wrong("outbound", "action.op", missing=frame.action.get("op") is None)
        if _too_deep(frame.action):
            return Rejected(reason="nested too deep", field="action", type="outbound")
    elif isinstance(frame, OutboundResultFrame):
        # Absent is legal: some connectors answer get_chat_info with the bare chat.
        if not isinstance(frame.result.get("success", False), bool):
            return _wrong("outbound_result", "result.success")
        if _too_deep(frame.result):
            return Rejected(reason="nested too deep", field="result", type="outbound_result")
    return frame


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _containers(outer)]
        if not level:
            return False
    return True


def _containers(outer: Any) -> Iterator[Any]:
    return (
        item
        for item in (outer.values() if isinstance(outer, dict) else outer)
        if isinstance(item, dict | list)
    )


def _reject(kind: str, error: str) -> Rejected:
    """Tell which field it was, by msgspec's message; nothing else of that is kept, as it may quote the line."""
    path = found[1] if (found := _PATH.search(error)) else ""
    if found := _MISSING.match(error):
        return _wrong(kind, f"{path}.{found[1]}".lstrip("."), missing=True)
    return _wrong(kind, path, missing="got `null`" in error)


def _wrong(kind: str, field: str, *, missing: bool = False) -> Rejected:
    return Rejected(
        reason=f"{'missing' if missing else 'wrong'} field {field}",
        field=field,
        type=kind,
        fatal=missing and kind == "descriptor",
    )
