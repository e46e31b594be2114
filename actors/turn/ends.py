"""How turns end: what is stored of each, and what people are told. Our own words only. Pure."""

from actors.messages.lane import TOOL_CALLS, FailureClass
from actors.messages.rows import TurnState
from actors.notifier.notice import Cause, notice
from actors.turn.happenings import Finished
from actors.turn.state import End, Lost, State

CANCELLED_MARK = "[generation cancelled before completion]"
SHUTDOWN_MARK = "[interrupted by shutdown]"
BROKEN_OFF_MARK = "[the answer broke off here]"

CAUSES = {
    FailureClass.CONNECT: Cause.CONNECT,
    FailureClass.TIMEOUT: Cause.TIMEOUT,
    FailureClass.STALLED: Cause.TIMEOUT,
    FailureClass.INCOMPLETE: Cause.STREAM_DIED,
    FailureClass.RATE_LIMITED: Cause.RATE_LIMITED,
    FailureClass.SERVER_ERROR: Cause.SERVER_ERROR,
    FailureClass.AUTH_REFUSED: Cause.AUTH_REFUSED,
    FailureClass.BAD_REQUEST: Cause.BAD_REQUEST,
    FailureClass.OVERFLOW: Cause.OVERFLOW,
    FailureClass.PROTOCOL: Cause.SERVER_ERROR,
    FailureClass.PREPARATION: Cause.PREPARATION,
}

_SENTENCES = {
    FailureClass.AUTH_REFUSED: (
        "The backend refused the lane's key. It is read when the lane starts, and no lane is configured to mint a"
        " credential per call: put a valid one in its place and reload the lanes"
    ),
    FailureClass.PREPARATION: (
        "The request could not be made from the stored history; /compact shortens it, /new begins afresh"
    ),
    FailureClass.OVERFLOW: "Context window exceeded, and the history could not be made short enough",
    FailureClass.RATE_LIMITED: "The backend is busy",
    FailureClass.BAD_REQUEST: "The backend did not accept the request",
    FailureClass.CONNECT: "The backend could not be reached",
    FailureClass.TIMEOUT: "The backend did not answer in time",
}


NO_LANE = "No lane of that name is configured (NoLane)."


def committed(state: State, finished: Finished) -> End:
    """Return the end of a stream that came to its own; ``state`` has the whole text."""
    usage, estimated = finished.usage, False
    if usage is None:
        usage, estimated = _estimate(state), True
    calls, said = state.calls.calls, None
    if calls and finished.finish_reason != TOOL_CALLS:
        # Nobody knows what the last one would have been (TRN-55).
        calls, said = (), notice(Cause.CALLS_CUT_OFF)
    elif not state.text.content and not calls:
        said = notice(Cause.EMPTY)
    return End(
        TurnState.COMMITTED,
        reason=finished.finish_reason,
        text=state.text.content,
        tool_calls=calls,
        notice=said,
        usage=usage,
        estimated=estimated,
    )


def stopped(state: State, by: str) -> End:
    """Return the end of a turn that somebody stopped: what was said stays, with a mark."""
    said = state.partial
    if by == "shutdown":
        return End(
            TurnState.INTERRUPTED,
            reason=str(Cause.SHUTDOWN),
            interrupted_text=_marked(said, SHUTDOWN_MARK),
            notice=notice(Cause.SHUTDOWN),
        )
    marked = _marked(said, CANCELLED_MARK) if said or state.armed else None
    return End(TurnState.CANCELLED, reason=by, text=marked)


def failed(state: State, lost: Lost, cause: Cause) -> End:
    """Return the end of a turn that has no way on."""
    said = state.partial
    return End(
        TurnState.FAILED,
        reason=str(cause),
        interrupted_text=_marked(said, BROKEN_OFF_MARK) if said else None,
        notice=notice(cause),
        error=error_text(state, lost) if cause is not Cause.NO_LANE else NO_LANE,
    )


def error_text(state: State, lost: Lost) -> str:
    """Return the sentence for clients and operators: the class, and what to do where that is not plain."""
    if state.death == lost:
        retries = state.deaths - 1
        tried = f"; {retries} retries did not recover it" if retries else ""
        return f"Backend stream died mid-response ({lost.error_class}){tried}."
    sentence = _SENTENCES.get(lost.failure, "The backend failed")
    return f"{sentence} ({lost.error_class})."


def error_class(lost: Lost) -> str:
    """Return the class that a failed turn names: a stream that died is an incomplete one, whatever cut it."""
    return "IncompleteStream" if lost.failure is FailureClass.INCOMPLETE else lost.error_class


def _marked(text: str, mark: str) -> str:
    return f"{text}\n\n{mark}" if text else mark


def _estimate(state: State) -> dict[str, int]:
    """Return the tokens as their characters suggest; never an older turn's numbers."""
    each = state.lane.traits.chars_per_token if state.lane is not None else 4.0
    said = len(state.text.content) + sum(len(call.arguments) for call in state.calls.calls)
    prompt, answer = (max(1, int(chars / each)) for chars in (state.prompt_chars, said))
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
