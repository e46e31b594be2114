"""TRN-4, 5, 14: lanes that are set anew while turns run, through the real composition and through the daemon."""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys

import pytest

from actors.messages.lane import ListLanes, ResolveLanes
from tests.acceptance.watched import Watched
from tests.clock import StillClock
from tests.daemon import Daemon
from tests.fakes.backend_script import Die, Done, Finish, Hold, Role, Text
from tests.harness import until
from tests.sse import Stream

DYING = (Role(), Text("dead"), Die("rst"))
GOOD = (Role(), Text("Hello "), Text("world"), Finish(), Done())
WAITING = {"turn.retry_base_s": 10.0, "turn.retry_cap_s": 10.0}


def lane(backend, **settings):
    return {"name": "fake", "base_url": backend.url, "model": "fake-1", **settings}


def preparations(harness):
    """Have it counted how often a request is put together; return how to read it."""
    harness.system.failpoints.always("lane.prepare", lambda: None)
    return lambda: harness.system.failpoints.passed.get("lane.prepare", 0)


# A turn's retry


@pytest.mark.parametrize(
    ("changed", "times"),
    [
        pytest.param({}, 1, id="nothing is set anew"),
        pytest.param({"api_key": "another-key"}, 2, id="TRN-4 the client is another"),
        pytest.param({"model": "fake-2"}, 2, id="TRN-14 only the model is another"),
    ],
)
async def test_trn_4_14_a_lane_that_is_set_anew_in_the_backoff_is_prepared_for_again(
    boot, backend, changed, times
):
    clock = StillClock()
    harness = await boot(clock=clock, lane={"api_key": "a-key"}, **WAITING)
    prepared = preparations(harness)
    backend.script(*DYING)
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("retry")
        assert prepared() == 1
        assert await harness.reload(lane(backend, **{"api_key": "a-key", **changed})) == (
            ("fake",) if changed else ()
        )
        clock.advance(10.0)
        turn = await chat.over()
    assert turn.text == "Hello world" and prepared() == times
    first, second = backend.exchanges
    assert second.body == {**first.body, "model": changed.get("model", "fake-1")}
    assert first.headers["authorization"] == "Bearer a-key"
    assert second.headers["authorization"] == f"Bearer {changed.get('api_key', 'a-key')}"


async def test_trn_5_the_binding_is_refreshed_at_the_start_and_once_for_each_time_the_answer_begins(
    boot, backend
):
    harness = await boot()
    asked = []
    harness.system.trace("/lanes", asked.append)
    prepared = preparations(harness)
    backend.script(*DYING, times=2)
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        assert (await chat.over()).text == "Hello world"
    assert len(backend.exchanges) == 3 and prepared() == 1
    # The lane was the same each time, so that the request that was sent was, too.
    assert len({exchange.raw for exchange in backend.exchanges}) == 1
    assert [isinstance(one.message, ResolveLanes) for one in asked].count(True) == 3


async def test_trn_5_each_time_it_begins_on_the_lane_as_it_is_by_then(boot, backend):
    clock = StillClock()
    harness = await boot(clock=clock, **WAITING)
    backend.script(*DYING, times=2)
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        for n in (2, 3):
            await chat.until("retry")
            await harness.reload(lane(backend, model=f"fake-{n}"))
            clock.advance(10.0)
        await chat.over()
        (bound,) = await harness.ask("/lanes", ListLanes())
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["fake-1", "fake-2", "fake-3"]
    assert (bound.gen, bound.traits.model) == (3, "fake-3")


async def test_a_lane_that_is_gone_by_the_retry_leaves_it_to_another(boot, backend):
    clock = StillClock()
    harness = await boot(clock=clock, **WAITING)
    backend.script(*DYING)
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        await chat.until("retry")
        assert set(await harness.reload(lane(backend, name="other", model="other-1"))) == {"fake", "other"}
        clock.advance(10.0)
        assert (await chat.over()).text == "Hello world"
        assert [(told["from"], told["to"]) for told in chat.of("lane_fallback")] == [("fake", "other")]
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["fake-1", "other-1"]


# The daemon as a process


def configured(backend, model="fake-1", rest=""):
    return f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "{model}"\n{rest}'


async def ask(client, daemon, text="hi", **fields):
    headers = {"Authorization": f"Bearer {daemon.api_key}"}
    body = {"messages": [{"role": "user", "content": text}], **fields}
    return await client.post(f"{daemon.url}/v1/chat/completions", json=body, headers=headers)


async def answer(client, daemon, text="hi"):
    async with await ask(client, daemon, text) as response:
        return (await response.json())["choices"][0]["message"]["content"]


