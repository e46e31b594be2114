"""Where somebody stands who follows a session's turns, over any number of connections: pure."""

from typing import Any

LAST = ("idle", "error")
"""The states whose event is the last of a turn."""


class Following:
    """
    Takes events as they come, and knows after which one to go on.

    ``after`` is the ``turn_gen`` and ``seq`` of the last event that is known, None to begin with what happens now.
    """

    def __init__(self, after: tuple[int, int] | None) -> None:
        self._after = after
        # The last turn whose end is known.
        self._ended_gen = 0
        # Turns whose end was seen.
        self.ended = 0

    def question(self) -> dict[str, int]:
        """Return what is to be asked."""
        return {} if self._after is None else {"after_gen": self._after[0], "after_seq": self._after[1]}

    def answered(self, last_ended: int) -> None:
        """Take the answer: the turn that was the last to end before the first question."""
        if self._after is None:
            self._after = (last_ended, 0)
            self._ended_gen = last_ended

    def take(self, event: dict[str, Any]) -> bool:
        """Note an event; say whether it is to be shown."""
        kind, data = event["event"], event["data"]
        if kind == "turn.gap":
            return True
        if kind == "turn.outcome":
            return self._end(data["turn"]["turn_gen"])
        self._after = (data["turn_gen"], data["seq"])
        if kind == "turn.state" and data["state"] in LAST:
            self._end(data["turn_gen"])
        return True

    def _end(self, turn_gen: int) -> bool:
        if turn_gen <= self._ended_gen:
            return False
        self._ended_gen = turn_gen
        self.ended += 1
        return True
