"""What a backend can do to a client, by name: one script each."""

from typing import Any

from tests.fakes.backend_script import (
    AnyStep,
    Die,
    Done,
    Drip,
    Event,
    Finish,
    Head,
    Raw,
    Reply,
    Role,
    Silence,
    Text,
    Usage,
    written,
)
from tests.fakes.chunks import chunk, event

Script = tuple[AnyStep, ...]

BEGUN: Script = (Role(), Text("Hel"), Text("lo"))
WHOLE: Script = (*BEGUN, Finish())
HALF_A_LINE = Raw(event(chunk({"content": " world"}))[:40])
MALFORMED = Raw(b'data: {"choices": [{"delta"\n\n')


def in_band(**fields: Any) -> Event:
    """Return an error object in the place of a chunk."""
    return Event({"error": {"message": "said in the stream", **fields}})


def refusal(status: int, *, headers: dict[str, str] | None = None, **fields: Any) -> Script:
    """Return an answer that is no stream."""
    return (Reply(status, {"error": {"message": f"it is {status}", **fields}}, headers or {}),)


UNACCEPTED: dict[str, Script] = {
    "rst before headers": (Die("rst"),),
    "fin before headers": (Die("fin"),),
    "silence before headers": (Silence(),),
    **{
        str(status): refusal(status)
        for status in (400, 401, 403, 404, 408, 409, 413, 429, 500, 502, 503, 529)
    },
    "429 with a wish": refusal(429, headers={"Retry-After": "7"}),
    "429 that speaks of length": refusal(429, message="over the maximum context length for now"),
    "overflow by code": refusal(400, code="context_length_exceeded"),
    "overflow by message": refusal(400, message="This model's maximum context length is 10 tokens."),
    "overflow as 413": refusal(413, message="The prompt is too long."),
}
"""Before it has accepted the request."""

DEATHS: dict[str, Script] = {
    "rst": (*BEGUN, Die("rst")),
    "rst at once": (Head(), Die("rst")),
    "fin": (*BEGUN, Die("fin")),
    "rst in mid-line": (*BEGUN, HALF_A_LINE, Die("rst")),
    "fin in mid-line": (*BEGUN, HALF_A_LINE, Die("fin")),
    "no finish reason": BEGUN,
    "no finish reason and a fin": (Head(framing="close"), *BEGUN, Die("fin")),
    "no finish reason and an end mark": (*BEGUN, Done()),
    "nothing but an end mark": (Done(),),
    "silence": (*BEGUN, Silence()),
    "server_error in band": (*BEGUN, in_band(type="server_error")),
    "rate_limit_exceeded in band": (*BEGUN, in_band(code="rate_limit_exceeded")),
    "unknown error in band": (*BEGUN, in_band(type="odd")),
    "overflow in band": (*BEGUN, in_band(code="context_length_exceeded")),
    "malformed chunk": (*BEGUN, MALFORMED, *WHOLE, Done()),
}
"""Once it has, and before the finish reason."""

BLIPS: dict[str, Script] = {
    "rst after the finish reason": (*WHOLE, Die("rst")),
    "fin after the finish reason": (*WHOLE, Die("fin")),
    "silence after the finish reason": (*WHOLE, Silence()),
    "error after the finish reason": (*WHOLE, in_band(type="server_error")),
    "malformed chunk after the finish reason": (*WHOLE, MALFORMED),
    "half a line after the finish reason": (*WHOLE, HALF_A_LINE, Die("fin")),
}
"""After the finish reason."""

ODDITIES: dict[str, Script] = {
    "usage": (*WHOLE, Usage(completion=2), Done()),
    "no usage": (*WHOLE, Done()),
    "end mark never": (*WHOLE, Usage(completion=2)),
    "end mark twice": (*WHOLE, Usage(completion=2), Done(), Done()),
    "two finish reasons": (*WHOLE, Finish("length"), Usage(completion=2), Done()),
    "role late": (Text("Hel"), Role(), Text("lo"), Finish(), Done()),
    "role never": (Text("Hel"), Text("lo"), Finish(), Done()),
    "empty choices": (
        Event(chunk(None)),
        Role(),
        Text("Hel"),
        Event(chunk(None)),
        Text("lo"),
        Finish(),
        Done(),
    ),
    "crlf": (Raw(written(*WHOLE, Done()).replace(b"\n", b"\r\n")),),
    "comments": (Raw(b": waiting\n\n"), *BEGUN, Raw(b": waiting\nevent: chunk\nid: 7\n"), Finish(), Done()),
    "dripped": (Drip(written(*WHOLE, Done())),),
    "dripped with crlf": (Drip(written(*WHOLE, Done()).replace(b"\n", b"\r\n")),),
    "framed by the fin": (Head(framing="close"), *WHOLE, Done()),
}
"""What is allowed, or common."""

FAULTS = {**UNACCEPTED, **DEATHS, **BLIPS, **ODDITIES}
