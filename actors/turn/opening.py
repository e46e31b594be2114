"""How a request is given to a lane."""

from actors.exceptions import MailboxFull, RuntimeFault
from actors.messages.lane import FailureClass, LaneBinding, OpenStream, StreamFailed


def give(lane: LaneBinding, opening: OpenStream) -> None:
    """Give a request to its lane. One that is at its bound, or being started again, fails as its backend would."""
    try:
        lane.lane.tell(opening)
    except RuntimeFault as fault:
        failure = FailureClass.RATE_LIMITED if isinstance(fault, MailboxFull) else FailureClass.CONNECT
        opening.reply_to.tell(
            StreamFailed(stream_id=opening.stream_id, failure=failure, error_class=type(fault).__name__)
        )
