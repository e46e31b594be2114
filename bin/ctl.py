"""turnkeepctl: its overview costs no more than an interpreter; a verb loads its own family only (PERF-6)."""

import sys

from transports.terminal.catalogue import overview


def main() -> None:
    """Run the command line; ends the process with a documented exit code."""
    words = sys.argv[1:]
    if words in (["--help"], ["-h"]):
        print(overview())
        return
    if words == ["--version"]:
        from importlib.metadata import version

        print(f"turnkeepctl {version('turnkeep')}")
        return
    from transports.terminal.app import build

    # What cannot be encoded for this terminal is replaced: an answer must not end in a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    build(words[0] if words else None)(prog_name="turnkeepctl")
