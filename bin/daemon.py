"""
turnkeepd: reads its configuration, starts the tree, says where it is, and stops it within one budget.

Exit codes: 0 stopped as asked · 1 failed, or the shutdown ran out of its budget · 2 usage or configuration ·
10 another daemon owns the data directory · 11 the database was written by a newer version · 12 it cannot be used.
"""

import argparse
import asyncio
import contextlib
import functools
import json
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TextIO

import structlog

from actors.exceptions import ConfigError, DataDirLocked, RuntimeFault, SchemaTooNew, StartFailed, StoreFault
from actors.messages.admin import DrainAsked, ShutdownAsked
from actors.messages.base import ControlRequest
from actors.messages.front import FrontInfo, StopAdmission
from actors.messages.lane import ReloadLanes
from actors.messages.lifecycle import Down, StopStatus
from actors.messages.relay import DrainRelays
from actors.messages.session import DrainSessions
from actors.runtime import Budget, Failpoints, Port, Ref, System, Watchdog
from bin.collector import Collector
from bin.compose import compose
from bin.config import Config, LogSettings, default_data_dir, describe, load
from bin.first_run import ADMIN, API, ensure_credentials
from bin.reread import Rereading
from storage import Database, open_database
from transports.backends import specs
from transports.runner import ProcessIdentity

FAILED, USAGE, LOCKED, TOO_NEW, NO_STORE = 1, 2, 10, 11, 12
START_SECONDS = 60.0
CLOSE_SECONDS = 1.0
SWITCH_SECONDS = 0.0005

log = structlog.get_logger("turnkeep.daemon")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    if options.command == "version":
        print(version("turnkeep"))
        return
    try:
        again = functools.partial(load, options.config, arguments=_overrides(options))
        loaded = again()
    except ConfigError as error:
        sys.exit(_complain(f"configuration: {error}", USAGE))
    if options.command == "check-config":
        for key, value, source in describe(loaded):
            print(f"{key} = {value}  # {source}")
        return
    _log_to_stderr(loaded.config.log)
    _leave(_run(loaded.config, Rereading(loaded.config, again), options.ready_file))


