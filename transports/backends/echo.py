"""
The lane that needs no model: it says what it was told, so that a fresh installation answers something true.

The answer is ``Echo: `` and the last user message, unchanged. The first answer of a conversation also says that no
model is configured and what to set. Usage counts words.
"""

import re
from collections.abc import Sequence

from actors.messages.lane import OpenStream
from actors.messages.rows import Entry
from transports.backends.backend import Backend
from transports.backends.stream import Stream

PREFIX = "Echo: "
ADVICE = (
    "\n\n(This is an echo: no model is configured. "
    "Give a lane in the configuration a base_url, a model and an api_key_env to get answers.)"
)

MOST_PIECES = 500
"""A longer text comes several words at a time: a turn's mailbox is bounded."""

_WORD = re.compile(r"\S+\s*|\s+")


def answer(entries: Sequence[Entry]) -> str:
    """Return the echo of the last user message."""
    said = [entry.content for entry in entries if entry.role == "user"]
    text = PREFIX + (said[-1] if said else "")
    return text + ADVICE if len(said) <= 1 else text


def pieces(text: str) -> list[str]:
    """Cut into words, each with the space behind it. Joined they are the text."""
    words = _WORD.findall(text)
    size = -(-len(words) // MOST_PIECES) or 1
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def usage(entries: Sequence[Entry], text: str) -> dict[str, int]:
    """Count words where a model counts tokens."""
    asked = sum(len(entry.content.split()) for entry in entries)
    answered = len(text.split())
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


class Echo(Backend):
    """Streams the echo word by word, with the lane's pause after each."""

    def open_stream(self, request: OpenStream) -> Stream:
        """Return a stream without a watchdog: nobody can fall silent."""
        return Stream(request, self._system.clock)

    async def serve(self, stream: Stream) -> None:
        """Say it."""
        entries = stream.request.entries
        text = answer(entries)
        stream.arm()
        for piece in pieces(text):
            stream.delta(text=piece)
            if self.settings.echo_delay_s:
                await stream.pause(self.settings.echo_delay_s)
        stream.finish("stop", usage(entries, text))
