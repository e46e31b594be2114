"""A system, a fake backend, and somebody who asks a lane as a turn would."""

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from actors.messages.lane import (
    CancelStream,
    DescribeLane,
    LaneInfo,
    OpenStream,
    Prepared,
    StreamDelta,
    StreamFailed,
    StreamFinished,
    StreamMessage,
    StreamPrepared,
)
from actors.messages.rows import Entry
from actors.runtime import Budget, Clock, Ref, System
from tests.fakes.backend import FakeBackend
from transports.backends import LaneSettings, ModelLane

SECONDS = 30.0
"""The budget of whatever a test waits for."""


class Asker:
    """Opens streams at a lane and receives what it is told of them."""

    def __init__(self, system: System, ref: Ref) -> None:
        self.system = system
        self.ref = ref
        self.port = system.port("/test")
        self.prepared: list[Prepared] = []
        self._ids = itertools.count()

    def within(self, seconds: float = SECONDS) -> Budget:
        return Budget.of(self.system.clock, seconds)

    def open(
        self,
        text: str | tuple[Entry, ...] = "hello",
        *,
        budget: Budget | None = None,
        reply_to: Any = None,
        stream_id: str | None = None,
        prepared: Prepared | None = None,
        dump: bool = False,
        **params: Any,
    ) -> str:
        stream_id = stream_id or f"stream-{next(self._ids)}"
        entries = (Entry(role="user", content=text),) if isinstance(text, str) else text
        self.ref.tell(
            OpenStream(
                stream_id=stream_id,
                entries=entries,
                params=params,
                reply_to=reply_to or self.port,
                budget=budget or self.within(),
                prepared=prepared,
                dump=dump,
            )
        )
        return stream_id

    def cancel(self, stream_id: str) -> None:
        self.ref.tell(CancelStream(stream_id=stream_id))

    async def next(self) -> StreamMessage:
        """Return the next message that is more than the request, which goes to ``prepared``."""
        while isinstance(message := await self.port.receive(self.within()), StreamPrepared):
            self.prepared.append(message.prepared)
        assert isinstance(message, StreamMessage)
        return message

    async def until_end(self) -> list[StreamMessage]:
        """Return everything up to the end of a stream."""
        messages = [await self.next()]
        while not isinstance(messages[-1], StreamFinished | StreamFailed):
            messages.append(await self.next())
        return messages

    async def ask(self, text: str | tuple[Entry, ...] = "hello", **params: Any) -> list[StreamMessage]:
        """Open a stream and return all that comes of it."""
        self.open(text, **params)
        return await self.until_end()

    async def describe(self) -> LaneInfo:
        return await self.ref.ask(DescribeLane(), self.within())

    async def until_idle(self) -> None:
        """Return when the lane has no stream under way."""
        while (await self.describe()).streams:
            await self.system.idle()


def text_of(messages: list[StreamMessage]) -> str:
    return "".join(message.text for message in messages if isinstance(message, StreamDelta))


def failure_of(messages: list[StreamMessage]) -> StreamFailed:
    assert isinstance(messages[-1], StreamFailed)
    return messages[-1]


@pytest.fixture
def clock() -> Clock | None:
    return None


@pytest.fixture
async def system(clock) -> AsyncIterator[System]:
    made = System(clock, stop_seconds=5.0)
    yield made
    for info in made.actors():
        ref = made.find(info.path)
        if ref is not None and info.parent is None:
            await made.stop(ref, Budget.of(made.clock, 5.0))


@pytest.fixture
async def backend() -> AsyncIterator[FakeBackend]:
    async with FakeBackend() as fake:
        yield fake


@pytest.fixture
def ask_lane(system, backend) -> Callable[..., Asker]:
    """Start a lane to the fake backend; settings may be changed by keyword."""

    def start(**changes: Any) -> Asker:
        settings = LaneSettings(**{"name": "main", "base_url": backend.url, "model": "fake-model", **changes})
        return Asker(system, system.spawn("/lanes-main", lambda: ModelLane(settings, 1)))

    return start
