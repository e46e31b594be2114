"""
PERF-3: what a chunk of an answer, and a stream of them, costs the daemon beside a small gateway that only passes it on.

CPU per chunk, chunks 5 ms apart: at most 2 × the gateway's, for the share of a chunk in streams of 50 and for each further
chunk of a long one. Streams a second, durable: at least 0.5 × the gateway's, and 10 × those of LiteLLM's proxy. Added time
to the first token, p50: at most 4 ms. All with think_tags off; think_tags anywhere stands beside it.

Run by hand: ``python -m tests.bench.bench_chunk [--rounds N] [--litellm PATH] [--json]``; about half a minute a round.
What is compared is measured in turns; each figure is a median, its spread the lowest and the highest of the rounds.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import uvloop

from tests.daemon import Daemon

AT_ONCE = 16
STREAMS = 64
"""Of 50 chunks in one measurement of CPU."""
LONG_STREAMS = 32
"""Of 250 chunks."""
BURST = 320
"""Streams as fast as they go, in one measurement of their rate."""
FIRSTS = 100
"""Streams one by one, in one measurement of the first token."""

LANES = {"off": "off", "anywhere": "anywhere"}
MODELS = ("b-50-5", "b-250-5", "b-50-0", "b-1-5")
LITELLM_SECONDS = 120.0
LITELLM_KEY = "sk-bench-0123456789abcdef0123456789abcdef"


def config(backend: str) -> str:
    """Return a daemon's configuration: a lane for each way of streaming and of looking for tags."""
    lanes = [
        f'[[lane]]\nname = "{model}-{tags}"\nmodel = "{model}-x"\nbase_url = "{backend}"\nthink_tags = "{tags}"\n'
        for tags in LANES
        for model in MODELS
    ]
    return "\n".join(lanes)


