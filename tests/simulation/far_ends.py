"""Who the daemon deals with: a chat platform's connector, API clients and a model backend, in good and bad moods."""

import asyncio
import contextlib
import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
import websockets

from tests.fakes.backend import FakeBackend
from tests.fakes.backend_http import Connection, Exchange
from tests.fakes.backend_script import (
    Die,
    Done,
    Finish,
    Pause,
    Reply,
    Role,
    Silence,
    Step,
    Text,
    Usage,
)
from tests.fakes.connector import Connector, Frame, event

Trace = Callable[..., None]

UNREACHABLE = (OSError, TimeoutError, websockets.WebSocketException)

CLOSING_SECONDS = 0.05
"""How long the end of a request may take to reach the backend."""


class Platform(Connector):
    """
    A connector that redials, sends again what was not acknowledged (and now and then what was), and shows what it is
    told to send, unless it says that it could not.
    """

    def __init__(self, url: str, name: str, secret: str, rng: random.Random, trace: Trace) -> None:
        super().__init__(url, name, secret, supports_edit=True)
        self.random = rng
        self.trace = trace
        # Whether everything is answered well and at once.
        self.calm = False
        # Texts that were promised to be kept, and what each message has shown, the present text last.
        self.acknowledged_texts: set[str] = set()
        self.messages: dict[str, list[str]] = {}
        self.denied: set[str] = set()
        self.sent: list[str] = []
        self._known: dict[str, Frame] = {}
        self._late: set[asyncio.Task[None]] = set()
        self.answer = self.decide

    async def stay(self) -> None:
        """Keep a link up for ever."""
        while True:
            try:
                await self.dial()
                self.trace("link", "up")
                await self._repeat()
                assert self.socket is not None
                await self.socket.wait_closed()
                self.trace("link", "closed", self.socket.close_code)
            except UNREACHABLE as error:
                self.trace("link", "refused", type(error).__name__)
            if self.socket is not None:
                self.cut()
            await asyncio.sleep(self.random.uniform(0.01, 1.0))

    async def say(self, chat: str, text: str, *, buffered: bool) -> None:
        """Pass a person's message on; one that is buffered is kept until it is acknowledged."""
        message = event(text, f"id-{text}", chat_id=chat)
        self.sent.append(text)
        with contextlib.suppress(*UNREACHABLE, AssertionError):
            if buffered:
                self._known[text] = message
                await self.buffered(text, message)
            else:
                await self.live(message)

    async def interrupt(self, chat: str) -> None:
        """Stop what is being answered in a chat."""
        key = f"agent:main:discord:group:{chat}:U1"
        with contextlib.suppress(*UNREACHABLE, AssertionError):
            await self.send({"type": "interrupt_inbound", "session_key": key, "chat_id": chat})

    async def _repeat(self) -> None:
        for text in sorted(self.acknowledged_texts):
            if self.random.random() < 0.1:
                await self.send({"type": "inbound", "event": self._known[text], "bufferId": text})

    async def on_frame(self, frame: Frame) -> None:
        """Note what is promised."""
        if frame["type"] == "inbound_ack":
            self.acknowledged_texts.add(frame["bufferId"])
        action = frame.get("action", {})
        self.trace("frame", frame["type"], frame.get("bufferId"), action.get("content"))
        await super().on_frame(frame)

    def decide(self, outbound: Frame) -> Frame | None:
        """Answer an action."""
        mood = 0.0 if self.calm else self.random.random()
        if mood > 0.96:
            self._deny(outbound["action"])
            return {"success": False, "error": "the platform is busy"}
        result = self._show(outbound["action"])
        if mood < 0.75:
            return result
        if mood < 0.88:
            task = asyncio.get_running_loop().create_task(self._answer_late(outbound, result))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        elif mood < 0.93:
            self.cut()
        return None

    def _deny(self, action: Frame) -> None:
        """Note an edit that is refused although the message shows its text, as an earlier one was heard of too late."""
        if action["op"] == "edit" and self.messages.get(action["message_id"], [])[-1:] == [action["content"]]:
            self.denied.add(action["message_id"])

    def _show(self, action: Frame) -> Frame:
        if action["op"] == "edit":
            if action["message_id"] not in self.messages:
                return {"success": False, "error": "no such message"}
            self.messages[action["message_id"]].append(action["content"])
            return {"success": True}
        message_id = f"p{len(self.messages)}"
        self.messages[message_id] = [action["content"]]
        return {"success": True, "message_id": message_id}

    async def _answer_late(self, outbound: Frame, result: Frame) -> None:
        await asyncio.sleep(self.random.uniform(0.1, 40.0))
        with contextlib.suppress(*UNREACHABLE):
            await self.result(outbound, result)


