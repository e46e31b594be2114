"""The link's machine: the results of the catalogue one by one, then every reachable state meets every event."""

import msgspec
import pytest

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
from actors.messages.relay import LinkUp
from actors.messages.rows import PeerRole, PeerRow
from actors.messages.secret import Secret
from actors.relay import link_state as states
from actors.relay.link_decisions import step
from actors.relay.link_state import Bury, End, Resolve, State, TellOwner, Write
from actors.relay.settings import RelaySettings

SETTINGS = RelaySettings(pending_max=2)
DISCORD = Descriptor(platform="discord", label="Discord", supported_ops=("send", "edit"))
TELEGRAM = Descriptor(platform="telegram", label="Telegram")
SEND = {"op": "send", "chat_id": "C1", "content": "x"}
OK = {"success": True, "message_id": "m1"}


def peer(role, *, scopes=()):
    return PeerRow(
        name="p", role=role, identities=("discord:b1", "discord:b3", "telegram:b2"), scopes=scopes,
        secrets=(Secret("s"),), created_at=0.0,
    )  # fmt: skip


def start(role, **fields):
    return State(peer=peer(role, **fields), role=role, link_gen=7)


def run(state, *events, now=100.0):
    effects = ()
    for event in events:
        state, effects = step(state, event, now, SETTINGS)
    return state, effects


def connector(*events):
    return run(start(PeerRole.CONNECTOR), PeerDescribed(descriptor=DISCORD), *events)


def gateway(*events, **fields):
    up = (
        PeerHello(platform="discord", bot_id="b1"),
        PlatformDescribed(platform="discord", descriptor=DISCORD),
    )
    return run(start(PeerRole.GATEWAY, **fields), *up, *events)


def ask(request_id, op="send", platform="discord"):
    return states.SendAsked(request_id, {**SEND, "op": op}, platform, None)


def act(request_id="g1", *, platform=None, bot_id=None, **metadata):
    action = {**SEND, "metadata": metadata} if metadata else SEND
    return ActionAsked(request_id=request_id, action=action, platform=platform, bot_id=bot_id)


def close(grace=0.0, code=1012):
    return states.CloseAsked(code, "going down", grace)


def written(effects):
    return [effect.message for effect in effects if isinstance(effect, Write)]


def resolved(effects):
    return {effect.request_id: effect.result for effect in effects if isinstance(effect, Resolve)}


GONE = WireClosed(code=1006)

# The handshake


def test_a_descriptor_is_answered_with_a_hello_and_completes_the_handshake():
    state, effects = connector()
    assert state.phase is LinkState.LIVE
    assert written(effects) == [WriteHello(platform="discord", bot_id="b1")]
    assert TellOwner(LinkUp(link_gen=7, descriptors=(DISCORD,))) in effects


def test_each_further_descriptor_is_answered_and_told():
    state, effects = connector(PeerDescribed(descriptor=TELEGRAM))
    assert state.phase is LinkState.LIVE
    assert written(effects) == [WriteHello(platform="telegram", bot_id="b2")]
    assert TellOwner(LinkUp(link_gen=7, descriptors=(DISCORD, TELEGRAM))) in effects


def test_a_platform_described_again_replaces_the_first_description():
    newer = msgspec.structs.replace(DISCORD, max_message_length=9)
    state, _ = connector(PeerDescribed(descriptor=newer))
    assert state.descriptors == (newer,)


def test_a_hello_is_answered_with_the_descriptor_and_completes_the_handshake():
    state, effects = run(start(PeerRole.GATEWAY), PeerHello(platform="discord", bot_id="b1"))
    assert state.phase is LinkState.HANDSHAKE and effects == (states.Describe("discord"),)
    state, effects = run(state, PlatformDescribed(platform="discord", descriptor=DISCORD))
    assert state.phase is LinkState.LIVE
    assert written(effects) == [WriteDescriptor(descriptor=DISCORD)]
    assert TellOwner(LinkUp(link_gen=7, descriptors=())) in effects


