"""One stream by itself: what is said, when, and what is said no more."""

import asyncio

import pytest

from actors.exceptions import DeadlineExceeded
from actors.messages.lane import FailureClass, OpenStream, StreamArmed, StreamFailed, StreamFinished
from actors.runtime import Budget, Port, System
from tests.clock import StillClock
from transports.backends.stream import Failure, Phase, Stream, StreamOver

FAILURE = Failure(FailureClass.CONNECT, "ConnectionRefusedError")


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def port(system: System) -> Port:
    return system.port("/turn")


@pytest.fixture
def stream(system: System, port: Port) -> Stream:
    request = OpenStream(
        stream_id="s", entries=(), params={}, reply_to=port, budget=Budget.of(system.clock, 100)
    )
    return Stream(request, system.clock, idle_s=10)


async def said(port: Port) -> list[object]:
    """Return all that the turn was told."""
    messages: list[object] = []
    try:
        while True:
            messages.append(await port.receive(Budget.of(StillClock(), 0)))
    except DeadlineExceeded:
        return messages


async def never(stream: Stream) -> None:
    raise AssertionError("nobody should serve it")


async def test_the_first_end_counts(stream, port):
    stream.arm()
    stream.finish("stop", None)
    stream.fail(FAILURE)
    stream.finish("length", None)
    assert await said(port) == [
        StreamArmed(stream_id="s"),
        StreamFinished(stream_id="s", finish_reason="stop", usage=None),
    ]


async def test_after_the_end_nothing_is_said(stream, port):
    stream.fail(FAILURE)
    with pytest.raises(StreamOver):
        stream.delta(text="late")
    assert [type(message) for message in await said(port)] == [StreamFailed]


async def test_one_that_was_cancelled_before_it_ran_is_not_served(stream, port):
    stream.cancel()
    await stream.run(never)
    assert await said(port) == []


async def test_an_end_that_nobody_waits_for_is_dropped(stream, port):
    port.close()
    stream.fail(FAILURE)
    assert stream.phase is Phase.ENDED


async def test_its_task_may_be_cancelled_from_outside(stream, port):
    started = asyncio.Event()

    async def serve(_: Stream) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(stream.run(serve))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.phase is not Phase.ENDED
    assert await said(port) == []


async def test_an_ended_stream_leaves_no_timer(stream, port, clock):
    stream.finish("stop", None)
    clock.advance(1000)
    assert [type(message) for message in await said(port)] == [StreamFinished]


async def test_a_pause_ends_on_the_systems_clock(stream, clock):
    task = asyncio.create_task(stream.pause(5))
    await asyncio.sleep(0)
    clock.advance(5)
    await task
