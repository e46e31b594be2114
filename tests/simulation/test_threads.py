"""A database connection's thread under the simulation's order."""

import asyncio
import contextvars
import sqlite3
import threading

import pytest

from storage.connection import open_connection
from tests.simulation.loop import START, Process
from tests.simulation.simulation import Simulation


def run(main, tmp_path, seed=1):
    path = tmp_path / "x.db"
    path.touch()
    simulation = Simulation(seed)
    return simulation.run(lambda: main(simulation.threads, path))


async def _say(connection, n, order):
    await connection.run(lambda raw: raw.execute("SELECT 1").fetchone())
    order.append((n, asyncio.get_running_loop().time()))


def test_jobs_are_done_in_order_and_a_seed_repeats_their_moments(tmp_path):
    async def main(threads, path):
        connection = await open_connection(path, 1.0)
        order = []
        await asyncio.gather(*(_say(connection, n, order) for n in range(20)))
        await connection.close()
        assert not threads.working()
        return order

    first = run(main, tmp_path, 3)
    assert first == run(main, tmp_path, 3)
    assert first != run(main, tmp_path, 4)
    assert sorted(n for n, _ in first) == list(range(20))
    assert START < first[-1][1] < START + 5


def test_an_error_arrives_as_it_was_raised(tmp_path):
    async def main(threads, path):
        connection = await open_connection(path, 1.0)
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await connection.run(lambda raw: raw.execute("SELECT * FROM missing"))
        await connection.close()

    run(main, tmp_path)


def test_a_connection_that_does_not_open_ends_its_thread(tmp_path):
    async def main(threads, path):
        with pytest.raises(sqlite3.OperationalError):
            await open_connection(path / "none", 1.0)

    before = threading.active_count()
    run(main, tmp_path)
    assert threading.active_count() == before


def test_a_thread_that_is_held_up_lets_the_others_go_on(tmp_path):
    async def main(threads, path):
        loop = asyncio.get_running_loop()
        connection = await open_connection(path, 1.0)
        work = asyncio.ensure_future(connection.run(lambda raw: threads.hold_up(10)))
        await asyncio.sleep(5)
        assert not work.done()
        await work
        took = loop.time() - START
        await connection.close()
        return took

    assert 10 < run(main, tmp_path) < 10.2


def test_of_a_killed_process_nothing_more_is_done(tmp_path):
    async def main(threads, path):
        process, loop = Process("p"), asyncio.get_running_loop()
        loop.process = process

        async def work():
            connection = await open_connection(path, 1.0)
            await connection.run(lambda raw: raw.execute("CREATE TABLE t (x)"))
            loop.create_task(connection.run(lambda raw: raw.execute("INSERT INTO t VALUES (1)")))
            return connection

        connection = await loop.create_task(work(), context=contextvars.Context())
        await asyncio.sleep(0)
        threads.kill(process)
        await asyncio.sleep(1)
        connection.stop()
        connection._thread.join()
        raw = sqlite3.connect(path)
        rows = raw.execute("SELECT count(*) FROM t").fetchone()
        raw.close()
        return rows

    assert run(main, tmp_path) == (0,)
