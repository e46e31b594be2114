"""Results that are ours: the answers to actions that no peer has answered (RLY-4, 5, 9, 10)."""

import math

from actors.exceptions import ActorLost, ActorStopped, MailboxFull, Refusal, StoreUnavailable
from actors.messages.relay import Result


def failure(error: str, *, code: str | None = None, ambiguous: bool = False) -> Result:
    """Return a failed result. ``ambiguous`` marks one after which the action may have been done."""
    result: Result = {"success": False, "error": error}
    if code is not None:
        result["code"] = code
    if ambiguous:
        result["ambiguous"] = True
    return result


def closed(*, ambiguous: bool = False) -> Result:
    """The link is closing (RLY-4), or its drain ended before the answer came."""
    return failure("relay transport closed", ambiguous=ambiguous)


def not_connected() -> Result:
    """There is no socket (RLY-5)."""
    return failure("relay transport not connected")


def connection_lost(*, ambiguous: bool) -> Result:
    """The socket died (RLY-9)."""
    return failure("relay transport connection lost", ambiguous=ambiguous)


def timed_out(*, ambiguous: bool) -> Result:
    """No answer came in time (RLY-10)."""
    return failure("relay outbound timed out", ambiguous=ambiguous)


def egress_declined() -> Result:
    """The asker may not act there. One text for all causes, on purpose."""
    return failure("egress declined", code="egress_declined")


def unsupported_op() -> Result:
    """Nobody there knows the op."""
    return failure("unsupported op")


def no_connector() -> Result:
    """Nobody fronts the platform."""
    return failure("no connector for platform")


def busy() -> Result:
    """A bound is reached."""
    return failure("too many requests")


def of_error(error: Exception) -> Result:
    """Return what an ask's failure means for the action that it was to perform."""
    match error:
        case MailboxFull():
            return busy()
        case ActorLost():
            return connection_lost(ambiguous=True)
        case ActorStopped():
            return not_connected()
        case StoreUnavailable():
            return failure("store unavailable")
        case Refusal(code=code):
            return failure("refused", code=code)
    # It was under way: DeadlineExceeded, HandlerFailed.
    return timed_out(ambiguous=True)


def unsent(result: Result) -> bool:
    """Say whether nothing of the action reached the peer, so that it says nothing about the action itself."""
    errors = (closed(), not_connected(), connection_lost(ambiguous=False), timed_out(ambiguous=False), busy())
    return not result.get("ambiguous") and result.get("error") in [one["error"] for one in errors]


def unanswered(result: Result) -> bool:
    """Say whether the peer took the action, on a link that is up, and said nothing to it."""
    return result == timed_out(ambiguous=True)


def wait_asked(result: Result) -> float | None:
    """Return the seconds after which a peer wants to be asked again; None if it does not want that."""
    seconds = result.get("retry_after")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < math.inf:
        return float(seconds)
    return 0.0 if result.get("retryable") is True or result.get("code") == "rate_limited" else None


def declined(result: Result) -> bool:
    """Say whether a peer refused the destination, by code or by text."""
    return result.get("code") == "egress_declined" or "egress declined" in str(result.get("error", ""))