def test_every_hello_gets_its_descriptor_and_the_handshake_is_over_once():
    _, effects = gateway(
        PeerHello(platform="telegram", bot_id="b2"),
        PlatformDescribed(platform="telegram", descriptor=TELEGRAM),
    )
    assert effects == (Write(WriteDescriptor(descriptor=TELEGRAM)),)


@pytest.mark.parametrize(
    ("role", "event"),
    [
        (PeerRole.GATEWAY, PeerHello(platform="discord", bot_id="foreign")),
        (PeerRole.CONNECTOR, PeerDescribed(descriptor=Descriptor(platform="slack", label="Slack"))),
    ],
)
def test_what_the_record_does_not_hold_closes_the_link(role, event):
    state, effects = run(start(role), event)
    assert state.phase is LinkState.CLOSING
    assert [message.code for message in written(effects)] == [4400]


def test_a_handshake_that_takes_too_long_closes_the_link():
    state, effects = run(start(PeerRole.GATEWAY), HandshakeTimedOut())
    assert state.phase is LinkState.CLOSING and isinstance(written(effects)[0], CloseWire)


def test_going_idle_is_acknowledged_and_the_gateway_is_served_on():
    state, effects = gateway(GoingIdleAsked())
    assert state.phase is LinkState.GOING_IDLE and written(effects) == [WriteGoingIdleAck()]
    _, effects = run(state, act())
    assert effects == (states.Perform("g1", "discord", "b1", SEND),)


# Requests of ours


def test_rly_4_a_request_while_closing_is_answered_at_once_and_registers_nothing():
    for closing in (connector(ask("r1"), close(grace=5))[0], connector(close())[0]):
        state, effects = run(closing, ask("r2"))
        assert resolved(effects) == {"r2": {"success": False, "error": "relay transport closed"}}
        assert state.pending == closing.pending


def test_rly_5_a_request_without_a_socket_registers_nothing():
    for away in (connector(GONE)[0], start(PeerRole.CONNECTOR)):
        state, effects = run(away, ask("r1"))
        assert resolved(effects) == {"r1": {"success": False, "error": "relay transport not connected"}}
        assert not state.pending


def test_rly_9_a_dead_socket_fails_all_that_is_pending_and_only_what_was_written_is_ambiguous():
    state, effects = connector(ask("r1"), ask("r2"), Written(request_id="r1"), GONE)
    lost = {"success": False, "error": "relay transport connection lost"}
    assert resolved(effects) == {"r1": {**lost, "ambiguous": True}, "r2": lost}
    assert state.phase is LinkState.CLOSED and not state.pending and End() in effects


def test_rly_10_no_answer_in_time_is_ambiguous_only_once_written():
    state, effects = connector(ask("r1"), Written(request_id="r1"), RequestTimedOut(request_id="r1"))
    late = {"success": False, "error": "relay outbound timed out"}
    assert resolved(effects) == {"r1": {**late, "ambiguous": True}} and not state.pending
    _, effects = connector(ask("r1"), RequestTimedOut(request_id="r1"))
    assert resolved(effects) == {"r1": late}


def test_a_request_is_not_to_be_written_after_it_was_given_up():
    _, effects = connector(ask("r1"))
    [outbound] = written(effects)
    assert outbound == WriteOutbound(
        request_id="r1", action=SEND, platform="discord", bot_id="b1", expires=100.0 + SETTINGS.outbound_s
    )


def test_each_result_reaches_its_own_request_in_any_order():
    state, _ = connector(ask("r1"), ask("r2"))
    state, effects = run(state, ResultArrived(request_id="r2", result=OK))
    assert resolved(effects) == {"r2": OK} and set(state.pending) == {"r1"}


def test_a_late_or_unknown_result_is_a_dead_letter():
    _, effects = connector(ResultArrived(request_id="nobody", result=OK))
    assert effects == (Bury("ResultArrived", DeadLetterReason.LATE),)


def test_an_op_that_was_not_advertised_is_not_sent():
    state, effects = connector(ask("r1", op="react"))
    assert resolved(effects) == {"r1": {"success": False, "error": "unsupported op"}} and not state.pending


