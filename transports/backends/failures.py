"""What a backend's status, error object or broken connection means, in our own taxonomy. No I/O."""

import email.utils
import math
from collections.abc import Mapping

import aiohttp

from actors.messages.lane import FailureClass
from transports.backends.chunks import BackendError
from transports.backends.stream import Failure

RETRY_AFTER_CAP = 120.0
"""The longest wait that a backend may ask for, in seconds (turns.md, section 2)."""

INCOMPLETE = Failure(FailureClass.INCOMPLETE, "IncompleteStream")
NOT_A_STREAM = Failure(FailureClass.PROTOCOL, "NotAStream")
NO_KEY = Failure(FailureClass.AUTH_REFUSED, "ApiKeyMissing")

_OF_STATUS = {
    401: (FailureClass.AUTH_REFUSED, "AuthRefused"),
    403: (FailureClass.AUTH_REFUSED, "AuthRefused"),
    408: (FailureClass.TIMEOUT, "RequestTimeout"),
    409: (FailureClass.SERVER_ERROR, "BackendConflict"),
    429: (FailureClass.RATE_LIMITED, "RateLimited"),
}

_OF_CODE = (
    (("rate_limit", "insufficient_quota", "too_many_requests"), 429),
    (("server_error", "internal_error", "api_error", "overloaded", "unavailable"), 500),
    (("authentication", "invalid_api_key", "permission"), 401),
    (("timeout",), 408),
)
"""Parts of codes and types, and the status that each amounts to."""

_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size", "context_window_exceeded")
_OVERFLOW_TEXTS = (
    "context length",
    "context_length",
    "context window",
    "context size",
    "maximum prompt length",
    "prompt is too long",
    "input is too long",
    "too many input tokens",
)


def of_status(status: int, headers: Mapping[str, str], error: BackendError, now: float) -> Failure:
    """Return what a response other than a stream means; ``now`` in unix seconds."""
    failure = _of_status(status, error)
    wait = retry_after(headers, now)
    return Failure(failure.failure, failure.error_class, status, wait)


def of_error(error: BackendError) -> Failure:
    """Return what an error in band means. One that says nothing known will not go away by asking again."""
    status = error.status
    if status is None:
        status = next((of for parts, of in _OF_CODE if any(part in error.code for part in parts)), 400)
    failure = _of_status(status, error)
    return Failure(failure.failure, failure.error_class, error.status)


def of_exception(error: Exception, *, armed: bool) -> Failure:
    """
    Return what an exception of the HTTP client means, before or after the backend has accepted the request.

    The class is one of ours; only that of a fault of our own, as the request was put together, is kept as it is.
    """
    if armed:
        return Failure(FailureClass.INCOMPLETE, "ReadError")
    if isinstance(error, aiohttp.ClientResponseError):
        return Failure(FailureClass.PROTOCOL, "ProtocolError")
    if isinstance(error, TimeoutError):
        return Failure(FailureClass.CONNECT, "ConnectTimeout")
    if isinstance(error, aiohttp.ClientError | OSError) and not isinstance(error, aiohttp.InvalidURL):
        return Failure(FailureClass.CONNECT, "ConnectError")
    # Nothing went out: the request could not be put together.
    return Failure(FailureClass.PREPARATION, type(error).__name__)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the backend asks to wait, 0 … 120; None if it asks for nothing that can be read."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(milliseconds / 1000, RETRY_AFTER_CAP)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        # By the clock of whoever wrote it, where it says what that shows: ours may have jumped (REL-7).
        written_at = _moment(headers.get("date"))
        until = _moment(value)
        seconds = None if until is None else max(0.0, until - (now if written_at is None else written_at))
    return None if seconds is None else min(seconds, RETRY_AFTER_CAP)


def is_overflow(error: BackendError) -> bool:
    """Say whether it means that the context window is exceeded."""
    text = error.message.lower()
    return any(code in error.code for code in _OVERFLOW_CODES) or any(
        part in text for part in _OVERFLOW_TEXTS
    )


def _of_status(status: int, error: BackendError) -> Failure:
    known = _OF_STATUS.get(status)
    if known is not None and known[0] in (FailureClass.RATE_LIMITED, FailureClass.AUTH_REFUSED):
        return Failure(*known)
    if is_overflow(error):
        return Failure(FailureClass.OVERFLOW, "ContextOverflow")
    if known is not None:
        return Failure(*known)
    if status >= 500:
        return Failure(FailureClass.SERVER_ERROR, "ServerError")
    if status >= 400:
        return Failure(FailureClass.BAD_REQUEST, "BadRequest")
    return Failure(FailureClass.PROTOCOL, "UnexpectedStatus")


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return number if number >= 0 else None


def _moment(value: str | None) -> float | None:
    """Return the unix seconds of an HTTP date."""
    try:
        return email.utils.parsedate_to_datetime(value).timestamp() if value is not None else None
    except (ValueError, OverflowError):
        return None
