"""The thread that sees a held-up loop."""

import asyncio
import threading
import time

from actors.messages.events import Publish
from actors.runtime import Watchdog
from tests.actors.supervision.test_supervisor import Sink


async def test_a_held_up_loop_is_told_once_with_its_length(system):
    events: list[Publish] = []
    system.publish_to(system.spawn("/sink", lambda: Sink(events)))
    watchdog = Watchdog(system, every_s=0.01, limit_s=0.05)
    watchdog.start()
    try:
        # Holding the loop is the point here; the event is never set.
        threading.Event().wait(0.3)
        async with asyncio.timeout(10):
            while not events:
                await asyncio.sleep(0)
    finally:
        watchdog.stop()
    assert events[0].kind == "loop.lagged"
    assert system.lag.histogram().total >= float(events[0].data["seconds"]) - 0.001
    assert 0.05 <= float(events[0].data["seconds"]) <= 5


async def test_work_on_the_loop_is_told_by_its_cpu_and_waiting_is_not(system):
    events: list[Publish] = []
    system.publish_to(system.spawn("/sink", lambda: Sink(events)))
    watchdog = Watchdog(system, every_s=0.01, limit_s=60.0, cpu_limit_s=0.05)
    watchdog.start()
    try:
        # Holds the loop's thread without any CPU, as a machine does that has no core free.
        threading.Event().wait(0.3)
        for _ in range(100):
            await asyncio.sleep(0)
        assert events == []
        began = time.thread_time()
        while time.thread_time() - began < 0.2:
            pass
        async with asyncio.timeout(10):
            while not events:
                await asyncio.sleep(0)
    finally:
        watchdog.stop()
    assert 0.05 <= float(events[0].data["cpu_seconds"]) <= float(events[0].data["seconds"]) + 0.01


async def test_a_loop_that_comes_round_is_left_alone(system):
    events: list[Publish] = []
    system.publish_to(system.spawn("/sink", lambda: Sink(events)))
    watchdog = Watchdog(system, every_s=0.001, limit_s=10.0)
    watchdog.start()
    async with asyncio.timeout(10):
        while sum(system.lag.histogram().counts) < 3:
            await asyncio.sleep(0)
    watchdog.stop()
    assert events == []
