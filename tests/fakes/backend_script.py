"""What a fake backend is told to do with one request: a list of steps, from Python or as JSON."""

from typing import Any, Literal

import msgspec

from tests.fakes.chunks import chunk, event


class Step(msgspec.Struct, frozen=True, tag_field="do", tag=str.lower):
    """One thing to do."""


class Head(Step, frozen=True):
    """Send status and headers. Without this step the first bytes of a body bring a 200 of an event stream."""

    status: int = 200
    headers: dict[str, str] = {}
    framing: Literal["chunked", "close"] = "chunked"
    """Whether the body has an end mark of its own, or ends with the connection."""


class Reply(Step, frozen=True):
    """Answer with a whole response that is no stream."""

    status: int
    body: Any = None
    """Text, or anything that becomes JSON."""
    headers: dict[str, str] = {}


class Raw(Step, frozen=True):
    """Send bytes of the body as they are; in JSON they are base64."""

    data: bytes


class Drip(Step, frozen=True):
    """Send bytes of the body one by one, each as a piece of its own; in JSON they are base64."""

    data: bytes


class Event(Step, frozen=True):
    """Send one event with any JSON in it."""

    data: Any


class Role(Step, frozen=True):
    """Send the chunk that names the role."""


class Text(Step, frozen=True):
    """Send a piece of the answer."""

    text: str


class Reasoning(Step, frozen=True):
    """Send a piece of the reasoning."""

    text: str


class Finish(Step, frozen=True):
    """Send the finish reason."""

    reason: str = "stop"


class Usage(Step, frozen=True):
    """Send the chunk without choices that holds the usage."""

    prompt: int = 3
    completion: int = 5


class Done(Step, frozen=True):
    """Send the end mark ``[DONE]``."""


class Hold(Step, frozen=True):
    """Wait until the gate of this name is released."""

    gate: str


class Pause(Step, frozen=True):
    """Wait, for benches that need a pace."""

    seconds: float


class Silence(Step, frozen=True):
    """Keep the connection open and say nothing until the client closes it."""


class Die(Step, frozen=True):
    """Break the connection, with a RST or with a FIN."""

    how: Literal["rst", "fin"] = "rst"


AnyStep = (
    Head
    | Reply
    | Raw
    | Drip
    | Event
    | Role
    | Text
    | Reasoning
    | Finish
    | Usage
    | Done
    | Hold
    | Pause
    | Silence
    | Die
)


def payload(step: Step) -> bytes | None:
    """Return what a step sends of the body; None for a step that does something else."""
    match step:
        case Raw(data=data):
            return data
        case Event(data=data):
            return event(data)
        case Role():
            return event(chunk({"role": "assistant", "content": ""}))
        case Text(text=text):
            return event(chunk({"content": text}))
        case Reasoning(text=text):
            return event(chunk({"reasoning_content": text}))
        case Finish(reason=reason):
            return event(chunk({}, finish_reason=reason))
        case Usage(prompt=prompt, completion=completion):
            counts = {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            }
            return event({**chunk(None), "usage": counts})
        case Done():
            return b"data: [DONE]\n\n"
    return None


def written(*steps: Step) -> bytes:
    """Return what steps send of the body, in one piece."""
    return b"".join(payload(step) or b"" for step in steps)


def answer(text: str, *, usage: bool = True, interval_s: float = 0.0) -> tuple[Step, ...]:
    """Return the script of an ordinary answer, word by word."""
    words = text.split(" ")
    pieces = [word + " " for word in words[:-1]] + words[-1:]
    steps: list[Step] = [Role()]
    for piece in pieces:
        if interval_s:
            steps.append(Pause(interval_s))
        steps.append(Text(piece))
    steps.append(Finish())
    if usage:
        steps.append(Usage(completion=len(words)))
    return (*steps, Done())