def test_a_platform_that_was_not_described_is_not_connected():
    _, effects = connector(ask("r1", platform="telegram"))
    assert resolved(effects)["r1"]["error"] == "relay transport not connected"


def test_pending_requests_are_bounded():
    state, effects = connector(ask("r1"), ask("r2"), ask("r3"))
    assert resolved(effects) == {"r3": {"success": False, "error": "too many requests"}}
    assert len(state.pending) == 2


# Actions of the peer


def test_an_action_is_performed_as_the_session_default_and_answered_once():
    state, effects = gateway(act())
    assert effects == (states.Perform("g1", "discord", "b1", SEND),)
    state, effects = run(state, ActionPerformed(request_id="g1", result=OK))
    assert effects == (Write(WriteResult(request_id="g1", result=OK)),)
    assert run(state, ActionPerformed(request_id="g1", result=OK))[1] == ()


@pytest.mark.parametrize(
    "asked",
    [
        act(platform="telegram"),
        act(platform="telegram", bot_id="b2"),
        act(platform="discord", bot_id="b3"),
        act(platform="slack", bot_id="b1"),
        act(bot_id="b2"),
        act(scope_id="foreign"),
        act(scope_id=5),
        act(scope_id=""),
    ],
    ids=repr,
)
def test_an_identity_not_advertised_or_a_scope_not_owned_is_declined_uniformly(asked):
    _, effects = gateway(asked, scopes=("G1",))
    declined = {"success": False, "error": "egress declined", "code": "egress_declined"}
    assert written(effects) == [WriteResult(request_id="g1", result=declined)]


@pytest.mark.parametrize(
    "asked",
    [act(scope_id="G1"), act(platform="discord"), act(platform="discord", bot_id="b1"), act(user_id="U")],
)
def test_an_owned_scope_and_an_advertised_identity_are_served(asked):
    _, effects = gateway(asked, scopes=("G1",))
    assert isinstance(effects[0], states.Perform) and effects[0].bot_id == "b1"


def test_a_peer_without_scopes_owns_all():
    assert isinstance(gateway(act(scope_id="any"))[1][0], states.Perform)


def test_an_action_while_draining_is_answered_closed():
    _, effects = gateway(act("g1"), close(grace=5), act("g2"))
    assert written(effects)[0].result == {"success": False, "error": "relay transport closed"}


def test_an_action_beyond_the_bound_is_answered_busy():
    _, effects = gateway(act("g1"), act("g2"), act("g3"))
    assert written(effects)[0].result["error"] == "too many requests"


# The end


def test_a_drain_lets_the_pending_be_answered_and_then_closes():
    state, _ = connector(ask("r1"), close(grace=5))
    assert state.phase is LinkState.DRAINING
    state, effects = run(state, ResultArrived(request_id="r1", result=OK))
    assert resolved(effects) == {"r1": OK}
    assert (
        written(effects) == [CloseWire(code=1012, reason="going down")] and state.phase is LinkState.CLOSING
    )


def test_a_drain_waits_for_the_peers_actions_too():
    state, _ = gateway(act("g1"), close(grace=5))
    state, effects = run(state, ActionPerformed(request_id="g1", result=OK))
    assert [type(message) for message in written(effects)] == [WriteResult, CloseWire]


def test_what_a_drain_leaves_is_failed_once_the_socket_is_closed():
    state, effects = connector(ask("r1"), ask("r2"), Written(request_id="r1"), close(grace=5), DrainEnded())
    assert state.phase is LinkState.CLOSING and resolved(effects) == {}
    _, effects = run(state, GONE)
    shut = {"success": False, "error": "relay transport closed"}
    assert resolved(effects) == {"r1": {**shut, "ambiguous": True}, "r2": shut}


def test_rly_8_a_second_close_does_nothing():
    once, _ = connector(ask("r1"), close(grace=5))
    assert run(once, close(code=4409)) == (once, ())
    closed, _ = connector(GONE)
    assert run(closed, close()) == (closed, ())


# The walk