class Side:
    """Something that streams are asked of, and the process whose CPU it takes."""

    def __init__(self, url: str, pid: int, key: str = "none", suffix: str = "-x") -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._process = psutil.Process(pid)
        self._key = key
        self._suffix = suffix

    def cpu(self) -> float:
        """Return the CPU seconds of the process and its children so far."""
        processes = [self._process, *self._process.children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    async def streams(self, model: str, count: int, at_once: int = AT_ONCE) -> list[float]:
        """Have so many streams; return the seconds to the first text of each."""
        left = iter(range(count))
        firsts: list[float] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(self._stream_on(model + self._suffix, left, firsts))
        return firsts

    async def _stream_on(self, model: str, left: Any, firsts: list[float]) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        body = json.dumps(
            {"model": model, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
        ).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {self._key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        for _ in left:
            begun = time.perf_counter()
            writer.write(head.encode() + body)
            answer = b""
            first = False
            while not answer.endswith(b"\r\n0\r\n\r\n"):
                piece = await reader.read(65536)
                if not piece:
                    raise RuntimeError(f"the stream broke off: {answer[-300:]!r}")
                answer += piece
                if not first and b'"content":"w' in answer:
                    first = True
                    firsts.append(time.perf_counter() - begun)
            if b"[DONE]" not in answer or not first:
                raise RuntimeError(f"this is no answer: {answer[-300:]!r}")
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def cpu_per_chunk(side: Side) -> dict[str, float]:
    """Return microseconds: a chunk's share of a stream of 50, and each further chunk of a long stream."""
    before = side.cpu()
    await side.streams("b-50-5", STREAMS)
    short = side.cpu() - before
    await side.streams("b-250-5", LONG_STREAMS)
    long = side.cpu() - before - short
    each = (long / LONG_STREAMS - short / STREAMS) / 200
    return {"share_us": short / STREAMS / 50 * 1e6, "further_us": each * 1e6}


async def rate(side: Side, streams: int = BURST) -> float:
    """Return streams a second, as fast as they go."""
    begun = time.perf_counter()
    await side.streams("b-50-0", streams)
    return streams / (time.perf_counter() - begun)


async def first_token(side: Side) -> float:
    """Return the median milliseconds to the first token, one stream after the other."""
    return statistics.median(await side.streams("b-1-5", FIRSTS, 1)) * 1000


@asynccontextmanager
async def program(*words: str) -> AsyncIterator[tuple[str, int]]:
    """Run one of the bench's own programs; its URL and its id."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", *words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip(), process.pid
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def litellm(path: str, backend: str, directory: Path) -> AsyncIterator[Side]:
    """Run LiteLLM's proxy with one worker. Raises RuntimeError if it does not come up."""
    models = "".join(
        f"  - model_name: {model}-x\n    litellm_params:\n      model: openai/{model}-x\n"
        f"      api_base: {backend}\n      api_key: none\n"
        for model in MODELS
    )
    file = directory / "litellm.yaml"
    file.write_text(f"model_list:\n{models}")
    port = 40_000 + time.time_ns() % 10_000
    with (directory / "litellm.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(path, "--config", str(file), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"),
            env={**os.environ, "LITELLM_MASTER_KEY": LITELLM_KEY, "NO_PROXY": "127.0.0.1"},
            stdout=log,
            stderr=log,
        )
    side = Side(f"http://127.0.0.1:{port}", process.pid, LITELLM_KEY)
    try:
        begun = time.perf_counter()
        while True:
            try:
                await side.streams("b-1-5", 1, 1)
                break
            except (OSError, ExceptionGroup) as error:
                if process.returncode is not None or time.perf_counter() - begun > LITELLM_SECONDS:
                    end = (directory / "litellm.log").read_text(errors="replace")[-500:]
                    raise RuntimeError(f"LiteLLM did not come up: {end}") from error
                await asyncio.sleep(0.5)
        yield side
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def measure(rounds: int, proxy: str | None) -> tuple[dict[str, list[float]], str | None]:
    """Return each figure's values, one a round, and why LiteLLM's proxy is not among them."""
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as directory:
        async with (
            program("tests.bench.chunk_backend") as (backend, backend_pid),
            program("tests.bench.chunk_gateway", backend) as (gateway, gateway_pid),
            Daemon(Path(directory) / "data", config=config(backend)) as daemon,
        ):
            direct = Side(backend, backend_pid)
            sides = {
                "gateway": Side(gateway, gateway_pid),
                **{tags: Side(daemon.url, daemon.process.pid, daemon.api_key, f"-{tags}") for tags in LANES},
            }
            for side in sides.values():
                await side.streams("b-50-0", 3 * AT_ONCE)
                await side.streams("b-50-5", AT_ONCE)
            for _ in range(rounds):
                for name, side in sides.items():
                    for figure, value in (await cpu_per_chunk(side)).items():
                        note(f"{name}.{figure}", value)
                for name, side in sides.items():
                    note(f"{name}.streams_per_s", await rate(side))
                for name, side in {"direct": direct, **sides}.items():
                    note(f"{name}.first_token_ms", await first_token(side))
            if proxy is None:
                return figures, "no --litellm was given"
            try:
                async with litellm(proxy, backend, Path(directory)) as side:
                    await side.streams("b-50-0", AT_ONCE)
                    note("litellm.streams_per_s", await rate(side, BURST // 4))
                    for figure, value in (await cpu_per_chunk(side)).items():
                        note(f"litellm.{figure}", value)
            except (OSError, RuntimeError, ExceptionGroup) as error:
                return figures, str(error)
    return figures, None


def ratios(figures: dict[str, list[float]], one: str, other: str) -> list[float]:
    """Return the ratio of two figures, round by round."""
    return [a / b for a, b in zip(figures[one], figures[other], strict=True)]


def against_goals(figures: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Return what PERF-3 compares: median, spread, the goal and whether the median meets it; anywhere has no goals."""
    found: dict[str, dict[str, Any]] = {}

    def compare(name: str, values: list[float], goal: float, *, at_most: bool, held: bool = True) -> None:
        median = statistics.median(values)
        found[name] = {"median": median, "lowest": min(values), "highest": max(values)}
        if held:
            found[name] |= {"goal": goal, "holds": median <= goal if at_most else median >= goal}

    for tags in LANES:
        held = tags == "off"
        for figure in ("share_us", "further_us"):
            values = ratios(figures, f"{tags}.{figure}", f"gateway.{figure}")
            compare(f"{tags}: {figure} / the gateway's", values, 2.0, at_most=True, held=held)
        values = ratios(figures, f"{tags}.streams_per_s", "gateway.streams_per_s")
        compare(f"{tags}: streams/s / the gateway's", values, 0.5, at_most=False, held=held)
        pairs = zip(figures[f"{tags}.first_token_ms"], figures["direct.first_token_ms"], strict=True)
        added = [through - without for through, without in pairs]
        compare(f"{tags}: added ms to the first token", added, 4.0, at_most=True, held=held)
    if "litellm.streams_per_s" in figures:
        (slow,) = figures["litellm.streams_per_s"]
        times = [value / slow for value in figures["off.streams_per_s"]]
        compare("off: streams/s / LiteLLM's", times, 10.0, at_most=False)
    return found


def show(figures: dict[str, list[float]]) -> None:
    """Print figures and goals."""
    for name, values in figures.items():
        print(f"{name:28} {statistics.median(values):9.2f}  ({min(values):.2f} … {max(values):.2f})")
    for name, held in against_goals(figures).items():
        verdict = (
            f", goal {held['goal']:g}: {'holds' if held['holds'] else 'MISSED'}" if "goal" in held else ""
        )
        print(f"{name:38} {held['median']:7.2f}  ({held['lowest']:.2f} … {held['highest']:.2f}){verdict}")


def main() -> None:
    """Print the figures and what becomes of PERF-3's goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--litellm", metavar="PATH", help="LiteLLM's command; without it, it is left out.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures, skipped = uvloop.run(measure(options.rounds, options.litellm))
    if options.json:
        result = {"figures": figures, "goals": against_goals(figures), "litellm_skipped": skipped}
        print(json.dumps(result))
        return
    show(figures)
    if skipped is not None:
        print(f"LiteLLM's proxy was not measured: {skipped}")


if __name__ == "__main__":
    main()
