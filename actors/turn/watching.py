"""Who watches a turn, and what each of them is told."""

from typing import Any

from actors.exceptions import RuntimeFault
from actors.messages.rows import TakenTurn
from actors.messages.turn import Snapshot
from actors.runtime import Address
from actors.turn.effects import Emit
from actors.turn.recent import Recent
from actors.turn.state import State


class Watching:
    """Publishes one turn's events; somebody who is gone, or cannot keep up, is told no more."""

    def __init__(self, taken: TakenTurn, watchers: tuple[Address, ...]) -> None:
        self._ids: dict[str, Any] = {
            "session_id": taken.session_id,
            "turn_id": taken.turn_id,
            "turn_gen": taken.turn_gen,
        }
        self._watchers = list(watchers)
        self._recent = Recent()

    def emit(self, emit: Emit) -> None:
        """Tell everybody, and keep it for who comes back."""
        event = emit.kind(**self._ids, seq=emit.seq, attempt=emit.attempt, **emit.fields)
        self._recent.keep(event)
        for watcher in list(self._watchers):
            if not tell(watcher, event):
                self._watchers.remove(watcher)

    def attach(self, watcher: Address, after_seq: int | None, state: State) -> None:
        """Tell it what it lacks, and from here on everything."""
        if watcher in self._watchers:
            return
        lacks = self._recent.after(after_seq) if after_seq is not None else None
        if lacks is None:
            lacks = (self._snapshot(state, gap=after_seq is not None),)
        if all(tell(watcher, event) for event in lacks):
            self._watchers.append(watcher)

    def detach(self, watcher: Address) -> None:
        """Tell it nothing more."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def _snapshot(self, state: State, *, gap: bool) -> Snapshot:
        return Snapshot(
            **self._ids,
            seq=state.seq,
            attempt=state.attempt,
            text=state.text.content[: state.text.shown],
            tool_calls=() if state.text.hold_back else state.calls.calls,
            gap=gap,
        )


def tell(address: Address, message: Any) -> bool:
    """Tell somebody who may be gone; say whether it was there."""
    try:
        address.tell(message)
    except RuntimeFault:
        return False
    return True
