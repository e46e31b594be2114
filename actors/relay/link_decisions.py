"""
One link's life as a pure machine: (state, event, now) → (state, effects). Events are the messages that a link hears.

| phase | requests of ours | actions of the peer | leaves by |
|---|---|---|---|
| handshake | not connected | performed | first descriptor, read or written → live; no such in time → closing |
| live | sent | performed | going_idle → going idle; a close → draining, or closing if nothing is pending |
| going idle | sent | performed | a close → the same |
| draining | transport closed | transport closed | nothing pending any more, or the drain's end → closing |
| closing | transport closed | ignored | the socket's end → closed |
| closed | not connected | ignored | |

The end of the socket leads to closed from everywhere. Whatever is pending then is failed in that same step: no request
is left behind (RLY-9), and only one whose frame may have reached the wire is ambiguous (RLY-10).
"""

import msgspec

from actors.messages.descriptor import Descriptor
from actors.messages.lifecycle import DeadLetterReason
from actors.messages.link import (
    ActionAsked,
    ActionPerformed,
    CloseWire,
    DrainEnded,
    GoingIdleAsked,
    HandshakeTimedOut,
    LinkState,
    PeerDescribed,
    PeerHello,
    PlatformDescribed,
    RequestTimedOut,
    ResultArrived,
    WireClosed,
    WriteDescriptor,
    WriteGoingIdleAck,
    WriteHello,
    WriteOutbound,
    WriteResult,
    Written,
)
from actors.messages.relay import LinkUp, Result
from actors.messages.rows import PeerRole, PeerRow
from actors.relay import results
from actors.relay.link_state import (
    ArmTimer,
    Bury,
    CancelTimer,
    CloseAsked,
    Describe,
    Effect,
    End,
    Event,
    Perform,
    Publish,
    Resolve,
    SendAsked,
    State,
    TellOwner,
    Write,
)
from actors.relay.settings import RelaySettings

HANDSHAKE_TIMER = "handshake"
DRAIN_TIMER = "drain"
CLOSE_TIMER = "close"

NOT_OWNED = 4400
"""The close code for a peer that claims what its record does not hold."""
OUR_FAULT = 1011


Step = tuple[State, tuple[Effect, ...]]


def step(state: State, event: Event, now: float, settings: RelaySettings) -> Step:
    """Return what becomes of the link at ``now`` (monotonic seconds), and what is to be done, in order."""
    new, effects = _react(state, event, now, settings)
    if new.phase is LinkState.DRAINING and not new.unanswered:
        new, closing = _shut(new, settings)
        return new, (*effects, *closing)
    return new, effects


def _react(state: State, event: Event, now: float, settings: RelaySettings) -> Step:
    match event:
        case WireClosed():
            return _lose(state, event)
        case CloseAsked():
            return _close(state, event, settings)
        case SendAsked():
            return _send(state, event, now, settings)
        case Written(request_id=request_id):
            return _written(state, request_id)
        case ResultArrived():
            return _result(state, event)
        case RequestTimedOut(request_id=request_id):
            return _timed_out(state, request_id)
        case ActionAsked():
            return _action(state, event, settings)
        case ActionPerformed():
            return _performed(state, event)
        case PeerHello():
            return _hello(state, event, settings)
        case PlatformDescribed():
            return _platform_described(state, event, settings)
        case PeerDescribed(descriptor=descriptor):
            return _peer_described(state, descriptor, settings)
        case GoingIdleAsked():
            return _going_idle(state)
        case HandshakeTimedOut():
            return _handshake_timed_out(state, settings)
        case DrainEnded():
            return _shut(state, settings) if state.phase is LinkState.DRAINING else (state, ())
    raise TypeError(f"no such event: {event!r}")


# The handshake


def _hello(state: State, event: PeerHello, settings: RelaySettings) -> Step:
    if state.role is not PeerRole.GATEWAY or state.phase >= LinkState.DRAINING:
        return state, ()
    if not state.peer.fronts(event.platform, event.bot_id):
        return _close(state, CloseAsked(NOT_OWNED, "identity not owned", 0.0), settings)
    identity = (event.platform, event.bot_id)
    if identity not in state.identities:
        state = msgspec.structs.replace(state, identities=(*state.identities, identity))
    return state, (Describe(event.platform),)


