"""Virtual time, and what of asyncio's order a seed may change."""

import asyncio
import contextvars
import random
import time

import pytest

from tests.simulation.loop import START, Process, Runaway, Stuck, VirtualClock, VirtualLoop, outside

HOURS = 3600.0


def run(main, seed=None):
    loop = VirtualLoop(random.Random(seed) if seed is not None else None)
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


async def _race(names, into):
    async def step(name):
        into.append(name)
        await asyncio.sleep(0)
        into.append(name.upper())

    await asyncio.gather(*(step(name) for name in names))


def test_hours_pass_at_once():
    async def main():
        await asyncio.sleep(10 * HOURS)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run(main, 1) == pytest.approx(START + 10 * HOURS)
    assert time.monotonic() - began < 5


def test_timers_fire_in_their_order_and_at_their_moment():
    async def main():
        loop, fired = asyncio.get_running_loop(), []
        for delay in (3, 1, 2):
            loop.call_later(delay, lambda: fired.append(loop.time() - START))
        await asyncio.sleep(5)
        return fired

    assert run(main, 1) == pytest.approx([1, 2, 3], abs=0.001)


def test_waiting_for_what_can_never_come_is_an_error():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run(main, 1)


def test_a_circle_is_an_error(monkeypatch):
    monkeypatch.setattr("tests.simulation.loop.MOST_STEPS", 1000)

    async def main():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Runaway):
        run(main, 1)


def test_an_executors_job_is_done_on_the_spot_and_answered_a_moment_later():
    async def main():
        loop = asyncio.get_running_loop()
        done = []
        job = loop.run_in_executor(None, done.append, 1)
        assert done == [1] and not job.done()
        await job
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return loop.time()

    assert START < run(main, 1) < START + 0.01


def test_a_seed_decides_the_order_of_tasks_and_repeats_it():
    def order(seed):
        into = []
        run(lambda: _race("abcdef", into), seed)
        return "".join(into)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 15
    assert order(None) == "abcdefABCDEF"


@pytest.mark.parametrize("seed", range(50))
def test_each_task_keeps_its_own_order(seed):
    into = []
    run(lambda: _race("abc", into), seed)
    assert all(into.index(name) < into.index(name.upper()) for name in "abc")


@pytest.mark.parametrize("seed", range(50))
def test_plain_callbacks_keep_their_order_and_no_later_step_overtakes_them(seed):
    async def main():
        loop, into = asyncio.get_running_loop(), []
        for n in range(5):
            loop.call_soon(into.append, n)

        async def step():
            into.append("step")

        await asyncio.gather(step(), step())
        return into

    assert run(main, seed) == [0, 1, 2, 3, 4, "step", "step"]


def test_a_step_may_come_later_than_a_callback_that_was_registered_after_it():
    async def main():
        loop, into = asyncio.get_running_loop(), []

        async def step():
            into.append("step")

        task = loop.create_task(step())
        loop.call_soon(into.append, "call")
        await task
        await asyncio.sleep(0)
        return into[0]

    assert {run(main, seed) for seed in range(20)} == {"step", "call"}


def test_the_wall_clock_jumps_and_nothing_else_does():
    async def main():
        loop = asyncio.get_running_loop()
        clock = VirtualClock(loop)
        before = clock.wall()
        clock.jump(-HOURS)
        await asyncio.sleep(10)
        return clock.wall() - before, clock.monotonic()

    wall, monotonic = run(main, 1)
    assert wall == pytest.approx(10 - HOURS)
    assert monotonic == pytest.approx(START + 10)


def test_a_process_knows_its_tasks_and_timers_and_nobody_elses():
    async def main():
        loop = asyncio.get_running_loop()
        loop.process = Process("p")

        async def child():
            loop.call_later(5, print)
            await asyncio.sleep(9)

        async def parent():
            # As actors make theirs: by the constructor, with a clean context.
            await asyncio.Task(child(), loop=loop, name="child", context=contextvars.Context())

        theirs = loop.create_task(child(), context=outside(), name="theirs")
        mine = loop.create_task(parent(), context=contextvars.Context(), name="parent")
        loop.call_later(5, print).cancel()
        await asyncio.sleep(1)
        names, timers = {task.get_name() for task in loop.process.tasks}, len(list(loop.timers()))
        await asyncio.gather(mine, theirs)
        return names, timers, loop.process.tasks

    loop = VirtualLoop(random.Random(1))
    try:
        task = loop.create_task(main(), context=outside())
        assert loop.run_until_complete(task) == ({"child", "parent"}, 2, [])
    finally:
        loop.close()
