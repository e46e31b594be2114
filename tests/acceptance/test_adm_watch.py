"""Watching a session's turns through the command line, over a daemon that is killed (ADM-3, turns.md section 1)."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.daemon import Daemon
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import Hold, Role, Text
from tests.terminal import admin_call

SECONDS = 30.0


class Watcher:
    """turnkeepctl sessions watch, for programs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.events: list[Any] = []

    async def next(self) -> Any:
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            self.events.append(json.loads(await self.process.stdout.readline()))
        return self.events[-1]

    async def until(self, kind: str) -> Any:
        while (await self.next())["event"] != kind:
            pass
        return self.events[-1]


@asynccontextmanager
async def watching(daemon: Daemon, session_id: str, *words: str) -> AsyncIterator[Watcher]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bin.ctl import main; main()",
        "sessions",
        "watch",
        session_id,
        "--json",
        "--data-dir",
        str(daemon.data_dir),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Watcher(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_adm_3_a_watcher_misses_nothing_over_a_daemon_that_is_killed(
    tmp_path: Path, backend: FakeBackend
) -> None:
    lane = f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n'
    config = f"{lane}[turn]\nflush_s = 0.0\n"
    async with Daemon(tmp_path / "data", config=config) as first:
        opened = await admin_call(first, "sessions.open", chat="main")
        session_id = opened["session"]["session_id"]
        backend.script(Role(), Text("Hel"), Hold("never"))
        await admin_call(first, "sessions.send", chat="main", text="one")
        async with watching(first, session_id, "--turns", "2") as watcher:
            await watcher.until("turn.content")
            await first.kill()
            async with Daemon(tmp_path / "data", config=config) as second:
                outcome = await watcher.until("turn.outcome")
                assert outcome["data"]["turn"]["state"] == "interrupted"
                assert outcome["data"]["turn"]["turn_gen"] == 1
                await admin_call(second, "sessions.send", chat="main", text="two")
                assert await watcher.process.wait() == 0
            assert watcher.process.stdout is not None
            rest = [json.loads(line) for line in (await watcher.process.stdout.read()).splitlines()]
    places = [(event["data"]["turn_gen"], event["seq"]) for event in watcher.events[:-1] + rest]
    turns = {gen: [seq for one, seq in places if one == gen] for gen, _ in places}
    assert list(turns) == [1, 2]
    for seqs in turns.values():
        assert seqs == list(range(1, len(seqs) + 1))
    text = "".join(event["data"]["text"] for event in rest if event["event"] == "turn.content")
    assert text == "reply to: two" and rest[-1]["data"]["state"] == "idle"