def _platform_described(state: State, event: PlatformDescribed, settings: RelaySettings) -> Step:
    if state.phase >= LinkState.CLOSING:
        return state, ()
    if event.descriptor is None:
        return _close(state, CloseAsked(OUR_FAULT, "no descriptor", 0.0), settings)
    written = Write(WriteDescriptor(descriptor=event.descriptor))
    state, effects = _come_up(state)
    return state, (written, *effects)


def _peer_described(state: State, descriptor: Descriptor, settings: RelaySettings) -> Step:
    if state.role is not PeerRole.CONNECTOR or state.phase >= LinkState.DRAINING:
        return state, ()
    bot_id = bot_of(state.peer, descriptor.platform)
    if bot_id is None:
        return _close(state, CloseAsked(NOT_OWNED, "platform not owned", 0.0), settings)
    others = tuple(known for known in state.descriptors if known.platform != descriptor.platform)
    state = msgspec.structs.replace(state, descriptors=(*others, descriptor))
    hello = Write(WriteHello(platform=descriptor.platform, bot_id=bot_id))
    if state.phase is LinkState.HANDSHAKE:
        state, effects = _come_up(state)
        return state, (hello, *effects)
    return state, (hello, TellOwner(LinkUp(link_gen=state.link_gen, descriptors=state.descriptors)))


def _come_up(state: State) -> Step:
    if state.phase is not LinkState.HANDSHAKE:
        return state, ()
    return msgspec.structs.replace(state, phase=LinkState.LIVE), (
        CancelTimer(HANDSHAKE_TIMER),
        TellOwner(LinkUp(link_gen=state.link_gen, descriptors=state.descriptors)),
        Publish("relay.link_up", _about(state)),
    )


def _handshake_timed_out(state: State, settings: RelaySettings) -> Step:
    if state.phase is not LinkState.HANDSHAKE:
        return state, ()
    return _close(state, CloseAsked(OUR_FAULT, "handshake timed out", 0.0), settings)


def _going_idle(state: State) -> Step:
    if state.role is not PeerRole.GATEWAY or state.phase not in (LinkState.LIVE, LinkState.GOING_IDLE):
        return state, ()
    return msgspec.structs.replace(state, phase=LinkState.GOING_IDLE), (Write(WriteGoingIdleAck()),)


# Our requests


def _send(state: State, event: SendAsked, now: float, settings: RelaySettings) -> Step:
    refusal = _why_not(state, event, settings)
    if refusal is not None:
        return state, (Resolve(event.request_id, refusal),)
    write = WriteOutbound(
        request_id=event.request_id,
        action=event.action,
        platform=event.platform,
        bot_id=event.bot_id or bot_of(state.peer, event.platform),
        expires=now + settings.outbound_s,
    )
    timer = ArmTimer(
        _request_timer(event.request_id), settings.outbound_s, RequestTimedOut(request_id=event.request_id)
    )
    pending = {**state.pending, event.request_id: False}
    return msgspec.structs.replace(state, pending=pending), (timer, Write(write))


def _why_not(state: State, event: SendAsked, settings: RelaySettings) -> Result | None:
    if state.phase in (LinkState.DRAINING, LinkState.CLOSING):
        return results.closed()
    if state.phase in (LinkState.HANDSHAKE, LinkState.CLOSED):
        return results.not_connected()
    descriptor = next((known for known in state.descriptors if known.platform == event.platform), None)
    if descriptor is None:
        return results.not_connected()
    if not descriptor.supports(str(event.action.get("op"))):
        return results.unsupported_op()
    if len(state.pending) >= settings.pending_max:
        return results.busy()
    return None


def _written(state: State, request_id: str) -> Step:
    if request_id not in state.pending:
        return state, ()
    return msgspec.structs.replace(state, pending={**state.pending, request_id: True}), ()


def _result(state: State, event: ResultArrived) -> Step:
    if event.request_id not in state.pending:
        return state, (Bury("ResultArrived", DeadLetterReason.LATE),)
    return _forget(state, event.request_id), (
        CancelTimer(_request_timer(event.request_id)),
        Resolve(event.request_id, event.result),
    )


def _timed_out(state: State, request_id: str) -> Step:
    written = state.pending.get(request_id)
    if written is None:
        return state, ()
    return _forget(state, request_id), (Resolve(request_id, results.timed_out(ambiguous=written)),)


def _forget(state: State, request_id: str) -> State:
    pending = {other: written for other, written in state.pending.items() if other != request_id}
    return msgspec.structs.replace(state, pending=pending)


# The peer's actions


