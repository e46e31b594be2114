"""Verbs against the real composition: in this process, or as the command."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import pytest
import structlog

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
async def harness(boot: Callable[..., Awaitable[Harness]]) -> Harness:
    return await boot()


@pytest.fixture
def desk(harness: Harness) -> Desk:
    return Desk(Options(url=harness.url, token=harness.admin_token))


@pytest.fixture
def json_desk(harness: Harness) -> Desk:
    return Desk(Options(url=harness.url, token=harness.admin_token, as_json=True))
