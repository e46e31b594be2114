"""What refusals and faults mean to an HTTP client."""

import json

import pytest

from actors.exceptions import (
    ActorStopped,
    Busy,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    HandlerFailed,
    Invalid,
    MailboxFull,
    NotFound,
    Refusal,
    StoreUnavailable,
    TurnkeepError,
    Unavailable,
)
from transports.front.errors import (
    ApiError,
    draining,
    from_fault,
    invalid,
    outcome_unknown,
    turn_failed,
    unauthorized,
)

LATER = ("retry-after", "1")


@pytest.mark.parametrize(
    ("fault", "status", "code", "headers"),
    [
        (Busy("8 wait", code="session_busy"), 429, "session_busy", (LATER,)),
        (NotFound("no"), 404, "not_found", ()),
        (Invalid("no"), 400, "invalid", ()),
        (Forbidden("no"), 403, "forbidden", ()),
        (Conflict("no"), 409, "conflict", ()),
        (Refusal("no"), 409, "refused", ()),
        (Unavailable("no"), 503, "unavailable", (LATER,)),
        (StoreUnavailable("the disk /var/x is full"), 503, "unavailable", (LATER,)),
        (DeadlineExceeded("AcceptMessage"), 503, "unavailable", (LATER,)),
        (MailboxFull("/store"), 503, "unavailable", (LATER,)),
        (ActorStopped("/store"), 503, "unavailable", (LATER,)),
        (HandlerFailed("/store", "KeyError"), 500, "internal_error", ()),
        (TurnkeepError("a text"), 500, "internal_error", ()),
        (draining(), 503, "draining", (LATER,)),
    ],
)
def test_a_fault_before_admission(
    fault: TurnkeepError, status: int, code: str, headers: tuple[tuple[str, str], ...]
) -> None:
    error = from_fault(fault)
    assert (error.status, error.code, error.headers) == (status, code, headers)


@pytest.mark.parametrize("fault", [StoreUnavailable("/var/x"), HandlerFailed("/store", "KeyError")])
def test_faults_say_nothing_of_the_inside(fault: TurnkeepError) -> None:
    assert "/" not in str(from_fault(fault))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (unauthorized(), "authentication_error"),
        (invalid("x"), "invalid_request_error"),
        (turn_failed(409, "turn_cancelled", "x"), "conflict_error"),
        (from_fault(Busy("x")), "rate_limit_error"),
        (turn_failed(500, "turn_failed", "x"), "server_error"),
    ],
)
def test_the_body_has_the_shape_that_clients_know(error: ApiError, kind: str) -> None:
    found = json.loads(error.body())["error"]
    assert set(found) == {"message", "type", "param", "code"} and found["type"] == kind
    assert json.loads(error.body("c1"))["error"]["session_id"] == "c1"


def test_what_is_kept_is_not_to_be_sent_again_by_a_client_library() -> None:
    for error in (turn_failed(500, "turn_failed", "x"), outcome_unknown()):
        assert ("x-should-retry", "false") in error.headers and LATER not in error.headers
