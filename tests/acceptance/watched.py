"""A turn as an operator watches it: said over /admin, followed event by event, and looked up when it is over."""

from typing import Any, Self

from actors.messages.rows import HistoryKind, TurnRow
from actors.messages.store import ListTurns, ReadHistory
from tests.admin_wire import AdminWire
from tests.harness import Harness, until

LIFECYCLE = ("thinking_start", "stream_end", "retry", "stream_discarded", "turn_committed", "error")


class Watched:
    """One chat of the console, with everything that was told of its turns."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.wire = AdminWire(harness.url, harness.admin_token)
        self.events: list[Any] = []

    async def __aenter__(self) -> Self:
        await self.wire.__aenter__()
        opened = await self.wire.ask("sessions.open", chat="main")
        self.session_id = opened["session"]["session_id"]
        await self.wire.ask("sessions.follow", session_id=self.session_id)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.wire.__aexit__(*exc)

    async def say(self, text: str = "hi") -> None:
        await self.wire.ask("sessions.send", chat="main", text=text)

    async def stop(self) -> None:
        assert (await self.wire.ask("sessions.stop_turn", session_id=self.session_id))["stopped"] is True

    async def until(self, kind: str, **data: Any) -> Any:
        """Hear on until an event of a kind that has this data."""
        while True:
            event = await self.wire.event()
            self.events.append(event)
            if event["event"] == f"turn.{kind}" and data.items() <= event["data"].items():
                return event["data"]

    async def over(self) -> TurnRow:
        """Hear on to the end of the turn; return its row."""
        while not (self.events and self.events[-1]["data"].get("state") in ("idle", "error")):
            self.events.append(await self.wire.event())

        async def ended() -> TurnRow | None:
            (turn,) = await self.harness.ask("/store", ListTurns(session_id=self.session_id))
            return turn if turn.ended_at is not None else None

        turn: TurnRow = await until(ended)
        return turn

    @property
    def kinds(self) -> list[str]:
        return [event["event"].removeprefix("turn.") for event in self.events]

    @property
    def life(self) -> list[str]:
        return [kind for kind in self.kinds if kind in LIFECYCLE]

    @property
    def contents(self) -> list[str]:
        return [text["text"] for text in self.of("content")]

    def of(self, kind: str) -> list[Any]:
        """The data of the events of a kind."""
        return [event["data"] for event in self.events if event["event"] == f"turn.{kind}"]

    @property
    def state(self) -> tuple[str, str | None]:
        """The last state, with its text."""
        last = self.of("state")[-1]
        return last["state"], last.get("text")

    async def rows(self) -> list[str]:
        """What a model gets of the assistant's from here on."""
        rows = await self.harness.ask("/store", ReadHistory(session_id=self.session_id))
        return [row.content for row in rows if row.role == "assistant" and row.kind is HistoryKind.MESSAGE]
