"""Lines that are typed or piped in, read in a thread that nobody has to wait for at the end."""

import asyncio
import contextlib
import os
import sys
import threading

CHUNK = 65536


class Lines:
    """
    Standard input, line by line.

    A pipe is read from its descriptor: a thread that blocks inside ``sys.stdin`` holds a lock which the interpreter
    wants when it ends.
    """

    def __init__(self, *, interactive: bool, prompt: str) -> None:
        self._interactive = interactive
        self._prompt = prompt
        self._read_ahead = b""
        self._waiting: asyncio.Future[str | None] | None = None

    async def next(self) -> str | None:
        """Return the next line, None at the end of the input or after ``give_up``."""
        if self._interactive:
            import readline  # noqa: F401  # gives input() its line editing
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[str | None] = loop.create_future()
        self._waiting = waiting

        def read() -> None:
            line = self._typed() if self._interactive else self._piped()
            # The loop may have ended meanwhile: nobody waits for the line any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, waiting, line)

        threading.Thread(target=read, daemon=True).start()
        try:
            return await waiting
        finally:
            self._waiting = None

    def show_again(self) -> None:
        """Print the prompt, and what has been typed at it: the line goes on where it was."""
        import readline

        print(f"{self._prompt}{readline.get_line_buffer()}", end="", flush=True)

    def give_up(self) -> None:
        """Let whoever waits for a line have none."""
        if self._waiting is not None:
            _resolve(self._waiting, None)

    def _typed(self) -> str | None:
        try:
            return input(self._prompt)
        except (EOFError, OSError):
            # The prompt stands on a line of its own, whatever comes next.
            print()
            return None

    def _piped(self) -> str | None:
        while b"\n" not in self._read_ahead:
            try:
                chunk = os.read(sys.stdin.fileno(), CHUNK)
            except (OSError, ValueError):
                chunk = b""
            if not chunk:
                rest, self._read_ahead = self._read_ahead, b""
                return rest.decode(errors="replace") if rest else None
            self._read_ahead += chunk
        line, _, self._read_ahead = self._read_ahead.partition(b"\n")
        return line.decode(errors="replace")


def _resolve(waiting: "asyncio.Future[str | None]", line: str | None) -> None:
    if not waiting.done():
        waiting.set_result(line)
