"""A connection to /admin: requests with their answers, and events."""

import asyncio
import itertools
import json
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from transports.terminal.exits import ConnectionLost, Exit, Failure, of_error
from transports.terminal.place import Place

CALL_SECONDS = 30.0
"""How long an answer is waited for, unless --timeout says something else."""

MAX_ANSWER = 256 * 1024 * 1024
EVENTS_WAITING = 1000
"""Events read ahead; beyond, the socket is not read until they are taken."""

UNAUTHORIZED = 4401


class AdminClient:
    """One open connection. Used inside ``async with``."""

    def __init__(self, socket: ClientConnection, seconds: float) -> None:
        self._socket = socket
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._events: asyncio.Queue[dict[str, Any] | Failure] = asyncio.Queue(EVENTS_WAITING)
        # Why nothing can be asked any more.
        self.lost: Failure | None = None
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, place: Place, seconds: float | None = None) -> "AdminClient":
        """Connect. Raises Failure: not running, timed out, no key, or no admin server there."""
        url, token = place.admin_url(), place.token()
        seconds = CALL_SECONDS if seconds is None else seconds
        try:
            socket = await connect(
                url,
                additional_headers={"Authorization": f"Bearer {token}"},
                open_timeout=min(seconds, CALL_SECONDS),
                close_timeout=1.0,
                max_size=MAX_ANSWER,
                compression=None,
                # A daemon on this machine is not behind the proxy that the environment may name.
                proxy=None,
            )
        except TimeoutError:
            raise Failure(
                Exit.TIMED_OUT, f"{url} did not answer within {min(seconds, CALL_SECONDS):g} s"
            ) from None
        except OSError as error:
            raise place.not_running(f"nothing answers at {url} ({error.strerror or error})") from None
        except InvalidStatus as error:
            raise Failure(Exit.FAILED, f"{url} answers with HTTP {error.response.status_code}") from None
        except (InvalidHandshake, InvalidURI, ConnectionClosed, EOFError) as error:
            raise Failure(Exit.FAILED, f"{url} is no admin server: {error}") from None
        return cls(socket, seconds)

    async def __aenter__(self) -> "AdminClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()

    async def call(self, request_type: str, **fields: Any) -> dict[str, Any]:
        """Ask and return the result. Raises Failure with the exit code that the error stands for."""
        if self.lost is not None:
            raise self.lost
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            async with asyncio.timeout(self._seconds):
                await self._socket.send(json.dumps({"id": number, "type": request_type, **given}))
                frame = await answer
        except TimeoutError:
            raise Failure(
                Exit.TIMED_OUT, f"{request_type}: no answer within {self._seconds:g} s; see --timeout"
            ) from None
        except ConnectionClosed:
            raise self.lost or ConnectionLost("the connection was closed") from None
        finally:
            del self._answers[number]
            if answer.done() and not answer.cancelled():
                # The loss came while this still sent: asyncio complains of a failure that nobody has looked at.
                answer.exception()
        if not frame.get("ok"):
            error = frame.get("error") or {}
            raise Failure(of_error(str(error.get("code"))), str(error.get("message")))
        result: dict[str, Any] = frame["result"]
        return result

    async def event(self) -> dict[str, Any]:
        """Return the next event. Raises ConnectionLost after the last one."""
        event = await self._events.get()
        if isinstance(event, Failure):
            raise event
        return event

    async def _read(self) -> None:
        try:
            async for raw in self._socket:
                await self._take(json.loads(raw))
        except (ConnectionClosed, ValueError):
            # Fall through: an abrupt end is told like any other.
            pass
        self.lost = self._why()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self.lost)
        await self._events.put(self.lost)

    async def _take(self, frame: dict[str, Any]) -> None:
        if "event" in frame:
            await self._events.put(frame)
            return
        answer = self._answers.get(frame.get("id", 0))
        if answer is not None and not answer.done():
            answer.set_result(frame)

    def _why(self) -> Failure:
        if self._socket.close_code == UNAUTHORIZED:
            return Failure(Exit.REFUSED, "the admin key was refused; give another one with --token")
        return ConnectionLost("turnkeepd closed the connection")
