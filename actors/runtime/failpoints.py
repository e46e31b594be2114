"""
Named points at which a test makes the real program fail: die, raise, wait, or leave something out.

POINTS is the list of all; a test holds it against the code. Each stands where an outcome crosses a border, so that the
moment before it and the moment after it can be told apart.
"""

import asyncio
import contextlib
import enum
import inspect
import math
import os
import signal
from collections.abc import Callable
from typing import Any

import msgspec


class Verb(enum.Enum):
    """How a point is passed, and so what an action may do there."""

    HIT = "hit"
    """In one step, on the loop: raise."""
    THREAD = "pass_point"
    """In one step, on the database's thread: raise, or block it."""
    REACH = "reach"
    """Awaited: raise, or wait by returning an awaitable."""
    DROPS = "drops"
    """In one step: raise, or leave out what follows by returning True."""


class Point(msgspec.Struct, frozen=True):
    """One point: how it is passed, and what comes next there."""

    verb: Verb
    next: str


POINTS = {
    "store.connect": Point(Verb.REACH, "the database is opened, at a start or after a fault"),
    "store.before_begin": Point(Verb.THREAD, "a batch begins"),
    "store.before_commit": Point(Verb.THREAD, "a batch that holds a write is committed"),
    "store.after_commit": Point(Verb.REACH, "a batch's answers are given"),
    "store.answer": Point(Verb.DROPS, "one answer is given"),
    "sessions.start": Point(Verb.REACH, "what the last run left is settled"),
    "sessions.recover": Point(Verb.HIT, "what a lost session left is looked for"),
    "session.take": Point(Verb.HIT, "the store is asked for a turn"),
    "session.taken": Point(Verb.HIT, "the actor of a turn is started"),
    "session.ended": Point(Verb.HIT, "a turn's stored end is noted"),
    "session.leave": Point(Verb.HIT, "a session asks to leave"),
    "turn.open": Point(Verb.HIT, "a lane is asked for a stream"),
    "turn.compact": Point(Verb.HIT, "a compaction is begun"),
    "compaction.stream": Point(Verb.HIT, "a message of a summary's stream is taken in"),
    "turn.stream": Point(Verb.HIT, "a message of a stream is taken in"),
    "turn.flush": Point(Verb.HIT, "the text so far is given to the store"),
    "turn.end": Point(Verb.HIT, "the end is given to the store"),
    "turn.leave": Point(Verb.HIT, "the session is told of the stored end"),
    "lane.prepare": Point(Verb.HIT, "a request to a backend is put together"),
    "lane.request": Point(Verb.REACH, "a request is posted to a backend"),
    "lane.armed": Point(Verb.REACH, "a backend's answer is read"),
    "lane.chunk": Point(Verb.REACH, "bytes of a backend are handed on"),
    "relay.frame": Point(Verb.REACH, "a frame that has been read is served"),
    "relay.accept": Point(Verb.HIT, "the store's answer about a message is waited for"),
    "relay.before_ack": Point(Verb.HIT, "a message that is kept is acknowledged"),
    "relay.write": Point(Verb.REACH, "frames are written"),
    "relay.claim": Point(Verb.HIT, "the store is asked for deliveries"),
    "relay.deliver": Point(Verb.HIT, "a part of a delivery is sent"),
    "relay.result": Point(Verb.HIT, "the result of a part is taken in"),
    "relay.settle": Point(Verb.HIT, "a delivery's outcome is given to the store"),
    "relay.begin": Point(Verb.HIT, "the beginning of an answer is given to the store"),
    "relay.edit": Point(Verb.HIT, "the next piece of an answer is sent as an edit"),
    "events.start": Point(Verb.REACH, "numbering goes on from the stored events"),
    "events.flush": Point(Verb.HIT, "events are given to the store"),
    "events.stored": Point(Verb.HIT, "the store's answer about them is noted"),
    "front.admit": Point(Verb.REACH, "a request's message is given to the store"),
    "front.admitted": Point(Verb.HIT, "the turn over a message that is kept is watched"),
    "front.hear": Point(Verb.REACH, "an event of a turn goes into its response"),
    "admin.perform": Point(Verb.HIT, "an operator's request is served"),
}


class Failpoints:
    """
    The actions of one system. Without any set, passing a point costs a look at an empty dict.

    The environment form is ``name=kill@3,other=raise``: at the third passage of ``name`` the process gets SIGKILL.
    ``hang`` waits for ever at a point that is awaited, however often it is cancelled.
    """

    def __init__(self) -> None:
        self._actions: dict[str, Callable[[], Any]] = {}
        self.passed: dict[str, int] = {}

    @classmethod
    def parse(cls, text: str) -> "Failpoints":
        """Build from the environment form. Raises ValueError for an unknown point or action."""
        points = cls()
        for part in filter(None, (item.strip() for item in text.split(","))):
            name, _, action = part.partition("=")
            verb, _, nth = action.partition("@")
            if verb not in ACTIONS:
                raise ValueError(f"failpoint {name}: unknown action {verb!r}; use {', '.join(ACTIONS)}")
            if verb == "hang" and name in POINTS and POINTS[name].verb is not Verb.REACH:
                raise ValueError(f"failpoint {name}: nothing waits there, so that nothing can hang")
            if not (nth or "1").isdecimal() or nth == "0":
                raise ValueError(f"failpoint {name}: {nth!r} is no number of a passage; count from 1")
            points.set(name, ACTIONS[verb], at=int(nth or 1))
        return points

    def set(self, name: str, action: Callable[[], Any], *, at: int = 1, times: float = 1) -> None:
        """
        Run ``action`` at the ``at``-th passage of ``name`` from now on, and at the ``times`` - 1 after it.

        Raises ValueError for a name that is no point's.
        """
        if name not in POINTS:
            raise ValueError(f"there is no failpoint {name}; known are {', '.join(POINTS)}")
        passage = 0

        def count() -> Any:
            nonlocal passage
            passage += 1
            return action() if at <= passage < at + times else None

        self._actions[name] = count

    def always(self, name: str, action: Callable[[], Any]) -> None:
        """Run ``action`` at each passage of ``name``, until it is cleared."""
        self.set(name, action, times=math.inf)

    def clear(self, name: str) -> None:
        """Forget the action of ``name``."""
        self._actions.pop(name, None)

    def hit(self, name: str) -> None:
        """Pass the point ``name``."""
        if self._actions:
            self._pass(name)

    async def reach(self, name: str) -> None:
        """Pass the point ``name``, and wait there if the action wants that."""
        if self._actions:
            wait = self._pass(name)
            if inspect.isawaitable(wait):
                await wait

    def drops(self, name: str) -> bool:
        """Pass the point ``name``; say whether what comes next is to be left out."""
        return bool(self._actions and self._pass(name))

    def _pass(self, name: str) -> Any:
        self.passed[name] = self.passed.get(name, 0) + 1
        action = self._actions.get(name)
        return action() if action is not None else None


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise OSError("failpoint")


async def _hang() -> None:
    never = asyncio.get_running_loop().create_future()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(never)


ACTIONS: dict[str, Callable[[], Any]] = {"kill": _kill, "raise": _raise, "hang": _hang}
