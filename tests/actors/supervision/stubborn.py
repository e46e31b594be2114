"""Work that does not end when it is cancelled, and a tree on a clock that stands still."""

import asyncio
from typing import Any

from actors.messages.events import Publish
from actors.runtime import Actor, Budget, Ref, System
from actors.supervision import Supervisor
from actors.supervision.settings import SupervisionSettings
from actors.supervision.sweeper import Sweeper
from tests.actors.runtime.conftest import Do
from tests.clock import StillClock

LOST_SECONDS = 5.0
SETTINGS = SupervisionSettings(sweep_s=0.25, lost_s=LOST_SECONDS)


class Stubborn:
    """Swallows every cancellation until it is let go; ``late`` is what it does then."""

    def __init__(self, late: Any = lambda: None) -> None:
        self._go = asyncio.Event()
        self._late = late
        self.cancelled = 0
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def work(self) -> str:
        self.begun.set()
        while not self._go.is_set():
            try:
                await self._go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        self._late()
        self.ended.set()
        return "too late"

    async def let_go(self) -> None:
        self._go.set()
        if self.begun.is_set():
            await self.ended.wait()


class Sink(Actor):
    """Keeps what is published."""

    def __init__(self, events: list[Publish]) -> None:
        self._events = events

    async def on_receive(self, message: Publish) -> None:
        self._events.append(message)


class Tree:
    """A root with a sweeper and the given children, on virtual time."""

    def __init__(self, *specs: Any, **options: Any) -> None:
        self.clock = StillClock()
        self.system = System(clock=self.clock)
        self.events: list[Publish] = []
        self._stubborn: list[Stubborn] = []
        self.system.publish_to(self.system.spawn("/sink", lambda: Sink(self.events)))
        self.sweeper = self.system.spawn("/sweeper", lambda: Sweeper(SETTINGS))
        self.root = self.system.spawn("/", lambda: Supervisor(specs, **options))

    async def __aenter__(self) -> "Tree":
        await self.root.started(self.within())
        return self

    async def __aexit__(self, *_: object) -> None:
        for stubborn in self._stubborn:
            # The loop would wait for it when it closes.
            await stubborn.let_go()
        for path in ("/", "/sweeper", "/sink"):
            ref = self.system.find(path)
            if ref is not None:
                await self.system.stop(ref, self.within())

    def within(self, seconds: float = 60.0) -> Budget:
        return Budget.of(self.clock, seconds)

    def at(self, path: str) -> Ref:
        ref = self.system.find(path)
        assert ref is not None
        return ref

    def state(self, path: str) -> str | None:
        info = self.system.info(path)
        return info.state if info is not None else None

    def kinds(self, prefix: str = "actor.") -> list[str]:
        return [event.kind for event in self.events if event.kind.startswith(prefix)]

    async def hang(self, path: str, late: Any = lambda: None) -> Stubborn:
        """Give an actor a handler that does not end, and return once it runs."""
        stubborn = self.stubborn(late)
        self.at(path).ask(Do(work=lambda actor: stubborn.work()), self.within(3600))
        await stubborn.begun.wait()
        return stubborn

    def stubborn(self, late: Any = lambda: None) -> Stubborn:
        """Return work that is let go at the end of the test, if not before."""
        stubborn = Stubborn(late)
        self._stubborn.append(stubborn)
        return stubborn

    async def settle(self) -> None:
        """Let everything happen that needs no time; an actor that hangs is never idle."""
        for _ in range(50):
            self.clock.advance(0)
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass in steps of a sweep."""
        for _ in range(round(seconds / SETTINGS.sweep_s)):
            self.clock.advance(SETTINGS.sweep_s)
            await self.settle()

    async def incarnation(self, path: str) -> Any:
        await self.settle()
        return await self.at(path).ask(Do(work=lambda actor: actor.ctx.incarnation), self.within())
