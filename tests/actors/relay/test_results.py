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
