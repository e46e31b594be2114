"""What a restart makes of unfinished turns."""

import pytest

from actors.messages.rows import Origin, Route, TurnRow, TurnState
from actors.messages.store import BuryMessage, EndTurn
from actors.session.recovery import INTERRUPTED_MARK, recover

ROUTE = Route(platform="discord", chat_id="C1")


def turn(state, origin=Origin.RELAY, *, detached=True, tries=1, partial=""):
    return TurnRow(
        turn_id="t", session_id="s", inbox_id="i", turn_gen=4, state=state, reason=None, partial=partial,
        text=None, usage=None, origin=origin, detached=detached, tries=tries, admitted_at=1.0, ended_at=None,
    )  # fmt: skip


def settle(row, *, policy="report", clients_gone=True, route=ROUTE):
    return recover(((row, "peer", route),), policy=policy, clients_gone=clients_gone, now=9.0)


def test_trn_54_a_running_turn_is_interrupted_with_what_was_flushed_and_its_chat_is_told():
    (end,) = settle(turn(TurnState.RUNNING, partial="Hel"))
    assert isinstance(end, EndTurn)
    assert (end.turn_gen, end.state, end.reason) == (4, TurnState.INTERRUPTED, "restart")
    assert end.interrupted_text == f"Hel\n\n{INTERRUPTED_MARK}"
    assert end.delivery.content == end.notice
    assert "restarted" in end.notice


def test_trn_54_by_policy_it_is_queued_again_once_and_then_reported():
    (end,) = settle(turn(TurnState.RUNNING), policy="retry")
    assert end.again and end.delivery is None and end.notice is None
    (end,) = settle(turn(TurnState.RUNNING, tries=2), policy="retry")
    assert not end.again and end.delivery is not None


def test_a_notice_has_the_same_id_however_often_recovery_runs():
    row = turn(TurnState.RUNNING)
    assert settle(row)[0].delivery.delivery_id == settle(row)[0].delivery.delivery_id


@pytest.mark.parametrize("origin", [Origin.API, Origin.CONSOLE])
def test_only_chats_behind_a_relay_get_a_delivery(origin):
    (end,) = settle(turn(TurnState.RUNNING, origin), route=None)
    assert end.delivery is None and end.notice is not None


def test_api_12_an_admitted_row_of_an_http_client_ends_with_its_client():
    (bury,) = settle(turn(TurnState.ADMITTED, Origin.API, detached=False))
    assert isinstance(bury, BuryMessage) and bury.reason == "client_gone"


@pytest.mark.parametrize(
    ("row", "clients_gone"),
    [
        (turn(TurnState.ADMITTED, Origin.API, detached=True), True),
        (turn(TurnState.ADMITTED, Origin.RELAY), True),
        (turn(TurnState.ADMITTED, Origin.API, detached=False), False),
    ],
)
def test_api_12_other_admitted_rows_are_turned(row, clients_gone):
    assert settle(row, clients_gone=clients_gone) == ()


def test_a_waiting_http_clients_turn_is_never_run_again_behind_its_back():
    (end,) = settle(turn(TurnState.RUNNING, Origin.API, detached=False), policy="retry")
    assert isinstance(end, EndTurn) and not end.again


def test_a_crash_is_not_called_a_restart():
    (end,) = settle(turn(TurnState.RUNNING), clients_gone=False)
    assert end.reason == "crash"
