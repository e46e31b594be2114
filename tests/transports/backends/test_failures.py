"""Statuses, error objects and exceptions in our taxonomy."""

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import RETRYABLE, FailureClass
from transports.backends.chunks import BackendError
from transports.backends.failures import is_overflow, of_error, of_exception, of_status, retry_after

NOTHING = BackendError()
KEY = ConnectionKey("h", 1, False, True, None, None, None)
NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("status", "failure", "retryable"),
    [
        (302, FailureClass.PROTOCOL, False),
        (201, FailureClass.PROTOCOL, False),
        (400, FailureClass.BAD_REQUEST, False),
        (401, FailureClass.AUTH_REFUSED, False),
        (403, FailureClass.AUTH_REFUSED, False),
        (404, FailureClass.BAD_REQUEST, False),
        (408, FailureClass.TIMEOUT, True),
        (409, FailureClass.SERVER_ERROR, True),
        (413, FailureClass.BAD_REQUEST, False),
        (422, FailureClass.BAD_REQUEST, False),
        (429, FailureClass.RATE_LIMITED, True),
        (500, FailureClass.SERVER_ERROR, True),
        (503, FailureClass.SERVER_ERROR, True),
        (529, FailureClass.SERVER_ERROR, True),
    ],
)
def test_a_status_has_its_class(status, failure, retryable):
    found = of_status(status, {}, NOTHING, NOW)
    assert (found.failure, found.status) == (failure, status)
    assert (found.failure in RETRYABLE) is retryable


OVERFLOWS = [
    BackendError(code="context_length_exceeded invalid_request_error"),
    BackendError(message="This model's maximum context length is 8192 tokens."),
    BackendError(code="exceed_context_size_error", message="the request exceeds the available context size"),
    BackendError(message="prompt is too long: 210000 tokens > 200000 maximum"),
]


@pytest.mark.parametrize("error", OVERFLOWS)
def test_overflow_is_recognised_by_code_or_message(error):
    assert is_overflow(error)
    assert of_status(400, {}, error, NOW).failure is FailureClass.OVERFLOW
    assert of_status(500, {}, error, NOW).failure is FailureClass.OVERFLOW
    assert of_error(error).failure is FailureClass.OVERFLOW


@pytest.mark.parametrize("error", OVERFLOWS)
def test_a_known_429_is_never_overflow(error):
    assert of_status(429, {}, error, NOW).failure is FailureClass.RATE_LIMITED
    coded = BackendError(code=f"{error.code} rate_limit_exceeded", message=error.message)
    assert of_error(coded).failure is FailureClass.RATE_LIMITED
    numbered = BackendError(code=error.code, status=429, message=error.message)
    assert of_error(numbered).failure is FailureClass.RATE_LIMITED


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (BackendError(code="server_error"), FailureClass.SERVER_ERROR),
        (BackendError(code="overloaded_error"), FailureClass.SERVER_ERROR),
        (BackendError(status=502), FailureClass.SERVER_ERROR),
        (BackendError(code="rate_limit_exceeded"), FailureClass.RATE_LIMITED),
        (BackendError(code="insufficient_quota"), FailureClass.RATE_LIMITED),
        (BackendError(code="invalid_api_key invalid_request_error"), FailureClass.AUTH_REFUSED),
        (BackendError(code="timeout"), FailureClass.TIMEOUT),
        (BackendError(code="invalid_request_error"), FailureClass.BAD_REQUEST),
        (BackendError(message="something else"), FailureClass.BAD_REQUEST),
    ],
)
def test_an_error_in_band_has_its_class(error, failure):
    assert of_error(error).failure is failure


@pytest.mark.parametrize(
    ("error", "failure", "name"),
    [
        (aiohttp.ClientConnectorError(KEY, OSError(111, "refused")), FailureClass.CONNECT, "ConnectError"),
        (aiohttp.ServerDisconnectedError(), FailureClass.CONNECT, "ConnectError"),
        (aiohttp.ConnectionTimeoutError(), FailureClass.CONNECT, "ConnectTimeout"),
        (ConnectionResetError(), FailureClass.CONNECT, "ConnectError"),
        (TimeoutError(), FailureClass.CONNECT, "ConnectTimeout"),
        (aiohttp.ClientResponseError(None, ()), FailureClass.PROTOCOL, "ProtocolError"),
        (aiohttp.InvalidURL("x"), FailureClass.PREPARATION, "InvalidURL"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), FailureClass.PREPARATION, "UnicodeEncodeError"),
        (RecursionError(), FailureClass.PREPARATION, "RecursionError"),
    ],
)
def test_an_exception_before_the_answer_has_our_class(error, failure, name):
    found = of_exception(error, armed=False)
    assert (found.failure, found.error_class) == (failure, name)


def test_an_exception_in_the_answer_makes_it_incomplete():
    found = of_exception(aiohttp.ClientPayloadError(), armed=True)
    assert (found.failure, found.error_class) == (FailureClass.INCOMPLETE, "ReadError")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, 120.0),
        ({"retry-after": "9" * 400}, 120.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 23:13:50 GMT"}, 120.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0.0),
        # The backend's own clock counts, where it says what that shows.
        (
            {"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT", "date": "Tue, 14 Nov 2023 22:13:40 GMT"},
            10.0,
        ),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT", "date": "soon"}, 30.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
    ],
)
def test_retry_after_is_read_in_seconds(headers, seconds):
    assert retry_after(headers, NOW) == seconds
    assert of_status(429, headers, NOTHING, NOW).retry_after == seconds


@given(st.text())
def test_any_retry_after_is_within_its_bounds(value):
    seconds = retry_after({"retry-after": value}, NOW)
    assert seconds is None or 0 <= seconds <= 120
