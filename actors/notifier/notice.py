"""
The sentence that a chat gets about a turn without an answer (CHAT-1): what happened, and what to do.

Made of our own words only: no class paths, no stack, no text of a backend.
"""

import enum


class Cause(enum.StrEnum):
    """Why there is no answer, as people need to know it."""

    NO_LANE = "no_lane"
    CONNECT = "connect"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    AUTH_REFUSED = "auth_refused"
    BAD_REQUEST = "bad_request"
    OVERFLOW = "overflow"
    PREPARATION = "preparation"
    STREAM_DIED = "stream_died"
    EMPTY = "empty"
    CALLS_CUT_OFF = "calls_cut_off"
    RESTART = "restart"
    SHUTDOWN = "shutdown"
    CRASH = "crash"


_SENTENCES = {
    Cause.NO_LANE: "There is no model to answer with: none is configured under that name.",
    Cause.CONNECT: "The model could not be reached.",
    Cause.TIMEOUT: "The model did not answer (timed out).",
    Cause.RATE_LIMITED: "The model is busy (rate limited).",
    Cause.SERVER_ERROR: "The model's server failed.",
    Cause.AUTH_REFUSED: "The model's server refused our credentials; whoever runs Turnkeep has to check them.",
    Cause.BAD_REQUEST: "The model's server did not accept the request.",
    Cause.OVERFLOW: "The conversation no longer fits into the model's context window; start a new one.",
    Cause.PREPARATION: "The conversation as it is stored could not be sent to the model; /compact or /new may help.",
    Cause.STREAM_DIED: "The model's answer broke off before its end.",
    Cause.EMPTY: "The model gave an empty answer.",
    Cause.CALLS_CUT_OFF: "The model's answer ended before its tool calls were whole; they were dropped.",
    Cause.RESTART: "Turnkeep was restarted while it was answering.",
    Cause.SHUTDOWN: "Turnkeep was shut down while it was answering.",
    Cause.CRASH: "Something went wrong inside Turnkeep while it was answering.",
}


def notice(cause: Cause) -> str:
    """Return the sentences for people."""
    return f"{_SENTENCES[cause]} Your message is kept; send it again to have it answered."
