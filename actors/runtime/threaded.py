"""A pykka ThreadingActor as one of ours: a place in the tree for code that must block."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pykka
from pykka.messages import ProxyGetAttr

from actors.exceptions import StartFailed
from actors.messages.lifecycle import DeadLetterReason, DownReason
from actors.runtime.actor import DEFERRED, Actor

READY = ProxyGetAttr(attr_path=("actor_urn",))
"""Something that every ThreadingActor answers, once its ``on_start`` has run."""


class ThreadEnd(asyncio.Future[None]):
    """The end of a thread. It cannot be cancelled, as nothing can end a thread but itself."""

    def cancel(self, msg: Any = None) -> bool:
        """Change nothing."""
        return False


class Handed(NamedTuple):
    """What pykka's loop reads of an envelope."""

    message: Any
    reply_to: "Answer"


class Answer:
    """Where theirs puts its answer, in its thread; it is taken up on the loop."""

    def __init__(self, host: "Threaded", message: Any) -> None:
        self._host = host
        self._kind = type(message).__name__
        self.future: asyncio.Future[Any] = host.loop.create_future()

    def set(self, value: Any = None) -> None:
        """Answer."""
        self._host.from_thread(self._resolve, value, None)

    def set_exception(self, exc_info: Any = None) -> None:
        """Fail with an ``exc_info`` triple, or with the exception in hand."""
        self._host.from_thread(self._resolve, None, (exc_info or sys.exc_info())[1])

    def _resolve(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            # Its asker's incarnation has ended.
            system = self._host.ctx.system
            system.dead_letters.add(self._host.ctx.path, self._kind, DeadLetterReason.LATE)
        elif error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


class Threaded(Actor):
    """
    Runs a pykka ThreadingActor in a thread of its own, for code that must block: a library without an asynchronous
    interface, a device, a slow file system.

    It is spawned, addressed, watched, supervised and stopped as any actor; ``factory`` makes theirs, anew for each
    incarnation. Theirs gets one message at a time, so the mailbox, its bound and its deadlines are ours, a stop
    overtakes what is queued, and this is the one handler that lasts as long as the work. What theirs raises ends the
    incarnation, a Refusal excepted. No thread can be killed: a stop or kill while theirs blocks is STILL_ALIVE, and
    nothing starts in this place before that thread has ended. A daemon thread: it keeps no process from exiting.
    """

    kind = "thread"

    def __init__(self, factory: Callable[[], pykka.ThreadingActor]) -> None:
        self._factory = factory
        self._answer: Answer | None = None
        self._ready = False
        self._stopping = False

    async def on_start(self) -> None:
        """Start the thread and wait for ``on_start`` of theirs. Raises StartFailed if its thread ended in there."""
        self.loop = asyncio.get_running_loop()
        self._theirs = self._factory()
        self._ended = ThreadEnd(loop=self.loop)
        self.ctx.run(self._tend(), "thread")
        try:
            await self._hand(READY)
        except (pykka.ActorDeadError, _GoneError) as error:
            raise StartFailed(self.ctx.path, "its thread ended in on_start") from error
        self._ready = True

    async def on_receive(self, message: Any) -> Any:
        """Let theirs handle it; if theirs ends without an answer, the asker gets ActorStopped."""
        stopped = self._theirs.actor_stopped
        try:
            if not stopped.is_set():
                return await self._hand(message)
        except pykka.ActorDeadError:
            if not stopped.is_set():
                # Of an actor that theirs speaks with.
                raise
        except _GoneError:
            pass
        self.ctx.defer()
        return DEFERRED

    async def on_stop(self, reason: DownReason) -> None:
        """Let theirs run its ``on_stop``, and wait for its thread."""
        self._stopping = True
        self._let_end()
        await asyncio.wait([self._ended])

    def from_thread(self, callback: Callable[..., None], *args: Any) -> None:
        """Call back on the loop, from theirs' thread."""
        try:
            self.loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # The loop is closed: nobody is there any more to hear it.
            return

    async def _hand(self, message: Any) -> Any:
        answer = self._answer = Answer(self, message)
        self._theirs.actor_inbox.put(Handed(message, answer))  # type: ignore[arg-type]  # pykka's own is private
        try:
            await asyncio.wait({answer.future, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.future.done():
                # pykka answers nobody whose ask came after its last look, nor whose handler wanted the process to exit.
                raise _GoneError
        finally:
            answer.future.cancel()
        return answer.future.result()

    async def _tend(self) -> None:
        threading.Thread(target=self._run, name=self.ctx.path, daemon=True).start()
        try:
            await asyncio.wait([self._ended])
        finally:
            if not self._ended.done():
                self._let_end()
                self.ctx.left_behind(self._ended)
        if self._ready and not self._stopping:
            unanswered = self._answer is not None and not self._answer.future.done()
            self.ctx.stop(DownReason.CRASHED if unanswered else DownReason.NORMAL)

    def _run(self) -> None:
        # Not pykka's start: that hides its thread, whose end nobody would see, and registers the actor where an exit in
        # any other's handler would stop it.
        try:
            self._theirs._actor_loop()
        finally:
            self.from_thread(self._ended.set_result, None)

    def _let_end(self) -> None:
        self._theirs.actor_ref.stop(block=False)


class _GoneError(Exception):
    """The thread ended without an answer."""