def _leave(code: int) -> NoReturn:
    """End the process, also if a thread hangs in a disk that does not answer: joining it would take for ever."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="turnkeepd", description="The Turnkeep supervisor.", epilog=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument(
        "command",
        nargs="?",
        default="serve",
        choices=("serve", "check-config", "version"),
        help="serve (default): run in the foreground; check-config: show the effective settings and their sources",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML; every key optional (TURNKEEP_CONFIG)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where everything is kept (TURNKEEP_DATA_DIR)")
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (7340); 0: any free one")
    parser.add_argument(
        "--ready-file", type=Path, metavar="FILE", help="write {url, pid, data_dir} there when ready"
    )
    return parser


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    given = {"data_dir": options.data_dir, "server.host": options.host, "server.port": options.port}
    return {key: value for key, value in given.items() if value is not None}


def _run(config: Config, reread: Rereading, ready_file: Path | None) -> int:
    # An HTTP client takes a fifth of a second to import, which is not taken from the loop (REL-5).
    specs(config.lane)
    collector = Collector()
    collector.start()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            code = runner.run(_serve(config, reread, collector, ready_file))
            if unended := runner.run(_cancel_rest()):
                # Closing the loop would wait for them, and they have had their budget.
                _complain(f"ended without {', '.join(unended)}, which would not end", FAILED)
                os._exit(FAILED)
            return code
    except DataDirLocked as error:
        return _complain(str(error), LOCKED)
    except SchemaTooNew as error:
        return _complain(str(error), TOO_NEW)
    except StoreFault as error:
        return _complain(str(error), NO_STORE)
    except StartFailed as error:
        return _complain(f"not started: {error.why}", FAILED)


def loop_factory() -> Any:
    """Return what makes the daemon's event loop: uvloop's where that is installed, else None for asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _cancel_rest() -> list[str]:
    """Cancel what still runs on the loop and end its threads; return the names of what does not end even then."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=CLOSE_SECONDS)
    unended = sorted(task.get_name() for task in rest if not task.done())
    # One may be in a disk that does not answer. It is not cancelled: that would wait for the thread, too.
    threads = asyncio.ensure_future(asyncio.get_running_loop().shutdown_default_executor())
    if not (await asyncio.wait({threads}, timeout=CLOSE_SECONDS))[0]:
        unended.append("a thread")
    return unended


async def _serve(config: Config, reread: Rereading, collector: Collector, ready_file: Path | None) -> int:
    # The database's thread needs the interpreter for moments, many times a second: it must not wait 5 ms for each.
    sys.setswitchinterval(SWITCH_SECONDS)
    database = await open_database(config.data_path, config.store)
    system = System(failpoints=Failpoints.parse(os.environ.get("TURNKEEP_FAILPOINTS", "")))
    watchdog = Watchdog(system)
    watchdog.start()
    calls = system.port("/daemon")
    root = compose(system, config, database, calls, reread)
    root.watch(calls)
    with _signals(system, calls), contextlib.ExitStack() as shown:
        try:
            await root.started(Budget.of(system.clock, START_SECONDS))
            await ensure_credentials(system, _at(system, "/store"), config.data_path)
            info = await _at(system, "/front").ask(FrontInfo(), Budget.of(system.clock, START_SECONDS))
            shown.enter_context(_announced(config, info.url, ready_file))
            # What has come with the start stays, too.
            collector.keep()
        except BaseException:
            await system.stop(root, Budget.of(system.clock, config.shutdown.budget_s))
            await _close(database)
            raise
        message = await calls.receive()
        while isinstance(message, DrainAsked):
            log.info("daemon.draining", asked_by=message.by)
            await _drain(system, config, Budget.of(system.clock, config.shutdown.budget_s))
            message = await calls.receive()
        if isinstance(message, Down):
            return _complain(f"the root supervisor ended: {message.error or message.reason}", FAILED)
        log.info("daemon.stopping", asked_by=getattr(message, "by", None))
        code = await _stop(system, root, config)
        await _close(database)
        watchdog.stop()
        return code


def _at(system: System, path: str) -> Ref:
    ref = system.find(path)
    if ref is None:
        raise StartFailed(path, "it is not there")
    return ref


async def _drain(system: System, config: Config, budget: Budget) -> None:
    """Stop admission, let running turns have their share, close the links."""
    share = config.shutdown.drain_share
    steps: tuple[tuple[str, ControlRequest[Any], Budget], ...] = (
        ("/front", StopAdmission(), budget),
        ("/sessions", DrainSessions(), budget.share(share)),
        ("/relays", DrainRelays(), budget.share(share)),
    )
    for path, message, left in steps:
        ref = system.find(path)
        if ref is not None:
            try:
                await ref.ask(message, left)
            except RuntimeFault as fault:
                log.warning("daemon.drain_failed", path=path, error=str(fault))


async def _stop(system: System, root: Ref, config: Config) -> int:
    """Drain, then stop the tree: one budget for all (ADM-12)."""
    budget = Budget.of(system.clock, config.shutdown.budget_s)
    await _drain(system, config, budget)
    status = await system.stop(root, budget)
    if status is StopStatus.STILL_ALIVE or system.overran:
        held_by = ", ".join(dict.fromkeys(system.overran)) or root.path
        return _complain(f"the shutdown ran out of its budget; it was held by {held_by}", FAILED)
    return 0


async def _close(database: Database) -> None:
    """Close what a store that was killed has left behind; does nothing after an ordered stop."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await database.disconnect()
    database.close()


@contextlib.contextmanager
def _signals(system: System, calls: Port) -> Iterator[None]:
    """
    The first SIGTERM or SIGINT asks for a shutdown, the second ends the process. SIGHUP has the lanes read again.

    If its terminal has gone, SIGHUP is a shutdown, too.
    """
    asked = False
    had_terminal = _has_terminal()

    def on_signal(number: int) -> None:
        nonlocal asked
        if asked:
            os._exit(FAILED)
        asked = True
        calls.tell(ShutdownAsked(by=signal.Signals(number).name))

    def on_hangup() -> None:
        if had_terminal and not _has_terminal():
            # Nobody is left before it: whoever runs it for good starts it without a terminal.
            on_signal(signal.SIGHUP)
            return
        lanes = system.find("/lanes")
        if lanes is not None and not asked:
            lanes.tell(ReloadLanes(by="SIGHUP"))

    for number in (signal.SIGTERM, signal.SIGINT):
        system.loop.add_signal_handler(number, on_signal, number)
    system.loop.add_signal_handler(signal.SIGHUP, on_hangup)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            system.loop.remove_signal_handler(number)


