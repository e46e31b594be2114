"""Connections in memory: what TCP promises, and what a test may do to it."""

import asyncio
import contextlib
import contextvars

import pytest

from tests.simulation.loop import Process
from tests.simulation.simulation import Simulation


def run(main, seed=1):
    simulation = Simulation(seed)
    return simulation.run(lambda: main(simulation.network))


class Served:
    """A server that remembers what it read and how each connection ended."""

    def __init__(self, network):
        self.network = network
        self.read = b""
        self.ends = []

    async def open(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: asyncio.StreamReaderProtocol(self._reader(), self.serve)
        )
        self.place = self.server.sockets[0].getsockname()
        return self

    def _reader(self):
        return asyncio.StreamReader()

    async def serve(self, reader, writer):
        try:
            while data := await reader.read(100):
                self.read += data
            self.ends.append("closed")
        except ConnectionResetError:
            self.ends.append("reset")
        writer.close()


async def dial(place):
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.create_connection(lambda: asyncio.StreamReaderProtocol(reader), *place)
    return reader, transport


@pytest.mark.parametrize("seed", range(30))
def test_bytes_keep_their_order_and_the_close_comes_after_them(seed):
    async def main(network):
        served = await Served(network).open()
        _, transport = await dial(served.place)
        for n in range(200):
            transport.write(b"%03d" % n)
        transport.close()
        await asyncio.sleep(5)
        return served

    served = run(main, seed)
    assert served.read == b"".join(b"%03d" % n for n in range(200))
    assert served.ends == ["closed"]


def test_nobody_listens():
    async def main(network):
        with pytest.raises(ConnectionRefusedError):
            await dial(("127.0.0.1", 9))

    run(main)


def test_a_cut_resets_both_ends():
    async def main(network):
        served = await Served(network).open()
        reader, _ = await dial(served.place)
        await asyncio.sleep(1)
        network.cut(served.place)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await asyncio.sleep(1)
        return served.ends

    assert run(main) == ["reset"]


def test_silence_holds_everything_back_and_loses_nothing():
    async def main(network):
        served = await Served(network).open()
        _, transport = await dial(served.place)
        network.silence(served.place)
        transport.write(b"hello")
        transport.close()
        await asyncio.sleep(100)
        assert served.read == b"" and not served.ends
        network.restore(served.place)
        await asyncio.sleep(1)
        return served

    served = run(main)
    assert served.read == b"hello" and served.ends == ["closed"]


def test_a_reader_that_pauses_passes_its_pressure_on():
    async def main(network):
        served = await Served(network).open()
        _, transport = await dial(served.place)
        far = transport.peer
        far.pause_reading()
        transport.write(b"x" * 100_000)
        await asyncio.sleep(1)
        assert transport.get_write_buffer_size() == 100_000
        assert served.read == b""
        far.resume_reading()
        await asyncio.sleep(1)
        return transport.get_write_buffer_size(), len(served.read)

    assert run(main) == (0, 100_000)


def test_a_killed_process_closes_its_connections_and_says_nothing_more():
    async def main(network):
        process, loop = Process("p"), asyncio.get_running_loop()
        loop.process = process
        served = await loop.create_task(Served(network).open(), context=contextvars.Context())
        reader, transport = await dial(served.place)
        await asyncio.sleep(1)
        network.kill(process)
        transport.write(b"too late")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await dial(served.place)
        return served.read

    assert {run(main, seed) for seed in range(10)} == {b""}
