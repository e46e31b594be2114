"""How a command ends: its exit code, and the sentence that goes with it."""

import enum


class Exit(enum.IntEnum):
    """The documented exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_RUNNING = 3
    NOT_FOUND = 4
    REFUSED = 5
    TIMED_OUT = 6


MEANINGS = {
    Exit.OK: "ok",
    Exit.FAILED: "failed",
    Exit.USAGE: "wrong usage",
    Exit.NOT_RUNNING: "turnkeepd is not running",
    Exit.NOT_FOUND: "not found",
    Exit.REFUSED: "refused",
    Exit.TIMED_OUT: "timed out",
}

_BY_ERROR_CODE = {
    "not_found": Exit.NOT_FOUND,
    "gone": Exit.NOT_FOUND,
    "timeout": Exit.TIMED_OUT,
    "invalid": Exit.USAGE,
    "unknown_type": Exit.USAGE,
    "failed": Exit.FAILED,
    "store_unavailable": Exit.FAILED,
}


class Failure(Exception):
    """The command ends here, with this exit code and sentence."""

    def __init__(self, exit_code: Exit, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ConnectionLost(Failure):
    """The daemon went away, or dropped this connection, in mid-conversation."""

    def __init__(self, message: str) -> None:
        super().__init__(Exit.FAILED, message)


def of_error(code: str) -> Exit:
    """Return the exit code for an error of the admin protocol; any other code is a refusal."""
    return _BY_ERROR_CODE.get(code, Exit.REFUSED)
