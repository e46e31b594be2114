"""ADM-12: how the daemon stops, and what it says about it."""

import asyncio
import signal

import pytest

from tests.daemon import Daemon
from tests.fakes.backend_script import Finish, Hold, Silence, Text
from tests.terminal import admin_call
from transports.runner import Fate, ProcessIdentity


def lane(backend, rest=""):
    return f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n{rest}'


async def ask(client, daemon, stream=True):
    headers = {"Authorization": f"Bearer {daemon.api_key}", "X-Session-Id": "c1"}
    body = {"messages": [{"role": "user", "content": "hello"}], "stream": stream}
    return await client.post(f"{daemon.url}/v1/chat/completions", json=body, headers=headers)


async def test_adm_12_sigterm_stops_an_idle_daemon_at_once(tmp_path):
    async with Daemon(tmp_path / "data") as daemon:
        where = daemon.where()
        started, boot = where.pop("started"), where.pop("boot")
        assert where == {"url": daemon.url, "pid": daemon.pid, "data_dir": str(daemon.data_dir)}
        assert ProcessIdentity(daemon.pid, started, boot).fate() is Fate.ALIVE
        assert await daemon.stop() == 0
        assert not (daemon.data_dir / "daemon.json").exists()


async def test_adm_12_sigterm_lets_a_turn_end_within_the_budget(tmp_path, backend, client):
    backend.script(Text("Hel"), Hold("go"), Text("lo"), Finish())
    async with Daemon(tmp_path / "data", config=lane(backend)) as daemon:
        response = await ask(client, daemon)
        await response.content.readany()
        daemon.process.send_signal(signal.SIGTERM)
        while True:
            async with client.get(f"{daemon.url}/readyz") as ready:
                if ready.status == 503:
                    break
        backend.release("go")
        rest = await response.content.read()
        assert b'"content":"lo"' in rest and rest.endswith(b"data: [DONE]\n\n")
        assert await daemon.ended() == 0


async def test_adm_12_a_turn_that_outlives_the_drain_is_interrupted_and_the_exit_is_clean(
    tmp_path, backend, client
):
    backend.script(Text("Hel"), Silence())
    config = lane(backend, "[shutdown]\nbudget_s = 2.0\n[turn]\nflush_s = 0.0\n")
    async with Daemon(tmp_path / "data", config=config) as daemon:
        response = await ask(client, daemon)
        await response.content.readany()
        daemon.process.send_signal(signal.SIGTERM)
        rest = await response.content.read()
        assert b'"finish_reason":"error"' in rest
        assert await daemon.ended() == 0


async def test_adm_12_a_second_sigterm_exits_at_once_with_1(tmp_path, backend, client):
    backend.script(Text("Hel"), Silence())
    async with Daemon(tmp_path / "data", config=lane(backend)) as daemon:
        response = await ask(client, daemon)
        await response.content.readany()
        daemon.process.send_signal(signal.SIGTERM)
        while True:
            async with client.get(f"{daemon.url}/readyz") as ready:
                if ready.status == 503:
                    break
        daemon.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            assert await daemon.ended() == 1


async def test_rel_2_a_second_daemon_is_refused_with_its_own_exit_code(tmp_path):
    async with Daemon(tmp_path / "data") as daemon:
        second = Daemon(tmp_path / "data")
        with pytest.raises(RuntimeError, match=rf"(?s)ended with 10 .*pid {daemon.pid}"):
            await second.start()


async def test_a_port_in_use_is_named_with_what_to_do(tmp_path):
    async with Daemon(tmp_path / "one") as daemon:
        second = Daemon(tmp_path / "two", port=daemon.port_in_use)
        told = rf"(?s)ended with 1 .*port {daemon.port_in_use} is in use by another program"
        with pytest.raises(RuntimeError, match=told):
            await second.start()


async def test_an_operator_drains_it_and_it_stays_up_to_be_looked_at(tmp_path, backend, client):
    async with Daemon(tmp_path / "data", config=lane(backend)) as daemon:
        await admin_call(daemon, "system.drain")
        while True:
            async with client.get(f"{daemon.url}/readyz") as ready:
                if ready.status == 503:
                    break
        response = await ask(client, daemon)
        assert response.status == 503
        assert (await admin_call(daemon, "system.info"))["pid"] == daemon.pid
        await admin_call(daemon, "system.shutdown")
        assert await daemon.ended() == 0