def _action(state: State, event: ActionAsked, settings: RelaySettings) -> Step:
    if state.role is not PeerRole.GATEWAY or state.phase >= LinkState.CLOSING:
        return state, ()
    if event.request_id in state.performing:
        return state, (Bury("ActionAsked", DeadLetterReason.REFUSED),)
    if state.phase is LinkState.DRAINING:
        return state, (_answer(event.request_id, results.closed()),)
    identity = _egress(state, event)
    if identity is None:
        return state, (
            _answer(event.request_id, results.egress_declined()),
            Publish("relay.egress_declined", _about(state)),
        )
    if len(state.performing) >= settings.pending_max:
        return state, (_answer(event.request_id, results.busy()),)
    performing = state.performing | {event.request_id}
    platform, bot_id = identity
    return msgspec.structs.replace(state, performing=performing), (
        Perform(event.request_id, platform, bot_id, event.action),
    )


def _egress(state: State, event: ActionAsked) -> tuple[str, str] | None:
    """
    Return the identity as which the action is performed, or None if the peer may not.

    Without any named, it is the session default; with only a platform, the first of that platform.
    """
    if not state.identities:
        return None
    platform = event.platform if event.platform is not None else state.identities[0][0]
    named = [identity for identity in state.identities if identity[0] == platform]
    if event.bot_id is not None:
        named = [identity for identity in named if identity[1] == event.bot_id]
    if not named or not state.peer.fronts(*named[0]):
        return None
    metadata = event.action.get("metadata")
    scope = metadata.get("scope_id") if isinstance(metadata, dict) else None
    if scope is not None and not (isinstance(scope, str) and state.peer.owns_scope(scope)):
        return None
    return named[0]


def _performed(state: State, event: ActionPerformed) -> Step:
    if event.request_id not in state.performing:
        return state, ()
    answer = (_answer(event.request_id, event.result),) if state.phase < LinkState.CLOSING else ()
    return msgspec.structs.replace(state, performing=state.performing - {event.request_id}), answer


def _answer(request_id: str, result: Result) -> Write:
    return Write(WriteResult(request_id=request_id, result=result))


# The end


def _close(state: State, event: CloseAsked, settings: RelaySettings) -> Step:
    if state.phase >= LinkState.DRAINING:
        return state, ()
    state = msgspec.structs.replace(state, closing=(event.code, event.reason))
    if state.unanswered and event.grace > 0:
        draining = msgspec.structs.replace(state, phase=LinkState.DRAINING)
        return draining, (CancelTimer(HANDSHAKE_TIMER), ArmTimer(DRAIN_TIMER, event.grace, DrainEnded()))
    return _shut(state, settings)


def _shut(state: State, settings: RelaySettings) -> Step:
    assert state.closing is not None
    code, reason = state.closing
    # What is pending is failed when the socket is closed: only then is it known which frames were never written.
    gone = WireClosed(code=1006, reason="no answer to the close")
    return msgspec.structs.replace(state, phase=LinkState.CLOSING, performing=frozenset()), (
        CancelTimer(HANDSHAKE_TIMER),
        CancelTimer(DRAIN_TIMER),
        Write(CloseWire(code=code, reason=reason)),
        ArmTimer(CLOSE_TIMER, settings.close_s, gone),
    )


def _lose(state: State, event: WireClosed) -> Step:
    if state.phase is LinkState.CLOSED:
        return state, ()
    fail = results.connection_lost if state.closing is None else results.closed
    failed = tuple(
        effect
        for request_id, written in state.pending.items()
        for effect in (
            CancelTimer(_request_timer(request_id)),
            Resolve(request_id, fail(ambiguous=written)),
        )
    )
    code, reason = state.closing or (event.code, "closed by the peer")
    ended = msgspec.structs.replace(state, phase=LinkState.CLOSED, pending={}, performing=frozenset())
    return ended, (
        CancelTimer(HANDSHAKE_TIMER),
        CancelTimer(DRAIN_TIMER),
        CancelTimer(CLOSE_TIMER),
        *failed,
        Publish("relay.link_down", {**_about(state), "code": code, "reason": reason}),
        End(),
    )


def bot_of(peer: PeerRow, platform: str) -> str | None:
    """Return the peer's first bot on a platform, or None if it fronts none there."""
    for identity in peer.identities:
        name, _, bot_id = identity.partition(":")
        if name == platform:
            return bot_id
    return None


def _about(state: State) -> dict[str, str | int]:
    return {"peer": state.peer.name, "role": state.role.value, "link_gen": state.link_gen}


def _request_timer(request_id: str) -> str:
    return f"request:{request_id}"
