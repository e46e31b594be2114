"""The real composition with a scripted backend, and HTTP clients for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.apart import Apart
from tests.fakes.backend import FakeBackend
from tests.harness import Harness
from tests.sse import Stream


@pytest.fixture(params=["in process", "as a process"])
async def either(
    request: pytest.FixtureRequest,
    boot: Callable[..., Awaitable[Harness]],
    tmp_path: Path,
    backend: FakeBackend,
) -> AsyncIterator[Callable[..., Awaitable[Harness | Apart]]]:
    """Start the real composition, and then again the real daemon, with the fake backend as their only lane."""
    if request.param == "in process":
        yield boot
        return
    started: list[Apart] = []

    async def start(**settings: Any) -> Apart:
        lane = {"name": "fake", "base_url": backend.url, "model": "fake-1", **settings.pop("lane", {})}
        daemon = Apart(tmp_path / "data", **{"lane": [lane], "turn.retry_base_s": 0.0, **settings})
        started.append(await daemon.start())
        return daemon

    yield start
    for daemon in started:
        assert await daemon.stop() == 0


@pytest.fixture
async def turnkeep(boot: Callable[..., Awaitable[Harness]]) -> Harness:
    return await boot()


class Api:
    """An HTTP client with the first run's key."""

    def __init__(self, session: aiohttp.ClientSession, harness: Harness) -> None:
        self.session = session
        self.harness = harness
        self.headers = harness.api_headers

    async def post(
        self, body: Any, path: str = "/v1/chat/completions", **headers: str
    ) -> tuple[int, Any, Any]:
        """Post; return status, headers and the JSON of the answer."""
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else None
        async with self.session.post(
            self.harness.url + path,
            json=None if data is not None else body,
            data=data,
            headers={**self.headers, **shown},
        ) as response:
            return response.status, response.headers, await response.json()

    async def say(self, text: str, chat: str | None = None, **fields: Any) -> tuple[int, Any, Any]:
        """Send one user message."""
        headers = {"X-Session-Id": chat} if chat is not None else {}
        body = {"messages": [{"role": "user", "content": text}], **fields}
        return await self.post(body, **headers)

    async def stream(self, text: str, chat: str | None = None, **fields: Any) -> Stream:
        """Send one user message and return its open stream."""
        headers = {**self.headers, **({"X-Session-Id": chat} if chat is not None else {})}
        body = {"messages": [{"role": "user", "content": text}], "stream": True, **fields}
        response = await self.session.post(
            self.harness.url + "/v1/chat/completions", json=body, headers=headers
        )
        return Stream(response)


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


@pytest.fixture
def api(client: aiohttp.ClientSession, turnkeep: Harness) -> Api:
    return Api(client, turnkeep)