class Client:
    """An API client. ``begun`` are messages whose answer had begun, ``answers`` whole answers, by message."""

    def __init__(self, url: str, key: str, rng: random.Random, trace: Trace) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._key = key
        self.random = rng
        self.trace = trace
        self.begun: set[str] = set()
        self.answers: dict[str, str] = {}
        self.ends: dict[str, str] = {}

    async def say(self, chat: str, text: str) -> None:
        """Send a message and read what comes, to its end or not."""
        patience = self.random.uniform(0.0, 5.0) if self.random.random() < 0.15 else 700.0
        detached = self.random.random() < 0.3
        headers = {"Authorization": f"Bearer {self._key}", "X-Session-Id": chat}
        if detached:
            headers["X-Turnkeep-Detach"] = "1"
        stream = self.random.random() < 0.6
        body = {"messages": [{"role": "user", "content": text}], "stream": stream}
        try:
            async with (
                asyncio.timeout(patience),
                aiohttp.ClientSession(headers=headers) as session,
                session.post(self._url, json=body) as response,
            ):
                self.ends[text] = await (self._read_stream if stream else self._read)(text, response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.ends[text] = type(error).__name__
        self.trace("client", text, self.ends[text])

    async def _read(self, text: str, response: aiohttp.ClientResponse) -> str:
        body = await response.json()
        if response.status != 200:
            return str(body["error"]["code"])
        self.begun.add(text)
        self.answers[text] = body["choices"][0]["message"]["content"]
        return "answered"

    async def _read_stream(self, text: str, response: aiohttp.ClientResponse) -> str:
        if response.status != 200:
            return str((await response.json())["error"]["code"])
        self.begun.add(text)
        answer, error = "", "cut off"
        async for line in response.content:
            data = line.decode().removeprefix("data: ").strip()
            if not data or data.startswith(":"):
                continue
            if data == "[DONE]":
                if error == "cut off":
                    self.answers[text] = answer
                    return "answered"
                return error
            chunk = msgspec.json.decode(data)
            if "error" in chunk:
                error = str(chunk["error"]["code"])
            for choice in chunk.get("choices", ()):
                answer += choice["delta"].get("content") or ""
                if choice["finish_reason"] == "error" and error == "cut off":
                    error = "failed"
        return error


class Model(FakeBackend):
    """A backend that is quick or slow, stalls, refuses, overflows or dies. ``overlaps`` are chats that it served twice at once."""

    def __init__(self, port: int, rng: random.Random, trace: Trace) -> None:
        super().__init__(port=port)
        self.random = rng
        self.trace = trace
        self.calm = False
        self.overlaps: list[str] = []
        self._open: defaultdict[str, list[Exchange]] = defaultdict(list)
        self._checks: set[asyncio.TimerHandle] = set()

    async def _serve(self, connection: Connection, exchange: Exchange) -> None:
        text = exchange.last_user_message
        chat = text.rpartition("-")[0]
        others, self._open[chat] = self._open[chat], [*self._open[chat], exchange]
        self.trace("backend", text)
        asyncio.get_running_loop().call_later(CLOSING_SECONDS, self._look, chat, exchange, others)
        await super()._serve(connection, exchange)

    def _look(self, chat: str, exchange: Exchange, others: list[Exchange]) -> None:
        """Two requests of one chat that are still open a moment later are two turns at once."""
        if not _over(exchange) and not all(_over(other) for other in others):
            self.overlaps.append(chat)
        self._open[chat] = [one for one in self._open[chat] if not _over(one)]

    def _steps(self, exchange: Exchange) -> tuple[Step, ...]:
        words = f"reply to: {exchange.last_user_message}".split(" ")
        mood = 0.0 if self.calm else self.random.random()
        if mood > 0.98:
            return (Reply(400, {"error": {"code": "context_length_exceeded", "message": "long"}}),)
        if mood > 0.965:
            return (Reply(500, {"error": {"message": "no"}}),)
        if mood > 0.94:
            return (Reply(429, {"error": {"message": "slow down"}}, {"Retry-After": "2"}),)
        if mood > 0.92:
            return (Die("fin"),)
        pause = 0.05 if mood < 0.7 else 4.0
        steps: list[Step] = [Role()]
        for n, word in enumerate(words):
            steps += [Pause(self.random.random() * pause), Text(word if n == len(words) - 1 else f"{word} ")]
        whole = (*steps, Finish(), Usage(), Done())
        if mood < 0.8:
            return whole
        cut = self.random.randrange(len(whole))
        return (*whole[:cut], Silence() if mood < 0.86 else Die("fin"))


def _over(exchange: Exchange) -> bool:
    return exchange.served.is_set() or exchange.connection_closed.is_set()


def texts(prefix: str) -> Any:
    """Yield texts that differ; what is before the last dash names the chat."""
    return (f"{prefix}-{n}." for n in itertools.count())
