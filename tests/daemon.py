"""The daemon as a process: started on a data directory, killed, stopped, started again."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

START_SECONDS = 30.0
PROGRAM = ("-c", "from bin.daemon import main; main()")


class Daemon:
    """One run of turnkeepd on any free port. ``url`` is known once ``start`` has returned."""

    def __init__(
        self,
        data_dir: Path,
        *,
        config: str = "",
        env: Mapping[str, str] | None = None,
        port: int = 0,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self.data_dir = data_dir
        self.port = port
        self._program = program
        self.url = ""
        self.log = ""
        self._config = data_dir.parent / f"{data_dir.name}.toml"
        self.configure(config)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TURNKEEP_")}
        self._env = {**clean, **(env or {})}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[str] | None = None

    def configure(self, config: str) -> None:
        """Write its configuration file anew."""
        self._config.write_text(config)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    @property
    def admin_token(self) -> str:
        return (self.data_dir / "admin.token").read_text().strip()

    @property
    def api_key(self) -> str:
        return (self.data_dir / "api.key").read_text().strip()

    @property
    def port_in_use(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    async def start(self, *, env: Mapping[str, str] | None = None) -> "Daemon":
        """Start it and wait until it says that it is ready; raise with its log if it ends instead."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._program,
            "--data-dir",
            str(self.data_dir),
            "--config",
            str(self._config),
            "--port",
            str(self.port),
            env={**self._env, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.process.stderr is not None
        self._reader = asyncio.create_task(self._read_log(self.process.stderr))
        async with asyncio.timeout(START_SECONDS):
            while not self.url:
                assert self.process.stdout is not None
                line = (await self.process.stdout.readline()).decode()
                if not line:
                    code = await self.ended()
                    raise RuntimeError(f"turnkeepd ended with {code} before it was ready:\n{self.log}")
                if " is ready at " in line:
                    self.url = line.split(" is ready at ")[1].strip()
        return self

    async def _read_log(self, stream: asyncio.StreamReader) -> str:
        while chunk := await stream.read(65536):
            self.log += chunk.decode(errors="replace")
        return self.log

    async def ended(self) -> int:
        """Wait for its end, whoever caused it; return its exit code."""
        assert self.process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            await self.process.stdout.read()
            code = await self.process.wait()
            if self._reader is not None:
                await self._reader
        self.url = ""
        return code

    async def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        await self.ended()

    async def stop(self) -> int:
        """Ask it to stop, wait, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def close(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()

    async def __aenter__(self) -> "Daemon":
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def where(self) -> dict[str, object]:
        """What it tells the command line."""
        return dict(json.loads((self.data_dir / "daemon.json").read_text()))
