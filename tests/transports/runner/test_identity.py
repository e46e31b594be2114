"""Processes that are told apart by when they started."""

import asyncio
import os
import sys

import psutil
import pytest

from transports.runner import Fate, ProcessIdentity


async def child():
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )


async def test_a_running_process_is_alive_until_it_ends():
    process = await child()
    identity = ProcessIdentity.of(process.pid)
    assert identity.fate() is Fate.ALIVE
    await process.communicate(b"\n")
    assert identity.fate() is Fate.GONE


def test_a_pid_with_another_start_time_is_somebody_elses():
    mine = ProcessIdentity.of(os.getpid())
    assert mine.fate() is Fate.ALIVE
    assert ProcessIdentity(mine.pid, mine.started - 60, mine.boot).fate() is Fate.REUSED
    assert ProcessIdentity(mine.pid, mine.started - 0.02, mine.boot).fate() is Fate.REUSED


def test_what_began_before_the_machine_did_is_gone():
    mine = ProcessIdentity.of(os.getpid())
    assert ProcessIdentity(mine.pid, mine.started, "another").fate() is Fate.GONE


def test_rel_7_a_clock_that_is_set_makes_nobody_somebody_else(monkeypatch):
    mine = ProcessIdentity.of(os.getpid())
    # What a start time in unix seconds is derived from, as a program finds it that begins after the clock was set.
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: mine.started + 3600)
    assert mine.fate() is Fate.ALIVE


def test_a_zombie_has_ended():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    identity = ProcessIdentity.of(pid)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert identity.fate() is Fate.GONE
    os.waitpid(pid, 0)


def test_nobody_has_no_identity():
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of(2**22 + 1)


@pytest.mark.parametrize("pid", [-1, 2**22 + 1, 2**80])
def test_an_impossible_pid_is_gone(pid):
    assert ProcessIdentity(pid, 0.0).fate() is Fate.GONE