def _has_terminal() -> bool:
    """Say whether it can be typed to; one that was closed is no terminal any more."""
    try:
        return os.isatty(sys.stdin.fileno())
    except (AttributeError, ValueError):
        return False


@contextlib.contextmanager
def _announced(config: Config, url: str, ready_file: Path | None) -> Iterator[None]:
    """Tell people, the ready file and the command line where the daemon is, as long as it is there."""
    where = {"url": url, "pid": os.getpid(), "data_dir": str(config.data_path)}
    # The command line shows its key only to the process that left this.
    me = ProcessIdentity.of(os.getpid())
    files = {config.data_path / "daemon.json": {**where, "started": me.started, "boot": me.boot}}
    if ready_file is not None:
        files[ready_file] = where
    with contextlib.ExitStack() as written:
        for file, content in files.items():
            try:
                _replace(file, json.dumps(content))
            except OSError as error:
                raise StartFailed("/", f"{file} cannot be written: {error.strerror}") from error
            written.callback(file.unlink, missing_ok=True)
        _Unfailing(sys.stdout).write(
            f"{_welcome(config, url, api_key=(config.data_path / API.file).exists())}\n"
        )
        yield


def _replace(file: Path, text: str) -> None:
    partial = file.with_name(f"{file.name}.new")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(file)


def _welcome(config: Config, url: str, *, api_key: bool) -> str:
    data = config.data_path
    lanes = ", ".join(
        f"{lane.name} ({lane.model} at {lane.base_url})" if lane.base_url else f"{lane.name} (echo)"
        for lane in config.lane
    )
    if not lanes:
        lanes = "echo: no model is configured, answers repeat what was said (set TURNKEEP_BASE_URL and TURNKEEP_MODEL)"
    where = "" if data == default_data_dir() else f" --data-dir {shlex.quote(str(data))}"
    secrets = f"{data / ADMIN.file} (administration)"
    if api_key:
        secrets += f", {data / API.file} (API clients)"
        client: tuple[str, ...] = (
            f'  curl {url}/v1/chat/completions -H "Authorization: Bearer $(cat {shlex.quote(str(data / API.file))})" \\',
            """       -H 'Content-Type: application/json' -d '{"messages": [{"role": "user", "content": "hello"}]}'""",
        )
    else:
        # It was moved away, or stayed behind when a copy of the database was put in place.
        client = (f"  bin/turnkeepctl{where} keys add NAME  make another key for API clients",)
    return "\n".join(
        (
            f"turnkeepd {version('turnkeep')} is ready at {url}",
            f"  lanes    {lanes}",
            f"  data     {data}",
            f"  secrets  {secrets}",
            "Next, in a second terminal:",
            f"  bin/turnkeepctl{where} chat      talk to it",
            f"  bin/turnkeepctl{where} ps        see its actors",
            *client,
        )
    )


def _log_to_stderr(settings: LogSettings) -> None:
    level = getattr(logging, settings.level.upper())
    logging.basicConfig(stream=sys.stderr, level=max(level, logging.WARNING))
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(_Unfailing(sys.stderr)),  # type: ignore[arg-type]  # it needs no more
        cache_logger_on_first_use=True,
    )


class _Unfailing:
    """
    Standard output or error: what cannot be written there is lost, and nothing else.

    Its reader may have ended (a pager, a tee that had the same Ctrl-C) and its disk may be full; no actor may crash and
    no shutdown be cut short because of it. It keeps nothing back: what waited to be written would fail the exit.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write all of it, or what can be."""
        data = text.encode(errors="backslashreplace")
        with contextlib.suppress(OSError, ValueError):
            while data:
                data = data[os.write(self._stream.fileno(), data) :]

    def flush(self) -> None:
        """Nothing waits."""


def _complain(text: str, code: int) -> int:
    _Unfailing(sys.stderr).write(f"turnkeepd: {text}\n")
    return code
