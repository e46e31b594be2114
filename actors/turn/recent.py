"""The last events of a turn, for a watcher that lost its connection. Pure."""

from collections import deque

from actors.messages.turn import Content, Reasoning, ToolCalls, TurnEvent

MAX_EVENTS = 512
MAX_CHARACTERS = 65_536


class Recent:
    """Keeps a bounded number of events, and of characters in them; the oldest give way."""

    def __init__(self, *, events: int = MAX_EVENTS, characters: int = MAX_CHARACTERS) -> None:
        self._max_events = events
        self._max_characters = characters
        self._kept: deque[TurnEvent] = deque()
        self._characters = 0
        self._last_seq = 0

    def keep(self, event: TurnEvent) -> None:
        """Take the next event."""
        self._last_seq = event.seq
        self._kept.append(event)
        self._characters += _characters(event)
        while self._kept and (len(self._kept) > self._max_events or self._characters > self._max_characters):
            self._characters -= _characters(self._kept.popleft())

    def after(self, seq: int) -> tuple[TurnEvent, ...] | None:
        """Return all events after ``seq``; None if one of them is not kept any more, or ``seq`` is none of this turn's."""
        if not 0 <= seq <= self._last_seq:
            return None
        first = self._kept[0].seq if self._kept else self._last_seq + 1
        if first > seq + 1:
            return None
        return tuple(event for event in self._kept if event.seq > seq)


def _characters(event: TurnEvent) -> int:
    match event:
        case Content(text=text) | Reasoning(text=text):
            return len(text)
        case ToolCalls(calls=calls):
            return sum(len(call.arguments) for call in calls)
    return 0
