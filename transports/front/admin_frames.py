"""The JSON of the admin protocol: requests in, answers and events out."""

import difflib
import enum
import re
from typing import Any, Union, get_args

import msgspec

from actors.exceptions import (
    ActorQuarantined,
    ActorStopped,
    DeadlineExceeded,
    MailboxFull,
    OutcomeUnknown,
    Refusal,
    StoreFault,
    TurnkeepError,
)
from actors.messages.admin import REQUESTS, AdminRequest, Answer, RequestId, type_of
from actors.messages.events import Event, Gap
from actors.messages.session import TurnGap, TurnOutcome
from actors.messages.turn import TurnEvent

TYPES = {type_of(request): request for request in REQUESTS}

SHOWN = 64
"""Characters of a foreign text that an error repeats."""


class Head(msgspec.Struct, frozen=True):
    """What every request has."""

    type: str
    id: RequestId = None


class BadFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is no request, and what to answer to it."""

    id: RequestId
    code: str
    message: str


_FIELD = re.compile(r" - at `\$\.(?P<name>\w+)")
_HEAD = msgspec.json.Decoder(Head)
_REQUEST: msgspec.json.Decoder[AdminRequest] = msgspec.json.Decoder(Union[REQUESTS])  # noqa: UP007  # a tuple
_ENCODER = msgspec.json.Encoder()


def read(raw: bytes) -> AdminRequest | BadFrame:
    """Read one message."""
    try:
        head = _HEAD.decode(raw)
    except msgspec.ValidationError as error:
        return BadFrame(id=None, code="invalid", message=f"not a request: {error}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BadFrame(id=None, code="invalid", message="not a JSON object")
    if head.type not in TYPES:
        return BadFrame(id=head.id, code="unknown_type", message=_unknown(head.type[:SHOWN]))
    try:
        return _REQUEST.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        text = f"{error}{_choices(TYPES[head.type], str(error))}"
        return BadFrame(id=head.id, code="invalid", message=f"{head.type}: {text}")


def _choices(request: type[AdminRequest], error: str) -> str:
    """Return what could be said instead, where an error is about one word of a known set."""
    if not error.startswith("Invalid enum value"):
        return ""
    place = _FIELD.search(error)
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(request)}
    known = _enum(fields[place["name"]]) if place and place["name"] in fields else None
    return f"; there are: {', '.join(str(member.value) for member in known)}" if known else ""


def _enum(kind: Any) -> type[enum.Enum] | None:
    """Return the enum that a field's type is or holds."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    return next((found for part in get_args(kind) if (found := _enum(part))), None)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, TYPES, n=1, cutoff=0.0)
    return f"unknown type {name!r}; the nearest is {near[0]}"


def answer(request_id: RequestId, result: Answer) -> bytes:
    """Write the answer to a request that succeeded."""
    return _ENCODER.encode({"id": request_id, "ok": True, "result": result})


def refusal(request_id: RequestId, code: str, message: str) -> bytes:
    """Write the answer to a request that did not."""
    return _ENCODER.encode({"id": request_id, "ok": False, "error": {"code": code, "message": message}})


def failure(request_id: RequestId, error: TurnkeepError) -> bytes:
    """Write what went wrong, in our own words."""
    if isinstance(error, Refusal):
        return refusal(request_id, error.code, error.message)
    if isinstance(error, DeadlineExceeded):
        return refusal(request_id, "timeout", f"{error}; whether it was done is not known")
    if isinstance(error, OutcomeUnknown):
        return refusal(request_id, "timeout", str(error))
    if isinstance(error, StoreFault):
        return refusal(request_id, "store_unavailable", str(error))
    if isinstance(error, MailboxFull):
        return refusal(request_id, "busy", f"{error}; try again")
    if isinstance(error, ActorQuarantined):
        return refusal(request_id, "quarantined", str(error))
    if isinstance(error, ActorStopped):
        return refusal(request_id, "gone", str(error))
    return refusal(request_id, "failed", str(error))


def happened(entry: Event | Gap, now: float) -> bytes:
    """Write an event of the bus, or that some are missing."""
    if isinstance(entry, Gap):
        return event("gap", entry.next_seq, now, {"next_seq": entry.next_seq})
    return _ENCODER.encode(
        {"event": entry.kind, "seq": entry.seq, "ts": entry.at, "path": entry.path, "data": entry.data}
    )


def turn_event(message: TurnEvent | TurnOutcome | TurnGap, now: float) -> bytes:
    """Write what a watcher of a turn is told."""
    data: dict[str, Any] = msgspec.to_builtins(message)
    if isinstance(message, TurnOutcome):
        return event("turn.outcome", None, now, data)
    if isinstance(message, TurnGap):
        return event("turn.gap", None, now, data)
    kind = data.pop("kind")
    return event(f"turn.{kind}", message.seq, now, data)


def event(kind: str, seq: int | None, now: float, data: dict[str, Any]) -> bytes:
    """Write an event."""
    return _ENCODER.encode({"event": kind, "seq": seq, "ts": now, "data": data})
