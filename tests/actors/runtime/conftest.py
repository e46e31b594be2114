"""A small actor that does what it is told; each test runs on each loop."""

import asyncio
from collections.abc import Callable
from typing import Any

from actors.messages.base import ControlMessage, Message, Request
from actors.messages.lifecycle import DownReason
from actors.runtime import Actor
from tests.loops import pytest_asyncio_loop_factories, pytest_runtest_setup

__all__ = ["Do", "Note", "Scribe", "UrgentNote", "pytest_asyncio_loop_factories", "pytest_runtest_setup"]


class Note(Message, frozen=True, kw_only=True):
    """Remember a word."""

    word: str


class UrgentNote(ControlMessage, frozen=True, kw_only=True):
    """Remember a word, before all ordinary ones."""

    word: str


class Do(Request[Any], frozen=True, kw_only=True):
    """Run a function on the actor and answer with what it returns; a coroutine is awaited."""

    work: Callable[[Any], Any]


class Scribe(Actor):
    """Remembers what it is told; does what it is asked."""

    kind = "scribe"

    def __init__(self) -> None:
        self.words: list[str] = []
        self.stopped_with: DownReason | None = None
        self.idles = 0

    async def on_receive(self, message: Any) -> Any:
        match message:
            case Note(word=word) | UrgentNote(word=word):
                self.words.append(word)
            case Do(work=work):
                result = work(self)
                return await result if asyncio.iscoroutine(result) else result
            case _:
                self.words.append(type(message).__name__)
        return None

    async def on_idle(self) -> None:
        self.idles += 1

    async def on_stop(self, reason: DownReason) -> None:
        self.stopped_with = reason
