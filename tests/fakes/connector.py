"""
A connector peer that speaks the real protocol over a real socket: dials in, describes its platforms, sends messages,
answers actions by script, and after a reconnect sends again what was not acknowledged.
"""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection

from actors.messages.secret import Secret
from actors.relay.credentials import NEVER, mint_token

Frame = dict[str, Any]
Answer = Callable[[Frame], Frame | None]

WAIT_SECONDS = 10.0
"""How long a test waits for what has to come at all."""


def descriptor(platform: str = "discord", **fields: Any) -> Frame:
    """A connector's description of a platform, as it goes over the wire."""
    return {
        "contract_version": 1,
        "platform": platform,
        "label": platform.title(),
        "max_message_length": 2000,
        "supports_draft_streaming": False,
        "supports_edit": False,
        "supports_threads": True,
        "markdown_dialect": "plain",
        "len_unit": "chars",
        "a_field_from_the_future": 42,
        **fields,
    }


def event(text: str = "hi", message_id: str | None = "m1", **source: Any) -> Frame:
    """A user's message."""
    where = {
        "platform": "discord",
        "chat_id": "C1",
        "chat_type": "group",
        "chat_name": None,
        "user_id": "U1",
        "user_name": "ann",
        "thread_id": None,
        "chat_topic": None,
        **source,
    }
    return {"text": text, "message_type": "text", "message_id": message_id, "source": where}


class Peer:
    """One end of the relay contract. ``heard`` holds every frame that came, in order."""

    def __init__(self, url: str, name: str, secret: str, *, expires: int = NEVER) -> None:
        self.url = url.replace("http", "ws", 1).rstrip("/") + "/relay"
        self.bearer = mint_token(name, Secret(secret), expires)
        self.heard: list[Frame] = []
        self.socket: ClientConnection | None = None
        self._tail = ""
        self._news = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Dial, without a first frame."""
        self.socket = await websockets.connect(
            self.url,
            additional_headers={"Authorization": f"Bearer {self.bearer}"},
            compression=None,
            ping_interval=None,
        )
        self._tail = ""
        self._reader = asyncio.create_task(self._read(self.socket))

    async def close(self) -> None:
        """Hang up."""
        if self.socket is not None:
            await self.socket.close()
        if self._reader is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader

    def cut(self) -> None:
        """Break the connection off without a word, as a network does."""
        assert self.socket is not None
        self.socket.transport.abort()

    async def send(self, *frames: Frame) -> None:
        """Send frames in one message."""
        await self.send_text("".join(json.dumps(frame) + "\n" for frame in frames))

    async def send_text(self, text: str | bytes) -> None:
        """Send a message as it is."""
        assert self.socket is not None
        await self.socket.send(text)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was heard fulfils the condition."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def frames(self, kind: str, count: int = 1) -> list[Frame]:
        """Wait for so many frames of a type, and return all there are."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    def of(self, kind: str) -> list[Frame]:
        """The frames of a type that have come so far."""
        return [frame for frame in self.heard if frame["type"] == kind]

    async def closed(self) -> tuple[int, str]:
        """Wait for the other side to close; return its code and reason."""
        assert self.socket is not None
        async with asyncio.timeout(WAIT_SECONDS):
            await self.socket.wait_closed()
        return self.socket.close_code or 0, self.socket.close_reason or ""

    async def _read(self, socket: ClientConnection) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for message in socket:
                text = message if isinstance(message, str) else message.decode()
                *lines, self._tail = (self._tail + text).split("\n")
                for line in filter(None, lines):
                    frame = json.loads(line)
                    self.heard.append(frame)
                    await self.on_frame(frame)
                self._news.set()
        self._news.set()

    async def on_frame(self, frame: Frame) -> None:
        """React to a frame; a plain peer only remembers it."""


