"""Settings of every test, and the real composition with a scripted backend for those that want it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.backend import FakeBackend
from tests.harness import Harness

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("turnkeep", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("turnkeep")


@pytest.fixture
async def backend() -> AsyncIterator[FakeBackend]:
    async with FakeBackend() as fake:
        yield fake


@pytest.fixture
async def boot(tmp_path: Path, backend: FakeBackend) -> AsyncIterator[Callable[..., Awaitable[Harness]]]:
    """Start harnesses on one data directory, with the fake backend as their only lane; stop those left at the end."""
    started: list[Harness] = []

    async def start(**settings: Any) -> Harness:
        lane = {"name": "fake", "base_url": backend.url, "model": "fake-1", **settings.pop("lane", {})}
        harness = Harness(tmp_path / "data", **{"lane": [lane], "turn.retry_base_s": 0.0, **settings})
        started.append(await harness.start())
        return harness

    yield start
    for harness in started:
        if harness.system.find("/") is not None:
            await harness.stop()
