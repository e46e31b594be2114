"""What README and docs show is run as it stands there, but for the port and the data directory."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from bin.config import load
from tests.daemon import Daemon
from transports.relay.frames import decode_line

ROOT = Path(__file__).parent.parent
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shown(path: Path) -> list[list[str]]:
    """Return the blocks of code of a document, as lines without their indent."""
    blocks: list[list[str]] = [[]]
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            blocks[-1].append(line.removeprefix("    "))
        elif line.strip() and blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def commands() -> list[str]:
    """Return the turnkeepctl commands of all documents, without the remarks beside them."""
    lines = [line for path in DOCS for block in shown(path) for line in block]
    found = [re.split(r"\s{2,}", line)[0] for line in lines if line.startswith("bin/turnkeepctl")]
    return list(dict.fromkeys(found))


async def run(command: str, *, stdin: bytes = b"") -> tuple[int, str]:
    """Run a shell command; return its exit code and what it printed."""
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(20):
        output, _ = await process.communicate(stdin)
    return process.returncode or 0, output.decode()


def test_the_documents_show_commands():
    assert len(commands()) >= 6


@pytest.mark.timeout(300)
async def test_every_command_of_the_documents_works(tmp_path):
    ctl = f"{sys.executable} -c 'from bin.ctl import main; main()' --data-dir {tmp_path / 'data'}"
    async with Daemon(tmp_path / "data") as daemon:
        for command in commands():
            # One that follows would never end.
            adapted = command.replace("bin/turnkeepctl", ctl).replace("--follow", "")
            code, output = await run(adapted, stdin=b"hello\n")
            assert code == 0, f"{command}\n{output}"
        assert daemon.url


async def test_the_readmes_curl_works(tmp_path):
    (block,) = [block for block in shown(ROOT / "README.md") if any("curl" in line for line in block)]
    async with Daemon(tmp_path / "data") as daemon:
        command = "\n".join(block).replace("http://127.0.0.1:7340", daemon.url)
        code, output = await run(command.replace("~/.local/share/turnkeep", str(tmp_path / "data")))
        assert code == 0 and '"content":"Echo: hello' in output


def test_the_settings_of_the_documents_are_good(tmp_path):
    (block,) = [block for block in shown(ROOT / "docs" / "operations.md") if "[server]" in block]
    file = tmp_path / "turnkeep.toml"
    file.write_text("\n".join(block))
    config = load(file, environment={}).config
    assert config.lane[0].name == "fast" and config.console[0].platform == "console"


def test_the_frames_of_the_protocol_are_good():
    (block,) = [block for block in shown(ROOT / "docs" / "protocol.md") if '"type"' in block[0]]
    # A frame is shown on several lines, each but the first further in.
    frames = "\n".join(block).replace("\n    ", " ").splitlines()
    kinds = [type(decode_line(frame)).__name__ for frame in frames]
    assert kinds == [
        "DescriptorFrame",
        "HelloFrame",
        "InboundFrame",
        "InboundAckFrame",
        "OutboundFrame",
        "OutboundResultFrame",
    ]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_documents_link_to_what_is_there(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
