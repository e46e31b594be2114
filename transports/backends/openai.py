"""An HTTP server that speaks OpenAI's chat completions."""

import asyncio
import contextlib
import hashlib
import io
import logging
import os

import aiohttp
import structlog

from actors.messages.lane import FailureClass, OpenStream, Prepared
from actors.runtime import System
from transports.backends import failures
from transports.backends.backend import Backend
from transports.backends.chunks import BackendError, decode_error
from transports.backends.preparation import prepare
from transports.backends.reading import Progress, Reading
from transports.backends.redaction import redact
from transports.backends.settings import LaneSettings
from transports.backends.stream import Failure, Stream

log = structlog.get_logger("turnkeep.backend")

ERROR_BODY_BYTES = 64 << 10
"""What is read of a response that is no stream."""

MOST_DUMPED = 200_000
"""Characters of a request in the debug log."""

INLINE_BODY_BYTES = 1 << 20
"""The longest request that is handed to the socket in one piece."""


class CuttableResponse(aiohttp.ClientResponse):
    """A response whose ``close`` cuts the connection at once, whatever lies unsent in it or is open in TLS."""

    def close(self) -> None:
        """Abort the transport, unless the connection has gone back to the pool."""
        connection = self.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        super().close()


def call_ids(stream_id: str) -> str:
    """Return what the ids of an attempt's tool calls begin with: short, as some backends take no more than 40 letters."""
    return f"call_{hashlib.sha256(stream_id.encode()).hexdigest()[:16]}_"


class OpenAIBackend(Backend):
    """Posts each stream as one request, all with one client session. Retries are the turn's."""

    def __init__(self, settings: LaneSettings, gen: int, system: System) -> None:
        super().__init__(settings, gen, system)
        self._url = settings.completions_url()
        self._key = settings.key(os.environ)
        self._traits = settings.traits()
        self._secrets = settings.secrets(os.environ)
        self._lacks_key = settings.lacks_key(os.environ)
        if self._lacks_key:
            log.warning("backend.key_missing", lane=settings.name, variable=settings.api_key_env)
        headers = {
            "Accept": "text/event-stream",
            # A server that compresses holds text back until its block is full.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "turnkeep",
        }
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.value}"
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=settings.keepalive_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            response_class=CuttableResponse,
            timeout=aiohttp.ClientTimeout(connect=settings.connect_timeout_s),
        )

    async def close(self) -> None:
        """Close the client session and with it every connection."""
        await self._client.close()

    def open_stream(self, request: OpenStream) -> Stream:
        """Return a stream under the idle watchdog."""
        return Stream(request, self._system.clock, self.settings.idle_timeout_s)

    async def serve(self, stream: Stream) -> None:
        """Post the request and read the answer."""
        if self._lacks_key:
            stream.fail(failures.NO_KEY)
            return
        body = self._body(stream)
        if body is None:
            return
        response = await self._post(stream, body)
        if response is None:
            return
        try:
            if response.status == 200 and response.content_type not in ("application/json", "text/html"):
                await self._read(stream, response)
            else:
                await self._refused(stream, response)
        finally:
            response.close()

    def _body(self, stream: Stream) -> bytes | None:
        """Return the request as an earlier attempt has sent it, or put it together."""
        request, prepared = stream.request, stream.request.prepared
        if prepared is None or (prepared.lane, prepared.gen) != (self.settings.name, self.gen):
            try:
                self._system.failpoints.hit("lane.prepare")
                body = prepare(request.entries, request.params, self._traits)
            except Exception as error:
                # Whatever it is: nothing was sent, and its text may quote the conversation.
                log.warning("backend.not_prepared", lane=self.settings.name, error=type(error).__name__)
                stream.fail(Failure(FailureClass.PREPARATION, type(error).__name__))
                return None
            prepared = Prepared(lane=self.settings.name, gen=self.gen, body=body)
        stream.prepared(prepared)
        if request.dump and log.is_enabled_for(logging.DEBUG):
            text = redact(prepared.body.decode(), self._secrets, MOST_DUMPED)
            log.debug("lane.request", lane=self.settings.name, stream_id=request.stream_id, body=text)
        return prepared.body

    async def _post(self, stream: Stream, body: bytes) -> aiohttp.ClientResponse | None:
        try:
            await self._system.failpoints.reach("lane.request")
            data = body if len(body) <= INLINE_BODY_BYTES else io.BytesIO(body)
            return await self._client.post(self._url, data=data, allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._fail(stream, failures.of_exception(error, armed=False), str(error))
            return None

    async def _read(self, stream: Stream, response: aiohttp.ClientResponse) -> None:
        stream.heard()
        stream.arm()
        await self._system.failpoints.reach("lane.armed")
        reading = Reading(
            max_event_bytes=self.settings.max_event_bytes,
            finish_optional=self.settings.finish_optional,
            call_ids=call_ids(stream.request.stream_id),
        )
        try:
            async with asyncio.timeout(None) as trailing:
                await self._pump(stream, response, reading, trailing)
        except (aiohttp.ClientError, OSError) as error:
            # After the finish reason these are a clean end, and the reading says so.
            reading.broke(failures.of_exception(error, armed=True))
        if reading.failure is not None:
            self._fail(stream, reading.failure, reading.error.message if reading.error else "")
        else:
            stream.finish(reading.finish_reason, reading.usage)
        if reading.done:
            await self._keep_connection(response)

    async def _pump(
        self, stream: Stream, response: aiohttp.ClientResponse, reading: Reading, trailing: asyncio.Timeout
    ) -> None:
        loop = asyncio.get_running_loop()
        while reading.progress is not Progress.CLOSED:
            data = await response.content.readany()
            await self._system.failpoints.reach("lane.chunk")
            stream.heard()
            for piece in reading.feed(data) if data else reading.end():
                stream.delta(text=piece.text, reasoning=piece.reasoning, tool_calls=piece.tool_calls)
            if reading.progress is Progress.TRAILING and trailing.when() is None:
                trailing.reschedule(loop.time() + self.settings.trailing_s)

    async def _keep_connection(self, response: aiohttp.ClientResponse) -> None:
        """Read to the end of the response, so that the next request saves a handshake."""
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with asyncio.timeout(self.settings.trailing_s):
                await response.content.readany()

    async def _refused(self, stream: Stream, response: aiohttp.ClientResponse) -> None:
        body = bytearray()
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with asyncio.timeout(self.settings.trailing_s):
                while len(body) < ERROR_BODY_BYTES:
                    piece = await response.content.read(ERROR_BODY_BYTES - len(body))
                    if not piece:
                        break
                    body += piece
        # Not every server or proxy refuses with an error object; the words are looked at all the same.
        error = decode_error(bytes(body))
        refusal = error or BackendError(message=body.decode(errors="replace"))
        if response.status != 200:
            failure = failures.of_status(
                response.status, response.headers, refusal, self._system.clock.wall()
            )
        else:
            failure = failures.NOT_A_STREAM if error is None else failures.of_error(error)
        self._fail(stream, failure, refusal.message)

    def _fail(self, stream: Stream, failure: Failure, text: str) -> None:
        stream.fail(failure)
        if text:
            log.debug(
                "backend.error",
                lane=self.settings.name,
                error=failure.error_class,
                text=redact(text, self._secrets),
            )
