"""turnkeepd as a process: what it prints, and what becomes of it when nobody takes what it prints."""

import asyncio
import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from bin.config import load
from bin.daemon import _welcome
from tests.daemon import START_SECONDS, Daemon
from tests.harness import until


def closed_pipe():
    """Return the end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def full_disk():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize("standard_error", [closed_pipe, full_disk])
async def test_a_log_that_cannot_be_written_costs_nothing_else(tmp_path, standard_error):
    data = tmp_path / "data"
    config = tmp_path / "turnkeep.toml"
    # A lane that has something to log at its start.
    config.write_text(
        '[[lane]]\nname = "a"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\napi_key_env = "TURNKEEP_NONE"\n'
    )
    descriptor = standard_error()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bin.daemon import main; main()",
        *("--data-dir", data, "--config", config, "--port", "0"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=descriptor,
    )
    os.close(descriptor)
    try:
        async with asyncio.timeout(START_SECONDS):
            assert process.stdout is not None
            assert b"is ready at" in await process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert not (data / "daemon.json").exists()
    # Closed in order: nothing is left beside the database.
    assert not (data / "turnkeep.db-wal").exists()
    sqlite3.connect(data / "turnkeep.db").close()


async def test_it_serves_though_nobody_takes_its_welcome(tmp_path):
    descriptor = closed_pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bin.daemon import main; main()",
        *("--data-dir", tmp_path / "data", "--port", "0", "--ready-file", tmp_path / "ready"),
        stdout=descriptor,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(descriptor)
    try:
        await until(lambda: (tmp_path / "ready").exists() or process.returncode is not None, START_SECONDS)
        async with asyncio.timeout(START_SECONDS):
            process.send_signal(signal.SIGTERM)
            _, log = await process.communicate()
        assert process.returncode == 0 and b"Traceback" not in log
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_ready_file_that_cannot_be_written_is_named_and_nothing_is_left_to_be_found(tmp_path):
    data, ready = tmp_path / "data", tmp_path / "nowhere" / "ready.json"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bin.daemon import main; main()",
        *("--data-dir", data, "--port", "0", "--ready-file", ready),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(START_SECONDS):
        _, told = await process.communicate()
    assert process.returncode == 1
    assert f"turnkeepd: not started: {ready} cannot be written" in told.decode()
    assert b"Traceback" not in told and not (data / "daemon.json").exists()


async def test_a_complaint_without_a_reader_keeps_its_exit_code(tmp_path):
    async with Daemon(tmp_path / "data"):
        descriptor = closed_pipe()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from bin.daemon import main; main()",
            *("--data-dir", tmp_path / "data", "--port", "0"),
            stderr=descriptor,
        )
        os.close(descriptor)
        async with asyncio.timeout(START_SECONDS):
            assert await process.wait() == 10


def test_the_welcome_can_be_copied_into_a_shell(tmp_path):
    config = load(environment={"TURNKEEP_DATA_DIR": "/a b/data"}).config
    shown = _welcome(config, "http://127.0.0.1:7340", api_key=True)
    assert "bin/turnkeepctl --data-dir '/a b/data' chat" in shown
    assert "$(cat '/a b/data/api.key')" in shown


def test_the_welcome_names_no_key_that_is_not_there():
    config = load(environment={"TURNKEEP_DATA_DIR": "/a b/data"}).config
    shown = _welcome(config, "http://127.0.0.1:7340", api_key=False)
    assert "api.key" not in shown and "curl" not in shown
    assert "bin/turnkeepctl --data-dir '/a b/data' keys add NAME" in shown


def test_the_welcome_names_what_answers(tmp_path):
    file = tmp_path / "turnkeep.toml"
    file.write_text(
        '[[lane]]\nname = "dry"\nkind = "echo"\n'
        '[[lane]]\nname = "fast"\nbase_url = "http://x/v1"\nmodel = "m"\n'
    )
    shown = _welcome(load(file, environment={}).config, "http://127.0.0.1:7340", api_key=True)
    assert "dry (echo), fast (m at http://x/v1)" in shown
