"""What the failure of an ask means for the action that it was to perform."""

import pytest

from actors.exceptions import (
    ActorLost,
    ActorStopped,
    DeadlineExceeded,
    HandlerFailed,
    Invalid,
    MailboxFull,
    StoreUnavailable,
)
from actors.relay import results


@pytest.mark.parametrize(
    "error", [MailboxFull("/x"), ActorStopped("/x"), StoreUnavailable("full"), Invalid("no")], ids=repr
)
def test_what_was_not_begun_is_definite(error):
    assert results.of_error(error)["success"] is False
    assert "ambiguous" not in results.of_error(error)


@pytest.mark.parametrize("error", [DeadlineExceeded("x"), HandlerFailed("/x", "ValueError")], ids=repr)
def test_what_was_under_way_is_ambiguous(error):
    assert results.of_error(error) == {
        "success": False,
        "error": "relay outbound timed out",
        "ambiguous": True,
    }


def test_what_was_lost_with_its_actor_is_ambiguous():
    assert results.of_error(ActorLost("/x")) == results.connection_lost(ambiguous=True)


def test_no_foreign_text_gets_into_a_result():
    assert "secret" not in str(results.of_error(StoreUnavailable("secret"))) + str(
        results.of_error(Invalid("secret"))
    )


@pytest.mark.parametrize(
    ("result", "unsent", "unanswered"),
    [
        (results.closed(), True, False),
        (results.not_connected(), True, False),
        (results.connection_lost(ambiguous=False), True, False),
        (results.connection_lost(ambiguous=True), False, False),
        (results.timed_out(ambiguous=False), True, False),
        (results.timed_out(ambiguous=True), False, True),
        (results.busy(), True, False),
        (results.unsupported_op(), False, False),
        ({"success": False, "error": "no"}, False, False),
        ({}, False, False),
    ],
    ids=repr,
)
def test_who_has_not_taken_an_action_is_told_apart_from_who_says_no(result, unsent, unanswered):
    assert (results.unsent(result), results.unanswered(result)) == (unsent, unanswered)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"retry_after": 3}, 3.0),
        ({"retry_after": 0.5, "retryable": False}, 0.5),
        ({"retry_after": -1}, None),
        ({"retry_after": float("nan")}, None),
        ({"retry_after": float("inf")}, None),
        ({"retry_after": True}, None),
        ({"retry_after": "3"}, None),
        ({"retryable": True}, 0.0),
        ({"retryable": "yes"}, None),
        ({"code": "rate_limited"}, 0.0),
        ({"error": "rate limited"}, None),
        ({}, None),
    ],
    ids=repr,
)
def test_a_peer_may_want_to_be_asked_later(fields, seconds):
    assert results.wait_asked({"success": False, **fields}) == seconds
