"""What one actor handles, as it handles it: for whoever looks, at no cost while nobody does."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from actors.exceptions import Refusal
from actors.messages.base import Message

if TYPE_CHECKING:
    from actors.runtime.cell import Cell
    from actors.runtime.envelope import Envelope

log = structlog.get_logger("turnkeep.runtime")

Handler = Callable[[Any], Coroutine[Any, Any, Any]]


class Traced(Message, frozen=True, kw_only=True):
    """One message that was handled. Times in seconds."""

    path: str
    incarnation: int
    message_type: str
    sender: str | None
    """The path of the actor that sent it; None if it was no actor, or not seen."""
    size: int
    """Bytes, estimated: of what it holds, without refs and the like."""
    waited: float
    """In the mailbox, since it was put or the trace began."""
    seconds: float
    """Of handling; what the handler awaited counts."""
    outcome: str
    """ok, refused or failed."""
    message: Message


Tracer = Callable[[Traced], None]
"""Is told on the loop's thread. One that raises is told no more."""


class Tracing:
    """The tracers of one actor, and what was noted of messages when they were put."""

    def __init__(self, cell: "Cell") -> None:
        self._cell = cell
        self._began = cell.system.clock.monotonic()
        self.tracers: list[Tracer] = []
        # (sender, monotonic seconds) by the id of the entry; one message may lie there more than once.
        self._puts: dict[int, deque[tuple[str | None, float]]] = {}

    def put(self, entry: "Envelope") -> None:
        """Note who put an entry, and when; in the sender's thread."""
        now = self._cell.system.clock.monotonic()
        self._puts.setdefault(id(entry), deque()).append((self._sender(), now))

    def forget(self, entry: "Envelope") -> tuple[str | None, float] | None:
        """Return what was noted of an entry that leaves the mailbox."""
        noted = self._puts.get(id(entry))
        if noted is None:
            return None
        put = noted.popleft()
        if not noted:
            del self._puts[id(entry)]
        return put

    def around(self, receive: Handler) -> Handler:
        """Return a handler that does what ``receive`` does and tells the tracers of it."""

        async def traced(message: Message) -> Any:
            monotonic = self._cell.system.clock.monotonic
            sender, put_at = self._taken()
            begun, outcome = monotonic(), "failed"
            try:
                answer = await receive(message)
                outcome = "ok"
                return answer
            except Refusal:
                outcome = "refused"
                raise
            finally:
                self._tell(
                    Traced(
                        path=self._cell.path,
                        incarnation=self._cell.incarnation,
                        message_type=type(message).__name__,
                        sender=sender,
                        size=size_of(message),
                        waited=begun - put_at,
                        seconds=monotonic() - begun,
                        outcome=outcome,
                        message=message,
                    )
                )

        return traced

    def _taken(self) -> tuple[str | None, float]:
        own = self._cell.own
        put = self.forget(own.current) if own is not None and own.current is not None else None
        return put or (None, self._began)

    def _sender(self) -> str | None:
        if not self._cell.system.on_loop_thread():
            return None
        task = asyncio.current_task(self._cell.system.loop)
        if task is None:
            # A timer of its own: nothing else puts from outside a task.
            return self._cell.path
        # Activations have the name of their actor, and the tasks beside it begin with that.
        name = task.get_name()
        return name.partition(":")[0] if name.startswith("/") else None

    def _tell(self, traced: Traced) -> None:
        for tracer in list(self.tracers):
            try:
                tracer(traced)
            except Exception as error:
                self.tracers.remove(tracer)
                log.warning("actor.trace_ended", path=traced.path, error=type(error).__name__)


def size_of(message: Message) -> int:
    """Return about how many bytes a message holds."""
    try:
        return len(msgspec.msgpack.encode(message, enc_hook=lambda unencodable: None))
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Half a character, a huge number: it cannot be written, so nobody knows.
        return 0
