"""The command itself: its overview, its exit codes, and how quickly it starts."""

import asyncio
import subprocess
import sys

import pytest

from tests.transports.terminal.conftest import ctl
from transports.terminal.app import build
from transports.terminal.catalogue import GROUPS, VERBS, overview
from transports.terminal.exits import Exit


async def test_perf_6_the_overview_loads_nothing_that_it_does_not_need():
    probe = (
        "import sys; sys.argv = ['turnkeepctl', '--help']; from bin.ctl import main; main();"
        "heavy = {'typer', 'asyncio', 'msgspec', 'websockets', 'inspect'} & set(sys.modules);"
        "print('HEAVY', heavy)"
    )
    out = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", probe], text=True)
    assert out == f"{overview()}\nHEAVY set()\n"


def test_the_overview_names_every_verb_as_the_verb_itself_does():
    registered = {command.name: command.callback.__doc__ for command in build().registered_commands}
    groups = {group.name for group in build().registered_groups}
    assert set(registered) == set(VERBS) - GROUPS and groups == GROUPS
    for name, doc in registered.items():
        assert VERBS[name].summary in (doc, doc.partition(":")[0] + " in order.") or name == "chat"
        assert f"  {name}" in overview()


@pytest.mark.parametrize(
    "words", [("--help",), ("-h",), ("ps", "--help"), ("--json", "--help"), ("peers", "add", "--help")]
)
async def test_help(words):
    ran = await ctl(*words)
    assert ran.code == 0 and ran.out.startswith("Usage: turnkeepctl")


async def test_the_help_documents_the_exit_codes():
    for words in (("--help",), ("--json", "--help")):
        out = " ".join((await ctl(*words)).out.split())
        for code in Exit:
            assert f"{code.value} " in out.partition("Exit codes: ")[2]


async def test_the_version():
    assert (await ctl("--version")).out.startswith("turnkeepctl ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), Exit.USAGE),
        (("nonsense",), Exit.USAGE),
        (("sessions",), Exit.USAGE),
        (("sessions", "show"), Exit.USAGE),
        (("ps", "--nonsense"), Exit.USAGE),
        (("ps", "--url", "http://127.0.0.1:1", "--token", "x"), Exit.NOT_RUNNING),
        (("--url", "http://127.0.0.1:1", "--token", "x", "ps"), Exit.NOT_RUNNING),
        (("ps", "--data-dir", "/nonexistent"), Exit.NOT_RUNNING),
    ],
)
async def test_exit_codes(words, code):
    ran = await ctl(*words)
    assert ran.code == code and ran.out == "" and ran.err
    assert "Traceback" not in ran.err


async def test_the_environment_says_where(harness):
    where = {"TURNKEEP_URL": harness.url, "TURNKEEP_TOKEN": harness.admin_token}
    assert (await ctl("status", **where)).code == Exit.OK
    refused = await ctl("status", "--token", "wrong", **where)
    assert refused.code == Exit.REFUSED
    assert refused.err == "turnkeepctl: the admin key was refused; give another one with --token\n"
    assert (await ctl("sessions", "show", "nope", **where)).code == Exit.NOT_FOUND


async def test_a_pipe_that_closes_early_is_no_accident(harness):
    where = f"--url {harness.url} --token {harness.admin_token}"
    process = await asyncio.create_subprocess_shell(
        f"{sys.executable} -c 'from bin.ctl import main; main()' events --from 1 {where} | head -c 1",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert b"Traceback" not in err
