"""Failures that nobody foresaw: a JSON error or the connection's end, and only a class in the log."""

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from transports.front.guard import Guard

SECRET = "sk-canary"


class Wire:
    """What an application sends."""

    def __init__(self, kind: str = "http") -> None:
        self.scope = {"type": kind, "path": "/v1/x", "headers": []}
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        return {"type": "http.request"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def serve(self, app: Any) -> None:
        with capture_logs() as self.logs:
            await Guard(app)(self.scope, self.receive, self.send)


async def broken(scope: Any, receive: Any, send: Any) -> None:
    raise KeyError(SECRET)


async def broken_later(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise KeyError(SECRET)


async def cancelled(scope: Any, receive: Any, send: Any) -> None:
    raise asyncio.CancelledError


async def test_a_failure_before_the_first_byte_is_a_json_error() -> None:
    wire = Wire()
    await wire.serve(broken)
    assert wire.sent[0]["status"] == 500
    assert json.loads(wire.sent[1]["body"])["error"]["code"] == "internal_error"


async def test_a_failure_after_it_ends_the_response_where_it_is() -> None:
    wire = Wire()
    await wire.serve(broken_later)
    assert [message["type"] for message in wire.sent] == ["http.response.start"]


async def test_a_failure_of_a_socket_closes_it() -> None:
    wire = Wire("websocket")
    await wire.serve(broken)
    assert wire.sent == [{"type": "websocket.close", "code": 1011}]


async def closed_and_cancelled(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.close", "code": 1012})
    raise asyncio.CancelledError


async def test_a_socket_that_is_closed_already_is_not_closed_again() -> None:
    wire = Wire("websocket")
    await wire.serve(closed_and_cancelled)
    assert wire.sent == [{"type": "websocket.close", "code": 1012}]


async def greeting(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})


async def test_a_client_that_has_left_before_it_was_greeted_is_no_failure() -> None:
    wire = Wire("websocket")

    async def gone(message: Any) -> None:
        wire.sent.append(message)
        raise ConnectionResetError

    wire.send = gone
    await wire.serve(greeting)
    assert wire.sent == [{"type": "websocket.accept"}] and wire.logs == []


async def test_a_request_that_the_stopping_server_cuts_is_told_why() -> None:
    wire = Wire()
    await wire.serve(cancelled)
    assert wire.sent[0]["status"] == 503
    assert json.loads(wire.sent[1]["body"])["error"]["code"] == "draining"


@pytest.mark.parametrize("app", [broken, broken_later])
async def test_the_log_has_the_class_and_the_place_and_no_text(app: Any) -> None:
    wire = Wire()
    await wire.serve(app)
    (entry,) = wire.logs
    assert (entry["error"], entry["path"]) == ("KeyError", "/v1/x")
    assert any("test_guard.py" in place for place in entry["where"])
    assert SECRET not in str(wire.logs) and SECRET not in str(wire.sent)
