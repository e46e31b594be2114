"""What of one answer has been shown, and what an event adds to it: pure, so that no text is shown twice."""

from typing import Any, NamedTuple


class Step(NamedTuple):
    """What to print for one event."""

    text: str = ""
    """Belongs to the answer."""
    note: str = ""
    """A sentence beside it."""
    done: bool = False


class Answer:
    """One turn as its watcher hears it, over any number of connections."""

    def __init__(self) -> None:
        self.text = ""
        self.failed = False
        # The turn's own account of a failure came, so that its end needs none.
        self._explained = False

    def take(self, event: dict[str, Any]) -> Step:
        """Return what the event adds."""
        data = event.get("data") or {}
        match event.get("event"):
            case "turn.content":
                return self._add(data["text"])
            case "turn.snapshot":
                return self._complete(data["text"])
            case "turn.stream_discarded":
                return self._begin_again()
            case (
                "turn.retry"
                | "turn.lane_retry"
                | "turn.lane_fallback"
                | "turn.lane_failed"
                | "turn.lane_degraded"
            ):
                return Step(note=_told(event["event"], data))
            case "turn.cancelled":
                self.failed = self._explained = True
                return Step(note="Stopped.")
            case "turn.error":
                self.failed = self._explained = True
                return Step(note=str(data["text"]))
            case "turn.state":
                return self._state(data)
            case "turn.outcome":
                return self._outcome(data["turn"])
        return Step()

    def _add(self, text: str) -> Step:
        self.text += text
        return Step(text=text)

    def _complete(self, whole: str) -> Step:
        """Bring what was shown to ``whole``; begin a new line where it is something else."""
        if whole.startswith(self.text):
            return self._add(whole[len(self.text) :])
        self.text = whole
        return Step(text=f"\n{whole}")

    def _begin_again(self) -> Step:
        """What was shown stays on the screen, and is no part of the answer any more."""
        shown, self.text = self.text, ""
        return Step(text="\n") if shown else Step()

    def _state(self, data: dict[str, Any]) -> Step:
        if data["state"] == "error":
            self.failed = True
            note = "" if self._explained else "The turn failed."
            return Step(note=note, done=True)
        if data["state"] == "idle":
            text = self._complete(data["text"]).text if data.get("text") else ""
            return Step(text=text, done=True)
        return Step()

    def _outcome(self, turn: dict[str, Any] | None) -> Step:
        if turn is None:
            self.failed = True
            return Step(note="The message was cancelled before its turn.", done=True)
        if turn["state"] in ("admitted", "running"):
            return Step()
        if turn["state"] == "committed":
            return Step(text=self._complete(turn["text"] or "").text, done=True)
        self.failed = True
        text = self._complete(turn["partial"]).text if turn["partial"] else ""
        reason = f" ({turn['reason']})" if turn["reason"] else ""
        return Step(text=text, note=f"The turn ended {turn['state']}{reason}.", done=True)


def _told(kind: str, data: dict[str, Any]) -> str:
    """Return what people are told of a ladder's step."""
    match kind:
        case "turn.retry":
            wait, which = _seconds(data["delay_s"]), f"{data['n']}/{data['of']}"
            return f"stream died mid-response ({data['error_class']}), retrying in {wait} ({which})"
        case "turn.lane_retry":
            return f"Retrying in {_seconds(data['delay_s'])}: {data['error_class']}"
        case "turn.lane_fallback":
            return f"Primary model failed, falling back to {data['to']}"
        case "turn.lane_failed":
            return f"Fallback {data['lane']} also failed: {data['error_class']}"
    return f"Fallback {data['lane']} is degraded, trying anyway"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") + " s"
