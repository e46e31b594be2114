"""One answer as server-sent events (API-15)."""

from actors.runtime import Budget
from transports.front.chunks import DONE, KEEPALIVE, Chunks
from transports.front.errors import Headers, turn_failed
from transports.front.exchange import Exchange
from transports.front.feed import FAILED, BegunAgain, Called, Died, End, Gone, Heard, Silence, Text, Void
from transports.front.settings import FrontSettings
from transports.front.watch import CLIENT_GONE, STREAM_DIED, Watch

HEADERS: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)

TOOK_TOO_LONG = End(code=FAILED, status=504, message="The turn took too long.")
BEGUN_AGAIN = End(
    code=FAILED, message="The turn was interrupted and runs once more; its answer goes into the session."
)
"""What a stream has sent cannot be taken back, so another run's text must not follow it."""
DIED = End(
    code=FAILED,
    message="The model's stream died in mid-answer; what was sent of it is void, and the turn was stopped.",
)
"""For the same reason: a death is the end of a stream that has sent text of it (turns.md, section 3)."""
DIED_DETACHED = End(
    code=FAILED,
    message="The model's stream died in mid-answer; what was sent of it is void. The turn goes on, and its answer "
    "goes into the session.",
)
ANSWERED_AGAIN = End(
    code=FAILED,
    message="The model's stream died in mid-answer; what was sent of it is void. The whole answer is in the session.",
)


class ChunkStream:
    """Sends the chunks of one turn."""

    def __init__(
        self,
        exchange: Exchange,
        chunks: Chunks,
        *,
        include_usage: bool,
        detached: bool,
        settings: FrontSettings,
    ) -> None:
        self._exchange = exchange
        self._chunks = chunks
        self._include_usage = include_usage
        self._detached = detached
        self._settings = settings
        # Whether some of the answer was sent.
        self._partial = False
        # What goes out with the next piece: each write of its own costs as much as a chunk.
        self._before = b""

    async def say(self, text: str) -> None:
        """Send an answer that needs no turn."""
        await self._begin()
        await self._piece(Text(text))
        await self._end(End())

    async def follow(self, watch: Watch, budget: Budget) -> str | None:
        """Send what the turn says to its end; return why the rest of the turn is of no use, None if that is not so."""
        heard = await watch.next(budget.at_most(self._settings.early_error_s))
        if isinstance(heard, Gone):
            return CLIENT_GONE
        if isinstance(heard, End) and heard.failed:
            # Before the first byte an error can still be a status (API-6).
            await self._exchange.refuse(turn_failed(heard.status, heard.code or FAILED, heard.message))
            return None
        await self._begin()
        if isinstance(heard, Silence):
            await self._write(b"")
            heard = await watch.next(budget.at_most(self._settings.keepalive_s))
        void = False
        while not isinstance(heard, End | Gone | Died | BegunAgain):
            if isinstance(heard, Void):
                # If nothing follows but the turn's own failure, that says more.
                void = True
            elif isinstance(heard, Text | Called):
                if void:
                    heard = Died()
                    break
                await self._piece(heard)
            elif budget.expired():
                await self._end(TOOK_TOO_LONG)
                return CLIENT_GONE
            else:
                await self._write(KEEPALIVE)
            heard = await watch.next(budget.at_most(self._settings.keepalive_s))
        return await self._over(heard, void)

    async def _over(self, heard: Heard, void: bool) -> str | None:
        match heard:
            case End(failed=False) if void:
                await self._end(ANSWERED_AGAIN)
            case End():
                await self._end(heard)
            case BegunAgain():
                await self._end(BEGUN_AGAIN)
            case Died():
                await self._end(DIED_DETACHED if self._detached else DIED)
                return STREAM_DIED
        return CLIENT_GONE if isinstance(heard, Gone) else None

    async def _begin(self) -> None:
        await self._exchange.start(200, HEADERS)
        self._before = self._chunks.role()

    async def _write(self, chunk: bytes) -> None:
        before, self._before = self._before, b""
        await self._exchange.write(before + chunk)

    async def _piece(self, heard: Text | Called) -> None:
        self._partial = True
        chunk = (
            self._chunks.content(heard.text)
            if isinstance(heard, Text)
            else self._chunks.tool_calls(heard.calls)
        )
        await self._write(chunk)

    async def _end(self, end: End) -> None:
        if end.code is None:
            last = self._chunks.finish(end.finish_reason)
            if self._include_usage:
                last += self._chunks.usage(end.usage)
        else:
            last = self._chunks.failure(
                end.message,
                end.code,
                self._exchange.token,
                status=end.status,
                partial=self._partial,
                hermes=self._settings.compat_hermes,
            )
        await self._exchange.end(self._before + last + DONE)
