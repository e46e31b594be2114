"""
A backend that nobody of this project wrote, llmock, breaks streams of a running daemon and judges it as a client.

It sees when each request came and how it ended, so it can tell a retry that came too early, came too often, could never
have helped, or did not come. Its environment is made anew, or kept in TURNKEEP_CLIENTS.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.clients.relay_conformance import install
from tests.daemon import Daemon
from tests.harness import until

REQUIREMENT = "llmock==0.2.2"
MESSAGE = "Tell me about lighthouses, in a few sentences."
WATCHDOG_SECONDS = 1.0
START_SECONDS = 60.0

LANES = """
[turn]
retry_base_s = 0.3

[[lane]]
name = "plain"
base_url = "{url}"
model = "gpt-4o"
idle_timeout_s = {watchdog}

[[lane]]
name = "lenient"
base_url = "{url}"
model = "gpt-4o"
retryable = ["MalformedChunk"]
"""


def broken(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a stream that is broken after a few chunks."""
    return {"type": "stream_fault", "kind": kind, "after_chunks": 3, **fields}


def refused(status: int, **fields: Any) -> dict[str, Any]:
    """Return a request that is not accepted."""
    return {"type": "fail", "status": status, **fields}


SCENARIOS: dict[str, tuple[list[dict[str, Any]], int, int]] = {
    "nothing": ([], 200, 1),
    "disconnect": ([broken("disconnect")], 200, 2),
    "disconnect twice": ([broken("disconnect", times=2)], 200, 3),
    "disconnect again and again": ([broken("disconnect", times=None)], 500, 3),
    "truncate": ([broken("truncate")], 200, 2),
    "truncate again and again": ([broken("truncate", times=None)], 500, 3),
    "stall": ([broken("stall", stall_seconds=20.0)], 200, 2),
    "malformed": ([broken("malformed")], 500, 1),
    "rate limit": ([refused(429, retry_after=0.7, times=2)], 200, 3),
    "rate limit and disconnect": ([refused(429, retry_after=0.7), broken("disconnect")], 200, 3),
    "slow first token": ([{"type": "slow_first_token", "seconds": WATCHDOG_SECONDS / 2}], 200, 1),
    "first token too slow": ([{"type": "slow_first_token", "seconds": 20}], 200, 2),
    "overloaded": ([refused(529)], 200, 2),
    "timeout": ([refused(408)], 200, 2),
    "outage": ([refused(503, times=None)], 500, 4),
    "bad request": ([refused(400)], 500, 1),
    "bad key": ([refused(401)], 500, 1),
    "not found": ([refused(404)], 500, 1),
}
"""What it does, the status that our own client gets, and how often it is asked."""

MISJUDGED = {
    # Its only sign of a client that has stopped reading is another request; this class is none of those that bring one.
    "malformed": {"malformed_chunk_ignored"},
    # Nor can it see that a client that does not try for ever says that it failed, as the status of ours shows.
    "truncate again and again": {"truncated_stream_accepted", "no_backoff"},
    # Waits of full jitter may shrink from one to the next, which it takes for no backoff.
    "outage": {"no_backoff"},
    "disconnect twice": {"no_backoff"},
    "disconnect again and again": {"no_backoff"},
}
"""What it may find where nothing is wrong; anything else is a fault of ours."""


class LLMock:
    """Its server, driven over HTTP."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def up(self) -> bool:
        """Say whether it serves."""
        try:
            async with self._session.get(f"{self.url}/health") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def plan(self, behaviors: list[dict[str, Any]]) -> None:
        """Forget what was, and do this to what comes."""
        async with self._session.post(f"{self.url}/_llmock/reset") as response:
            assert response.status < 300
        if not behaviors:
            return
        async with self._session.post(
            f"{self.url}/_llmock/scenario", json={"behaviors": behaviors}
        ) as response:
            assert response.status < 300, await response.text()

    async def verdict(self) -> Any:
        """Return what it thinks of its client."""
        async with self._session.get(f"{self.url}/_llmock/verdict") as response:
            return await response.json()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return Path(os.environ.get("TURNKEEP_CLIENTS") or tmp_path).resolve()


@pytest.fixture
async def llmock(cache: Path, session: aiohttp.ClientSession) -> AsyncIterator[LLMock]:
    try:
        python = await install(REQUIREMENT, cache)
    except (OSError, RuntimeError) as error:
        pytest.skip(f"{REQUIREMENT} cannot be installed: {str(error).strip().splitlines()[-1]}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(str(python.with_name("llmock")), "serve", "--host", "127.0.0.1", "--port", str(port)),
        *("--log-level", "warning", "--stream-chunk-delay-ms", "2"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    server = LLMock(f"http://127.0.0.1:{port}", session)
    try:
        await until(server.up, START_SECONDS)
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def answer(daemon: Daemon, session: aiohttp.ClientSession, chat: str, model: str = "plain") -> Any:
    """Say the message in a chat of its own; return the status and what was answered."""
    headers = {"Authorization": f"Bearer {daemon.api_key}", "X-Session-Id": chat}
    body = {"model": model, "messages": [{"role": "user", "content": MESSAGE}]}
    async with session.post(f"{daemon.url}/v1/chat/completions", json=body, headers=headers) as response:
        said = await response.json()
    return response.status, said["choices"][0]["message"]["content"] if response.status == 200 else None


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_mock_of_others_calls_the_ladder_resilient(tmp_path, session, llmock):
    config = LANES.format(url=f"{llmock.url}/v1", watchdog=WATCHDOG_SECONDS)
    daemon = Daemon(tmp_path / "data", config=config)
    try:
        await daemon.start()
        await llmock.plan([])
        _, whole = await answer(daemon, session, "undisturbed")
        assert whole and len(whole) > 20
        found, expected = {}, {}
        for name, (behaviors, status, attempts) in SCENARIOS.items():
            await llmock.plan(behaviors)
            answered, text = await answer(daemon, session, name.replace(" ", "-"))
            verdict = await llmock.verdict()
            faults = {finding["code"] for finding in verdict["findings"]} - MISJUDGED.get(name, set())
            # A text that was not whole would show here.
            found[name] = (answered, text, verdict["attempts"], faults)
            expected[name] = (status, whole if status == 200 else None, attempts, set())
        await llmock.plan([broken("malformed")])
        assert await answer(daemon, session, "listed", "lenient") == (200, whole)
        verdict = await llmock.verdict()
        assert (verdict["passed"], verdict["attempts"], verdict["findings"]) == (True, 2, [])
        assert found == expected
        assert await daemon.stop() == 0
    finally:
        await daemon.close()
