"""The body of POST /v1/chat/completions, validated. Pure."""

from typing import Any

import msgspec

from actors.messages.lane import Capability
from actors.messages.rows import Entry
from transports.front import conversation
from transports.front.conversation import BROKEN, Places, decode
from transports.front.errors import invalid

MAX_PARAMS_BYTES = 1 << 20
"""The members that are passed through, together."""

NOT_PASSED = frozenset(
    {"messages", "model", "stream", "stream_options", "n", "user", "store", "metadata", "system", "developer"}
)
"""Members that are ours to read, or that mean something to OpenAI's own service only."""


class StreamOptions(msgspec.Struct, frozen=True):
    """What a client may choose about a stream."""

    include_usage: bool | None = None


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for."""

    model: str | None
    stream: bool
    include_usage: bool
    entries: tuple[Entry, ...]
    """The new input: what comes after the last assistant message, a user's message or a tool's result among it."""
    seed: tuple[Entry, ...]
    """The history before it, which counts for a chat that has none yet."""
    params: dict[str, Any]
    """What is passed through to the backend, and the leading text as ``system`` and ``developer``."""
    needs: Places
    """What the lane has to take beside text, and for what."""

    @property
    def said(self) -> str:
        """The user's last message; empty if there are tool results only."""
        return next((entry.content for entry in reversed(self.entries) if entry.role == "user"), "")

    @property
    def shown(self) -> tuple[dict[str, Any], ...]:
        """What the user's last message shows beside its text."""
        parts = next((entry.parts for entry in reversed(self.entries) if entry.role == "user"), ())
        return tuple(part for part in parts if part["type"] != "text")

    def afresh(self, text: str) -> "CompletionRequest":
        """Return the request of somebody who begins anew with ``text``, and what the last message shows."""
        shown = self.shown
        said = ({"type": "text", "text": text},) if text and shown else ()
        entry = Entry(role="user", content=text, parts=(*said, *shown))
        return msgspec.structs.replace(self, entries=(entry,), seed=())


_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "model": msgspec.json.Decoder(str | None),
    "stream": msgspec.json.Decoder(bool | None),
    "stream_options": msgspec.json.Decoder(StreamOptions | None),
    "n": msgspec.json.Decoder(int | None),
}
_ANYTHING = msgspec.json.Decoder()


def parse(body: bytes) -> CompletionRequest:
    """Read a body. Raises ApiError 400 that names what is wrong."""
    try:
        members = _MEMBERS.decode(body)
    except msgspec.ValidationError:
        raise invalid("The body must be a JSON object.", code="invalid_json") from None
    except BROKEN:
        raise invalid("The body is not valid JSON.", code="invalid_json") from None
    known = {name: decode(name, decoder, members.get(name)) for name, decoder in _DECODERS.items()}
    if known["n"] not in (None, 1):
        raise invalid("n must be 1: a chat has one answer.", "n")
    said = conversation.read(members.get("messages"))
    params = _params(members)
    needs = said.needs
    if params.get("tools"):
        needs = {**needs, Capability.TOOLS: "tools"}
    options = known["stream_options"]
    return CompletionRequest(
        model=known["model"],
        stream=bool(known["stream"]),
        include_usage=options is not None and options.include_usage is True,
        entries=said.new,
        seed=said.seed,
        params={**params, **said.leading},
        needs=needs,
    )


def _params(members: dict[str, msgspec.Raw]) -> dict[str, Any]:
    passed = {name: value for name, value in members.items() if name not in NOT_PASSED}
    if sum(len(memoryview(value)) for value in passed.values()) > MAX_PARAMS_BYTES:
        raise invalid(f"The members beside messages are over {MAX_PARAMS_BYTES} bytes together.")
    decoded = {name: decode(name, _ANYTHING, value) for name, value in passed.items()}
    return {name: value for name, value in decoded.items() if value is not None}
