"""REL-5: nothing that the daemon does holds its event loop for long."""

import asyncio
import io
import json

import aiohttp
import pytest

from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.backend import FakeBackend
from tests.fakes.connector import Connector, event
from tests.harness import until

LIMIT_SECONDS = 0.05
"""Of CPU of the loop's thread: a busy machine does not count."""

AT_ONCE = 250
"""Chats that send before their answers are waited for: within what a link lets wait."""


@pytest.mark.parametrize("sessions", [AT_ONCE, pytest.param(1000, marks=pytest.mark.slow)])
async def test_rel_5_no_callback_holds_the_loop_for_over_50_ms_of_cpu(tmp_path, sessions):
    async with FakeBackend() as backend:
        config = (
            '[[lane]]\nname = "echo"\nkind = "echo"\n'
            f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n'
            # What has ended goes again at once: retention is at work all the time.
            "[store]\nretain_every_s = 0.1\n[retention]\ndedupe_h = 0\ndelivered_days = 0\ninbox_days = 0\n"
        )
        measured = tmp_path / "callbacks.json"
        program = ("-m", "tests.metered_daemon", str(measured))
        async with Daemon(tmp_path / "data", config=config, program=program) as daemon:
            async with AdminWire(daemon.url, daemon.admin_token) as wire:
                await clients_with_long_histories(daemon)
                await many_chats(daemon, wire, sessions)
                assert (await wire.ask("system.info"))["sessions_live"] >= sessions
                await look_at_everything(daemon, wire)
            assert await daemon.stop() == 0
    found = json.loads(measured.read_text())
    assert found["count"] > 10_000
    assert [one for one in found["longest"] if one[0] > LIMIT_SECONDS] == []
    assert "loop.lag" not in daemon.log


async def clients_with_long_histories(daemon: Daemon) -> None:
    """Eight API clients, each with 300 messages of its past; then one with as much as two megabytes."""
    headers = {"Authorization": f"Bearer {daemon.api_key}"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def say(chat: str, past: int, size: int) -> None:
            messages = [
                {"role": "user" if n % 2 == 0 else "assistant", "content": "x" * size} for n in range(past)
            ]
            body = {
                "model": "fake",
                "stream": True,
                "messages": [*messages, {"role": "user", "content": "hello"}],
            }
            url = f"{daemon.url}/v1/chat/completions"
            data = io.BytesIO(json.dumps(body).encode())
            async with session.post(url, data=data, headers={"X-Session-Id": chat}) as response:
                assert (await response.read()).endswith(b"data: [DONE]\n\n"), response.status

        for _ in range(3):
            await asyncio.gather(*(say(f"c{n}", 300, 1000) for n in range(8)))
        await say("long", 500, 4000)


async def many_chats(daemon: Daemon, wire: AdminWire, sessions: int) -> None:
    """A connector with a message in each of many chats."""
    secret = (await wire.ask("peers.add", name="bot", identities=["discord:bot-1"]))["secret"]
    connector = await Connector(daemon.url, "bot", secret).dial()
    for first in range(0, sessions, AT_ONCE):
        for n in range(first, first + AT_ONCE):
            await connector.buffered(f"b{n}", event("y" * 1000, f"m{n}", chat_id=f"C{n}"))
        await until(lambda: len(connector.of("outbound")) >= first + AT_ONCE, 30)  # noqa: B023  # it ends in its round
    await connector.close()


async def look_at_everything(daemon: Daemon, wire: AdminWire) -> None:
    """What operators and dashboards ask, and an observer that wants the past."""
    for _ in range(5):
        await wire.ask("actors.list", sort="depth")
        await wire.ask("actors.tree")
        await wire.ask("sessions.list", limit=1000)
        await wire.ask("deliveries.list", limit=1000)
    async with AdminWire(daemon.url, daemon.admin_token) as observer:
        await observer.ask("events.subscribe", from_seq=1)
        await observer.event("events.live")


async def test_the_http_client_of_a_lane_is_imported_before_there_is_a_loop(tmp_path):
    lane = '[[lane]]\nname = "fake"\nbase_url = "http://127.0.0.1:1"\nmodel = "fake-1"\n'
    probe = (
        "import asyncio, sys; from bin import daemon; make = daemon.loop_factory;"
        "daemon.loop_factory = lambda: print('AIOHTTP', 'aiohttp' in sys.modules, file=sys.stderr) or make();"
        "daemon.main()"
    )
    async with Daemon(tmp_path / "data", config=lane, program=("-c", probe)) as daemon:
        assert await daemon.stop() == 0
    assert "AIOHTTP True" in daemon.log