class Gateway(Peer):
    """A gateway peer: says hello for its identities and asks for actions."""

    def __init__(self, url: str, name: str, secret: str, *identities: tuple[str, str]) -> None:
        super().__init__(url, name, secret)
        self.identities = identities
        self._ids = itertools.count(1)

    async def dial(self) -> "Gateway":
        """Connect, say hello for each identity, and wait for as many descriptors."""
        await self.connect()
        before = len(self.of("descriptor"))
        await self.send(
            *({"type": "hello", "platform": platform, "botId": bot} for platform, bot in self.identities)
        )
        await self.frames("descriptor", before + len(self.identities))
        return self

    async def act(self, action: Frame, **fields: Any) -> Frame:
        """Ask for an action and return its result."""
        request_id = f"q{next(self._ids)}"
        await self.send({"type": "outbound", "requestId": request_id, "action": action, **fields})

        def results() -> list[Frame]:
            return [frame for frame in self.of("outbound_result") if frame["requestId"] == request_id]

        await self.until(lambda: bool(results()))
        [result] = results()
        return dict(result["result"])


class Connector(Peer):
    """
    A connector peer. ``answer`` turns an outbound frame into its result, or None to leave it unanswered.

    ``unacknowledged`` holds the buffered messages that are to be sent again, by buffer id; ``screen`` what people see: the
    text of each message that was sent and answered well, by its id, with the edits of it, wherever they came from.
    """

    def __init__(
        self, url: str, name: str, secret: str, *platforms: str, answer: Answer | None = None, **fields: Any
    ) -> None:
        super().__init__(url, name, secret)
        self.descriptors = [descriptor(platform, **fields) for platform in platforms or ("discord",)]
        self.answer = answer or self.say_yes
        self.unacknowledged: dict[str, Frame] = {}
        self.screen: dict[str, str] = {}
        self.edited_at: list[float] = []
        self._ids = itertools.count(1)

    def say_yes(self, outbound: Frame) -> Frame:
        """Succeed, with a message id for what is sent."""
        if outbound["action"]["op"] in ("send", "follow_up"):
            return {"success": True, "message_id": f"s{next(self._ids)}"}
        return {"success": True}

    async def dial(self) -> "Connector":
        """Connect, describe every platform, wait for the hellos, then send again what was not acknowledged."""
        await self.connect()
        before = len(self.of("hello"))
        await self.send(*({"type": "descriptor", "descriptor": one} for one in self.descriptors))
        await self.frames("hello", before + len(self.descriptors))
        if self.unacknowledged:
            await self.send(*self.unacknowledged.values())
        return self

    async def buffered(self, buffer_id: str, message: Frame) -> None:
        """Send a message that is kept here until it is acknowledged."""
        frame = {"type": "inbound", "event": message, "bufferId": buffer_id}
        self.unacknowledged[buffer_id] = frame
        await self.send(frame)

    async def live(self, message: Frame) -> None:
        """Send a message and forget it."""
        await self.send({"type": "inbound", "event": message})

    async def acknowledged(self) -> None:
        """Wait until nothing is left to be sent again."""
        await self.until(lambda: not self.unacknowledged)

    async def on_frame(self, frame: Frame) -> None:
        """Answer actions, take acknowledgements."""
        if frame["type"] == "inbound_ack":
            self.unacknowledged.pop(frame["bufferId"], None)
        elif frame["type"] == "outbound":
            if frame["action"]["op"] == "edit":
                self.edited_at.append(time.monotonic())
            result = self.answer(frame)
            if result is not None:
                with contextlib.suppress(websockets.ConnectionClosed):
                    await self.result(frame, result)

    async def result(self, outbound: Frame, result: Frame) -> None:
        """Answer an action, and perform it if the answer says so."""
        action = outbound["action"]
        if result.get("success"):
            message_id = action["message_id"] if action["op"] == "edit" else result.get("message_id")
            if message_id is not None and "content" in action:
                self.screen[message_id] = action["content"]
        await self.send({"type": "outbound_result", "requestId": outbound["requestId"], "result": result})

    def ops(self) -> list[tuple[str, str]]:
        """What was asked of it, and with which text, in order."""
        return [(frame["action"]["op"], frame["action"]["content"]) for frame in self.of("outbound")]

    def contents(self) -> list[str]:
        """The texts that were sent here, in order."""
        return [frame["action"]["content"] for frame in self.of("outbound")]
