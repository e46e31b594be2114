"""What a turn's actor tells itself: its timers, and the answers that it waits for while it goes on receiving."""

from actors.messages.base import ControlMessage
from actors.messages.lane import LaneBinding
from actors.messages.rows import TurnRow


class BudgetOver(ControlMessage, frozen=True, kw_only=True):
    """The whole turn has used up its time."""


class LanesKnown(ControlMessage, frozen=True, kw_only=True):
    """/lanes has said which lanes there are; None and an error's class if it has not."""

    request: int
    lanes: tuple[LaneBinding, ...] | None
    error_class: str = ""


class BackoffOver(ControlMessage, frozen=True, kw_only=True):
    """A wait of the ladder, or between tries to store the end, is over."""


class FlushDue(ControlMessage, frozen=True, kw_only=True):
    """The flush interval is over."""


class FlushAnswered(ControlMessage, frozen=True, kw_only=True):
    """The store has answered a flush, in whichever way; ``superseded``: the turn is not the running one any more."""

    superseded: bool = False


class EndAnswered(ControlMessage, frozen=True, kw_only=True):
    """The store's answer about the end; None and an error's class if it failed."""

    row: TurnRow | None
    conflict: bool = False
