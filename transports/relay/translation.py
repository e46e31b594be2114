"""From frames to what a link hears, and from what a link says to lines."""

from typing import Any

from actors.messages.base import Message
from actors.messages.link import (
    ActionAsked,
    GoingIdleAsked,
    InterruptAsked,
    PeerDescribed,
    PeerHello,
    ResultArrived,
    WriteDescriptor,
    WriteGoingIdleAck,
    WriteHello,
    WriteInboundAck,
    WriteOutbound,
    WriteResult,
)
from actors.messages.rows import PeerRole
from transports.relay.frames import (
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
    descriptor_frame,
    encode,
    to_descriptor,
)

ROLE_FRAMES: dict[PeerRole, tuple[type[Any], ...]] = {
    PeerRole.GATEWAY: (HelloFrame, InboundAckFrame, OutboundFrame, InterruptFrame, GoingIdleFrame),
    PeerRole.CONNECTOR: (
        DescriptorFrame,
        InboundFrame,
        OutboundResultFrame,
        InterruptInboundFrame,
        GoingIdleAckFrame,
        PassthroughFrame,
    ),
}
"""What a peer may say in each role."""


def heard(frame: Frame) -> Message | None:
    """Return what the link is told of a frame, or None if nothing here acts on it."""
    match frame:
        case HelloFrame(platform=platform, bot_id=bot_id):
            return PeerHello(platform=platform, bot_id=bot_id)
        case DescriptorFrame():
            return PeerDescribed(descriptor=to_descriptor(frame))
        case OutboundFrame():
            return ActionAsked(
                request_id=frame.request_id,
                action=frame.action,
                platform=frame.platform or None,
                bot_id=frame.bot_id or None,
            )
        case OutboundResultFrame(request_id=request_id, result=result):
            return ResultArrived(request_id=request_id, result=result)
        case InterruptFrame(session_key=session_key):
            return InterruptAsked(session_key=session_key)
        case InterruptInboundFrame(session_key=session_key, chat_id=chat_id):
            return InterruptAsked(session_key=session_key, chat_id=chat_id)
        case GoingIdleFrame():
            return GoingIdleAsked()
    return None


def spoken(message: Message) -> str:
    """Return the line that says to the peer what the link has said to the wire."""
    return encode(_frame_of(message))


def _frame_of(message: Message) -> Frame:
    match message:
        case WriteHello(platform=platform, bot_id=bot_id):
            return HelloFrame(platform=platform, bot_id=bot_id)
        case WriteDescriptor(descriptor=descriptor):
            return descriptor_frame(descriptor)
        case WriteOutbound():
            # Named only if it is known: an empty field is not the same as none.
            named = {"bot_id": message.bot_id} if message.bot_id is not None else {}
            return OutboundFrame(
                request_id=message.request_id, action=message.action, platform=message.platform, **named
            )
        case WriteResult(request_id=request_id, result=result):
            return OutboundResultFrame(request_id=request_id, result=result)
        case WriteInboundAck(buffer_id=buffer_id):
            return InboundAckFrame(buffer_id=buffer_id)
        case WriteGoingIdleAck():
            return GoingIdleAckFrame()
    raise TypeError(f"no frame for {type(message).__name__}")
