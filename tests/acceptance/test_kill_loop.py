"""
The daemon is killed again and again under relay and API load; then the books are read.

Nothing that was acknowledged is lost, no message is turned twice, no reply goes out twice, and what was cut off says so.
"""

import asyncio
import contextlib
import itertools
import random
import sqlite3
from collections import Counter

import aiohttp
import pytest
import websockets

from actors.messages.rows import DeliveryState, InboxState, TurnState
from tests.daemon import Daemon
from tests.fakes.backend import FakeBackend
from tests.fakes.connector import Connector, event
from tests.harness import until
from tests.terminal import admin_call

CHATS = 8
CLIENTS = 4


class Load:
    """Relay and API clients that go on whatever happens to the daemon, and remember what they were promised."""

    def __init__(self, daemon: Daemon, connector: Connector, seed: int) -> None:
        self.daemon = daemon
        self.connector = connector
        self.random = random.Random(seed)
        self.sent: list[str] = []
        # API messages whose turn was shown to have begun, by the session header that came with the first byte.
        self.begun: list[str] = []
        self.answered: list[str] = []
        self._ids = itertools.count(1)

    async def run_round(self) -> None:
        """Let load flow and kill the daemon at a random point of it."""
        await self.connect()
        heard = len(self.connector.heard) + self.random.randint(1, 60)
        begun = len(self.begun) + self.random.randint(0, 8)
        load = [asyncio.create_task(self.chat(n)) for n in range(CHATS)]
        load += [asyncio.create_task(self.client(n)) for n in range(CLIENTS)]
        await until(lambda: len(self.connector.heard) >= heard and len(self.begun) >= begun)
        await self.daemon.kill()
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        await self.connector.close()

    async def connect(self) -> None:
        """Start the daemon where it was, and dial in again."""
        await self.daemon.start()
        await self.connector.dial()

    async def chat(self, n: int) -> None:
        """One chat: a message, and the next as soon as the last is acknowledged."""
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                text = f"relay-{next(self._ids)}."
                self.sent.append(text)
                await self.connector.buffered(text, event(text, f"id-{text}", chat_id=f"C{n}"))
                await self.connector.until(lambda text=text: text not in self.connector.unacknowledged)

    async def client(self, n: int) -> None:
        """One API client: a streamed message, and the next as soon as it is answered."""
        headers = {"Authorization": f"Bearer {self.daemon.api_key}", "X-Session-Id": f"api-{n}"}
        url = f"{self.daemon.url}/v1/chat/completions"
        async with aiohttp.ClientSession(headers=headers) as session:
            with contextlib.suppress(aiohttp.ClientError):
                while True:
                    text = f"api-{next(self._ids)}."
                    body = {"messages": [{"role": "user", "content": text}], "stream": True}
                    async with session.post(url, json=body) as response:
                        if response.status == 200:
                            self.begun.append(text)
                        if (await response.read()).endswith(b"data: [DONE]\n\n"):
                            self.answered.append(text)


def read(daemon: Daemon, sql: str) -> list[sqlite3.Row]:
    """Read the database of a daemon that has stopped."""
    with contextlib.closing(sqlite3.connect(daemon.data_dir / "turnkeep.db")) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_rly_11_kills_under_load_lose_nothing_and_turn_nothing_twice(tmp_path, kills):
    async with FakeBackend(interval_s=0.001) as backend:
        config = (
            f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n'
            "[turn]\nretry_base_s = 0.01\nflush_s = 0.01\n[relay]\nretry_base_s = 0.01\n"
        )
        daemon = Daemon(tmp_path / "data", config=config)
        try:
            await daemon.start()
            answer = await admin_call(daemon, "peers.add", name="bot", identities=["discord:bot-1"])
            connector = Connector(daemon.url, "bot", answer["secret"])
            daemon.port = daemon.port_in_use
            await daemon.kill()
            load = Load(daemon, connector, seed=kills)
            for _ in range(kills):
                await load.run_round()
            await load.connect()
            await connector.acknowledged()
            await until(lambda: _settled(daemon), 60)
            assert await daemon.stop() == 0
        finally:
            await daemon.close()
        _check(daemon, load, backend)


async def _settled(daemon: Daemon) -> bool:
    """Say whether nothing waits any more."""
    sessions = (await admin_call(daemon, "sessions.list", limit=1000))["sessions"]
    pending = (await admin_call(daemon, "deliveries.list", states=["pending", "attempting"]))["deliveries"]
    under_way = {TurnState.ADMITTED, TurnState.RUNNING}
    return not pending and not any(row["queued"] or row["last_turn"] in under_way for row in sessions)


def _check(daemon: Daemon, load: Load, backend: FakeBackend) -> None:
    assert [row[0] for row in read(daemon, "PRAGMA integrity_check")] == ["ok"]
    inbox = read(
        daemon, "SELECT inbox_id, state, origin, json_extract(entries, '$[0].content') AS text FROM inbox"
    )
    texts = Counter(row["text"] for row in inbox)

    # Every message that was acknowledged, or answered with a first byte, is there; and once.
    assert set(load.sent) <= set(texts)
    assert set(load.begun) <= set(texts)
    assert max(texts.values()) == 1

    # Every kept message has one end, and one turn at most.
    assert {row["state"] for row in inbox} <= {InboxState.TURNED, InboxState.DEAD}
    turns = read(daemon, "SELECT inbox_id, state, reason FROM turns")
    assert max(Counter(row["inbox_id"] for row in turns).values()) == 1
    assert {row["state"] for row in turns} <= {
        TurnState.COMMITTED,
        TurnState.INTERRUPTED,
        TurnState.CANCELLED,
    }
    assert {row["inbox_id"] for row in inbox} == {row["inbox_id"] for row in turns}
    states = {row["inbox_id"]: row["state"] for row in turns}
    relayed = [states[row["inbox_id"]] for row in inbox if row["origin"] == "relay"]
    assert TurnState.CANCELLED not in relayed
    by_text = {row["text"]: states[row["inbox_id"]] for row in inbox}
    assert {by_text[text] for text in load.answered} <= {TurnState.COMMITTED}

    # The backend was asked once for each, as a turn is not repeated by itself.
    asked = Counter(exchange.last_user_message for exchange in backend.exchanges)
    assert max(asked.values()) == 1

    # Each relayed turn has one delivery, and no reply went out twice.
    deliveries = read(daemon, "SELECT state, content, turn_id FROM deliveries")
    assert len(deliveries) == len(relayed)
    assert {row["state"] for row in deliveries} <= {DeliveryState.DELIVERED, DeliveryState.UNKNOWN}
    replies = Counter(text for text in load.connector.contents() if text.startswith("reply to: "))
    assert max(replies.values()) == 1
    delivered = {row["content"] for row in deliveries if row["state"] == DeliveryState.DELIVERED}
    assert {text for text in delivered if text.startswith("reply to: ")} <= set(replies)
    assert len(load.sent) > 0 and len(load.begun) > 0
