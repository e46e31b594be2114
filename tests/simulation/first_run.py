"""A data directory as a first run leaves it, with a relay peer: made once, and copied for each run."""

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from actors.messages.admin import AddPeer, Perform
from actors.messages.rows import KeyRow, KeyScope, PeerRole
from bin.config import load
from tests.simulation.daemon import Daemon
from tests.simulation.simulation import Simulation

PORT = 7340
PEER = "bot"

MEMORY = Path("/dev/shm")
"""Here a commit costs no disk: what reaches the kernel survives the kills of this simulation."""


@contextlib.contextmanager
def first_run() -> Iterator[tuple[Path, str]]:
    """Yield a directory of one's own, with ``data`` in it, and the peer's secret."""
    prepared, secret = _prepared()
    directory = Path(tempfile.mkdtemp(dir=prepared))
    try:
        shutil.copytree(prepared / "data", directory / "data")
        yield directory, secret
    finally:
        shutil.rmtree(directory)


def own_address() -> str:
    """Return an address of this process alone, always as long: runs in parallel listen on the same port."""
    return f"127.{100 + os.getpid() // 150 % 150}.{100 + os.getpid() % 150}.1"


@cache
def _prepared() -> tuple[Path, str]:
    """Return a data directory with a peer in it, and the peer's secret: a first run costs what a copy does not."""
    root = Path(tempfile.mkdtemp(prefix="turnkeep-simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    simulation = Simulation(0)
    arguments = {"data_dir": str(root / "data"), "server.host": own_address(), "server.port": PORT}

    async def prepare() -> str:
        daemon = Daemon(
            "first",
            load(environment={}, arguments=arguments).config,
            clock=simulation.clock,
            rng=simulation.rng("daemon"),
            network=simulation.network,
            threads=simulation.threads,
        )
        await daemon.start()
        admin = KeyRow(key_id="k", name="admin", owner="admin", scopes=(KeyScope.ADMIN,), created_at=0.0)
        request = AddPeer(name=PEER, role=PeerRole.CONNECTOR, identities=("discord:bot-1",), scopes=())
        watcher = daemon.system.port("/test")
        answer = await daemon.ask("/admin", Perform(request=request, caller=admin, watcher=watcher))
        assert await daemon.stop() == 0
        return str(answer["secret"])

    return root, simulation.run(prepare)
