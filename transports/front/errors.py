"""How errors reach HTTP clients: OpenAI's shape, our own wording."""

from typing import Any

import msgspec

from actors.exceptions import (
    Busy,
    DeadlineExceeded,
    Invalid,
    NotFound,
    Refusal,
    StoreUnavailable,
    TurnkeepError,
    Unavailable,
)

encode = msgspec.json.Encoder().encode

RETRY_AFTER = ("retry-after", "1")
SHOULD_NOT_RETRY = ("x-should-retry", "false")


class ApiError(TurnkeepError):
    """A request ends with this status; ``headers`` are added to the answer."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
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
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


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


def from_fault(error: TurnkeepError) -> ApiError:
    """Say what an actor's refusal or a fault of the store means to a client."""
    match error:
        case ApiError():
            return error
        case Busy():
            return ApiError(429, error.code, str(error), headers=(RETRY_AFTER,))
        case NotFound():
            return ApiError(404, error.code, str(error))
        case Invalid():
            return ApiError(400, error.code, str(error))
        case Unavailable() | StoreUnavailable() | DeadlineExceeded():
            return ApiError(
                503,
                "unavailable",
                "Turnkeep cannot take the message now; nothing was kept.",
                headers=(RETRY_AFTER,),
            )
        case Refusal():
            return ApiError(409, error.code, str(error))
    return ApiError(500, "internal_error", "Something went wrong inside Turnkeep.")
