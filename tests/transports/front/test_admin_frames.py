"""The JSON of the admin protocol."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.exceptions import (
    ActorStopped,
    Conflict,
    DeadlineExceeded,
    HandlerFailed,
    MailboxFull,
    NotFound,
    Refusal,
    StoreUnavailable,
)
from actors.messages.admin import REQUESTS, AdminRequest, GetActor, ListActors, type_of
from actors.messages.events import Event, Gap
from actors.messages.session import TurnOutcome
from actors.messages.turn import Content
from transports.front import admin_frames as frames


def bad(raw):
    frame = frames.read(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    assert isinstance(frame, frames.BadFrame), frame
    return frame.id, frame.code, frame.message


@pytest.mark.parametrize("request_id", [7, "seven", None, 0, ""])
def test_a_request_keeps_its_id(request_id):
    frame = {"id": request_id, "type": "actors.get", "path": "/"}
    assert frames.read(json.dumps(frame).encode()) == GetActor(id=request_id, path="/")


def test_an_id_may_be_absent():
    assert frames.read(b'{"type": "actors.list"}') == ListActors()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'"x"',
        b"null",
        b"\xff\xfe",
        b"\x00",
        b'{"type": "actors.get"',
        b"{}",
        b'{"type": 5}',
    ],
)
def test_what_is_no_request_has_no_id(raw):
    assert bad(raw)[:2] == (None, "invalid")


@pytest.mark.parametrize("request_id", [1.5, [], {}, True])
def test_an_id_is_a_text_or_a_whole_number(request_id):
    assert bad({"id": request_id, "type": "actors.list"})[:2] == (None, "invalid")


def test_nesting_that_is_too_deep_is_refused():
    deep = b"[" * 100_000 + b"]" * 100_000
    assert bad(b'{"type": "actors.list", "x": ' + deep + b"}")[1] == "invalid"


def test_an_unknown_type_is_answered_with_the_nearest():
    assert bad({"id": 1, "type": "actors.lst"}) == (
        1,
        "unknown_type",
        "unknown type 'actors.lst'; the nearest is actors.list",
    )
    assert "the nearest is" in bad({"type": "§" * 10_000})[2] and len(bad({"type": "§" * 10_000})[2]) < 200


def test_what_is_wrong_with_a_request_is_named():
    assert bad({"id": 1, "type": "actors.get"}) == (
        1,
        "invalid",
        "actors.get: Object missing required field `path`",
    )
    assert "`nonsense`" in bad({"id": 1, "type": "actors.list", "nonsense": 1})[2]
    assert "$.limit" in bad({"id": 1, "type": "sessions.list", "limit": 10**30})[2]
    assert "$.name" in bad({"id": 1, "type": "peers.add", "name": "../x"})[2]


@pytest.mark.parametrize(
    ("request_type", "fields", "choices"),
    [
        ("peers.add", {"name": "p", "role": "conector"}, "connector, gateway"),
        ("deliveries.list", {"states": ["dead", "nope"]}, "pending, attempting, unknown, delivered, dead"),
        ("keys.add", {"name": "k", "scopes": ["root"]}, "api, observe, operate, admin"),
        ("actors.list", {"sort": "size"}, "path, depth, oldest, busy, handled, restarts, age"),
    ],
)
def test_where_one_of_some_words_is_wanted_they_are_named(request_type, fields, choices):
    assert bad({"type": request_type, **fields})[2].endswith(f"; there are: {choices}")


@given(st.binary(max_size=200))
def test_hostile_bytes_are_a_request_or_an_error(raw):
    assert isinstance(frames.read(raw), AdminRequest | frames.BadFrame)


VALUES = st.sampled_from(
    [None, True, -1, 0, 10**30, 1.5, "", "x", "x\0", "../x", "x" * 300, [], ["x"], [1], [[]], {}, {"x": {}}]
)


@given(
    st.sampled_from([type_of(request) for request in REQUESTS]),
    st.dictionaries(
        st.sampled_from(["id", "path", "name", "text", "limit", "scopes", "from_seq", "session_id"]), VALUES
    ),
)
def test_hostile_fields_are_a_request_or_an_error(request_type, fields):
    frame = frames.read(json.dumps({**fields, "type": request_type}).encode())
    assert isinstance(frame, AdminRequest | frames.BadFrame)


def test_answers():
    assert json.loads(frames.answer("a", {"n": 1})) == {"id": "a", "ok": True, "result": {"n": 1}}
    assert json.loads(frames.refusal(None, "invalid", "no")) == {
        "id": None,
        "ok": False,
        "error": {"code": "invalid", "message": "no"},
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), "not_found"),
        (Conflict("x"), "conflict"),
        (Refusal("x", code="session_busy"), "session_busy"),
        (DeadlineExceeded("x"), "timeout"),
        (StoreUnavailable("x"), "store_unavailable"),
        (MailboxFull("/x"), "busy"),
        (ActorStopped("/x"), "gone"),
        (HandlerFailed("/x", "ValueError"), "failed"),
    ],
)
def test_errors_have_codes(error, code):
    assert json.loads(frames.failure(1, error))["error"]["code"] == code


def test_events():
    event = Event(seq=7, kind="actor.crashed", path="/a", at=1.5, data={"error": "E"})
    assert json.loads(frames.happened(event, 9.0)) == {
        "event": "actor.crashed",
        "seq": 7,
        "ts": 1.5,
        "path": "/a",
        "data": {"error": "E"},
    }
    assert json.loads(frames.happened(Gap(next_seq=5), 9.0)) == {
        "event": "gap",
        "seq": 5,
        "ts": 9.0,
        "data": {"next_seq": 5},
    }


def test_turn_events_are_named_after_their_kind():
    content = Content(session_id="s", turn_id="t", turn_gen=1, attempt=1, seq=3, text="Hel")
    assert json.loads(frames.turn_event(content, 9.0)) == {
        "event": "turn.content",
        "seq": 3,
        "ts": 9.0,
        "data": {"session_id": "s", "turn_id": "t", "turn_gen": 1, "attempt": 1, "seq": 3, "text": "Hel"},
    }
    outcome = json.loads(frames.turn_event(TurnOutcome(inbox_id="i", turn=None), 9.0))
    assert (outcome["event"], outcome["data"]) == ("turn.outcome", {"inbox_id": "i", "turn": None})
