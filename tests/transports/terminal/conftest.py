"""Verbs against the real composition: in this process, or as the command."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from tests.fakes.backend import FakeBackend
from tests.harness import Harness
from transports.terminal.place import Options
from transports.terminal.verb import Desk

SECONDS = 30.0


@pytest.fixture(autouse=True)
def no_logs_between() -> Iterator[None]:
    """Keep what the daemon logs, which runs in this process, out of what a verb prints."""
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    yield
    structlog.configure(**before)


class Ran(NamedTuple):
    """What a run of the command left."""

    code: int
    out: str
    err: str


async def ctl(*words: str, stdin: str = "", **environment: str) -> Ran:
    """Run turnkeepctl."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TURNKEEP_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bin.ctl import main; main()",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**clean, **environment},
    )
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


@pytest.fixture
async def backend() -> AsyncIterator[FakeBackend]:
    async with FakeBackend() as fake:
        yield fake


@pytest.fixture
async def boot(tmp_path: Path, backend: FakeBackend) -> AsyncIterator[Callable[..., Awaitable[Harness]]]:
    """Start harnesses on one data directory; stop those left at the end."""
    started: list[Harness] = []

    async def start(**settings: Any) -> Harness:
        lane = {"name": "fake", "base_url": backend.url, "model": "fake-1"}
        harness = Harness(tmp_path / "data", lane=[lane], **settings)
        started.append(await harness.start())
        return harness

    yield start
    for harness in started:
        if harness.system.find("/") is not None:
            await harness.stop()


@pytest.fixture
async def harness(boot: Callable[..., Awaitable[Harness]]) -> Harness:
    return await boot()


@pytest.fixture
def desk(harness: Harness) -> Desk:
    return Desk(Options(url=harness.url, token=harness.admin_token))


@pytest.fixture
def json_desk(harness: Harness) -> Desk:
    return Desk(Options(url=harness.url, token=harness.admin_token, as_json=True))