async def ctl(daemon, *words):
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            "from bin.ctl import main; main()",
            *words,
            "--data-dir",
            str(daemon.data_dir),
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def hang_up(daemon, said):
    """Send SIGHUP and wait until the log says something new."""
    before = daemon.log.count(said)
    daemon.process.send_signal(signal.SIGHUP)
    await until(lambda: daemon.log.count(said) > before)


async def test_a_stream_survives_a_sighup_and_the_next_request_has_the_new_model(tmp_path, backend, client):
    backend.script(Role(), Text("Hel"), Hold("go"), Text("lo"), Finish(), Done())
    async with Daemon(tmp_path / "data", config=configured(backend)) as daemon:
        stream = Stream(await ask(client, daemon, stream=True))
        assert await stream.until_text() == "Hel"
        daemon.configure(configured(backend, "fake-2"))
        await hang_up(daemon, "lanes.reloaded")
        assert await answer(client, daemon, "next") == "reply to: next"
        assert not backend.exchanges[0].connection_closed.is_set()
        backend.release("go")
        await stream.rest()
        assert stream.text == "Hello" and stream.chunks[-1]["choices"][0]["finish_reason"] == "stop"
        assert await daemon.stop() == 0
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["fake-1", "fake-2"]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("[[lane]\n", "is not valid TOML"),
        ('[[lane]]\nname = "fake"\nbase_url = "http://127.0.0.1:9/v1"\n', "model of lane fake is missing"),
        ('[[lane]]\nname = "fake"\nmodel = "m"\nbase_url = "ftp://x"\n', "is no http:// or https:// URL"),
    ],
)
async def test_a_broken_file_is_refused_and_said_and_the_lanes_stay(tmp_path, backend, client, broken, why):
    async with Daemon(tmp_path / "data", config=configured(backend)) as daemon:
        daemon.configure(broken)
        await hang_up(daemon, "lanes.not_reloaded")
        assert why in daemon.log.partition("lanes.not_reloaded")[2]
        code, _, said = await ctl(daemon, "lanes", "reload")
        assert code != 0 and "the lanes stay as they are" in said and why in said
        assert await answer(client, daemon) == "reply to: hi"
        # Once it is right again it is taken up.
        daemon.configure(configured(backend, "fake-2"))
        await hang_up(daemon, "lanes.reloaded")
        assert await answer(client, daemon) == "reply to: hi"
        assert await daemon.stop() == 0
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["fake-1", "fake-2"]


@contextlib.contextmanager
def unanswered(path):
    """Have whoever opens the file wait, as a disk does that does not answer: the kernel waits for this lease."""
    ignored = signal.signal(signal.SIGIO, signal.SIG_IGN)
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(file)
        signal.signal(signal.SIGIO, ignored)


async def test_a_file_that_is_never_read_to_its_end_keeps_neither_a_later_reading_nor_the_end_waiting(
    tmp_path, backend, client
):
    async with Daemon(tmp_path / "data", config=configured(backend)) as daemon:
        config = tmp_path / "data.toml"
        with unanswered(config):
            await hang_up(daemon, "lanes.not_reloaded")
            assert "could not be read within 5 s" in daemon.log
            assert await answer(client, daemon) == "reply to: hi"
            # Another file takes its place.
            (tmp_path / "new.toml").write_text(configured(backend, "fake-2"))
            (tmp_path / "new.toml").replace(config)
            await hang_up(daemon, "lanes.reloaded")
            assert await answer(client, daemon) == "reply to: hi"
            await daemon.stop()
        assert "ended without a thread" in daemon.log
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["fake-1", "fake-2"]


async def test_turnkeepctl_lists_the_lanes_and_has_them_read_again(tmp_path, backend):
    async with Daemon(tmp_path / "data", config=configured(backend)) as daemon:
        assert (await ctl(daemon, "lanes", "reload"))[:2] == (0, "the lanes are as they were\n")
        second = '[[lane]]\nname = "second"\nbase_url = "http://user:canary@127.0.0.1:9/v1"\nmodel = "m"\norder = 1\n'
        daemon.configure(configured(backend, "fake-2", second))
        code, out, _ = await ctl(daemon, "lanes", "reload")
        assert code == 0 and out.startswith("set anew: second, fake;")
        code, out, _ = await ctl(daemon, "lanes", "--json")
        fake, other = json.loads(out)["lanes"]
        assert code == 0 and "canary" not in out
        assert (fake["name"], fake["model"], fake["health"], fake["streams"]) == (
            "fake",
            "fake-2",
            "healthy",
            0,
        )
        assert (other["name"], other["order"], other["backend"]) == ("second", 1, "http://127.0.0.1:9/v1")
        assert fake["gen"] > 1
        code, out, _ = await ctl(daemon, "lanes")
        assert code == 0 and "fake-2" in out and "canary" not in out
