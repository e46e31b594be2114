"""How errors reach HTTP clients: OpenAI's shape, our own wording."""

from collections.abc import Iterable
from typing import Any

import msgspec

from actors.exceptions import (
    ActorStopped,
    Busy,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    Invalid,
    MailboxFull,
    NotFound,
    Refusal,
    StoreFault,
    TurnkeepError,
    Unavailable,
)

encode = msgspec.json.Encoder().encode

Headers = tuple[tuple[str, str], ...]

RETRY_AFTER = ("retry-after", "1")
SHOULD_NOT_RETRY = ("x-should-retry", "false")
"""Clients' own retries obey it: after an admission a second request would be a second turn (API-13)."""


class ApiError(TurnkeepError):
    """A request ends with this status; ``headers`` are added to the answer."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, headers: Headers = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers

    def body(self, session_id: str | None = None) -> bytes:
        """Return the JSON body."""
        return encode({"error": error_object(str(self), self.status, self.code, self.param, session_id)})


def error_object(
    message: str, status: int, code: str, param: str | None = None, session_id: str | None = None
) -> dict[str, Any]:
    """Return the ``error`` member of a body or of a stream's chunk."""
    found = {"message": message, "type": _type_of(status), "param": param, "code": code}
    return found if session_id is None else {**found, "session_id": session_id}


def _type_of(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 409:
        return "conflict_error"
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


# Before a message is admitted


def invalid(message: str, param: str | None = None, code: str = "invalid_request") -> ApiError:
    """A request that is wrong; sending it again will not help."""
    return ApiError(400, code, message, param=param)


def unauthorized() -> ApiError:
    """A request without a good key; why is not said."""
    return ApiError(
        401,
        "invalid_api_key",
        "A valid API key is needed: Authorization: Bearer <key>.",
        headers=(("www-authenticate", "Bearer"),),
    )


def draining() -> ApiError:
    """A request that came while the daemon stops."""
    return ApiError(503, "draining", "Turnkeep is stopping; try again in a moment.", headers=(RETRY_AFTER,))


def no_such_model(names: Iterable[str]) -> ApiError:
    """A model that nobody offers; ``names`` are those that can be asked for."""
    text = f"There is no model of that name; there are: {', '.join(names) or 'none now'}."
    return ApiError(404, "model_not_found", text, param="model")


def from_fault(error: TurnkeepError) -> ApiError:
    """Say what an actor's refusal or a fault means to a client of whose message nothing was kept."""
    match error:
        case ApiError():
            return error
        case Busy():
            return ApiError(429, error.code, str(error), headers=(RETRY_AFTER,))
        case Unavailable() | StoreFault() | DeadlineExceeded() | MailboxFull() | ActorStopped():
            text = "Turnkeep cannot take the message now; nothing was kept."
            return ApiError(503, "unavailable", text, headers=(RETRY_AFTER,))
        case Refusal():
            return ApiError(_STATUSES.get(type(error), 409), error.code, str(error))
    return internal()


_STATUSES = {Invalid: 400, Forbidden: 403, NotFound: 404, Conflict: 409}


def internal() -> ApiError:
    """Something that nobody foresaw; what it was is in the log."""
    return ApiError(500, "internal_error", "Something went wrong inside Turnkeep.")


# From the admission on


def turn_failed(status: int, code: str, message: str) -> ApiError:
    """A message that is kept, and whose turn is over without an answer."""
    return ApiError(status, code, message, headers=(SHOULD_NOT_RETRY,))


def outcome_unknown() -> ApiError:
    """A store that did not say in time whether it has kept a message."""
    return ApiError(
        503,
        "outcome_unknown",
        "It is not known whether the message was kept: look into the session before you send it again.",
        headers=(SHOULD_NOT_RETRY,),
    )