EVENTS = [
    PeerHello(platform="discord", bot_id="b1"),
    PeerHello(platform="discord", bot_id="foreign"),
    PlatformDescribed(platform="discord", descriptor=DISCORD),
    PlatformDescribed(platform="discord", descriptor=None),
    PeerDescribed(descriptor=DISCORD),
    PeerDescribed(descriptor=Descriptor(platform="slack", label="Slack")),
    GoingIdleAsked(),
    ask("r1"),
    ask("r2"),
    Written(request_id="r1"),
    ResultArrived(request_id="r1", result=OK),
    RequestTimedOut(request_id="r1"),
    act("g1"),
    act("g2", platform="slack"),
    ActionPerformed(request_id="g1", result=OK),
    HandshakeTimedOut(),
    close(),
    close(grace=5),
    DrainEnded(),
    GONE,
]


def walk():
    """Yield every (state, event, new state, effects) that can be reached, in both roles."""
    frontier = [start(PeerRole.CONNECTOR), start(PeerRole.GATEWAY)]
    seen = {repr(state) for state in frontier}
    while frontier:
        state = frontier.pop()
        for event in EVENTS:
            if isinstance(event, states.SendAsked) and event.request_id in state.pending:
                # The link numbers its requests: none comes twice.
                continue
            new, effects = step(state, event, 100.0, SETTINGS)
            yield state, event, new, effects
            if repr(new) not in seen:
                seen.add(repr(new))
                frontier.append(new)


WALK = list(walk())


def test_the_walk_reaches_every_phase_in_both_roles():
    reached = {(new.role, new.phase) for _, _, new, _ in WALK}
    assert reached >= {
        (role, phase) for role in PeerRole for phase in LinkState if phase != LinkState.GOING_IDLE
    }
    assert (PeerRole.GATEWAY, LinkState.GOING_IDLE) in reached


def test_a_link_never_goes_back():
    for state, _, new, _ in WALK:
        assert new.phase >= state.phase


def test_each_request_is_resolved_exactly_when_it_stops_being_pending():
    for state, event, new, effects in WALK:
        before = set(state.pending) | ({event.request_id} if isinstance(event, states.SendAsked) else set())
        answers = [effect.request_id for effect in effects if isinstance(effect, Resolve)]
        assert sorted(answers) == sorted(before - set(new.pending))


def test_a_result_of_ours_is_ambiguous_exactly_if_the_frame_may_have_been_written():
    for state, event, _, effects in WALK:
        for request_id, result in resolved(effects).items():
            if not isinstance(event, ResultArrived):
                assert result.get("ambiguous", False) is state.pending.get(request_id, False)


def test_the_end_comes_once_and_leaves_nothing_behind():
    for state, _, new, effects in WALK:
        entered = new.phase is LinkState.CLOSED and state.phase is not LinkState.CLOSED
        assert (End() in effects) == entered
        assert new.phase is not LinkState.CLOSED or not new.unanswered


def test_the_socket_is_told_to_close_once():
    for state, _, new, effects in WALK:
        closes = [message for message in written(effects) if isinstance(message, CloseWire)]
        entered = new.phase is LinkState.CLOSING and state.phase is not LinkState.CLOSING
        assert len(closes) == (1 if entered else 0)


def test_nothing_is_written_after_the_close():
    for state, _, _, effects in WALK:
        if state.phase >= LinkState.CLOSING:
            assert written(effects) == []


def test_an_action_is_answered_or_performed_or_the_link_is_closing():
    for state, event, _, effects in WALK:
        if (
            isinstance(event, ActionAsked)
            and state.role is PeerRole.GATEWAY
            and state.phase < LinkState.CLOSING
        ):
            answers = [message for message in written(effects) if isinstance(message, WriteResult)]
            performs = [effect for effect in effects if isinstance(effect, states.Perform)]
            buried = [effect for effect in effects if isinstance(effect, Bury)]
            assert len(answers) + len(performs) + len(buried) == 1


def test_a_drain_ends_when_nothing_is_pending():
    for _, _, new, _ in WALK:
        assert new.phase is not LinkState.DRAINING or new.unanswered


def test_every_state_knows_every_event():
    with pytest.raises(TypeError):
        step(start(PeerRole.GATEWAY), object(), 0.0, SETTINGS)
