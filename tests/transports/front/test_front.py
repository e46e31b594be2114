"""/front by itself: its socket, its crashes, its stop, and what it answers when its neighbours do not."""

import asyncio
import contextlib
import json
import math
import socket
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import websockets

from actors.exceptions import StartFailed
from actors.messages.front import FrontInfo, StopAdmission
from actors.messages.lifecycle import Resume, Status, Stop, StopStatus, Suspend
from actors.messages.rows import TurnState
from actors.messages.session import AttachWatcher, DetachWatcher, InboxReady, StopTurn, TurnOutcome
from actors.messages.store import AcceptMessage, FindBindings, ListSessions, ListTurns
from tests.harness import until
from tests.transports.front.box import HEADERS, FrontBox
from tests.transports.front.test_feed import row

SAID = {"messages": [{"role": "user", "content": "hi"}]}
COMPLETIONS = "/v1/chat/completions"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers=HEADERS, timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def post(client: aiohttp.ClientSession, box: FrontBox, body: Any = SAID, **headers: str) -> Any:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.post(box.url + COMPLETIONS, json=body, headers=shown) as response:
        return response.status, response.headers, await response.json()


async def get(client: aiohttp.ClientSession, box: FrontBox, path: str) -> Any:
    async with client.get(box.url + path) as response:
        return response.status, await response.json()


# The socket


async def test_an_address_in_use_is_a_start_that_failed_and_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartFailed, match=rf"127\.0\.0\.1 port {port} is in use"):
            await FrontBox(tmp_path, port=port).__aenter__()


async def test_a_restart_cuts_what_was_open_and_listens_on_the_same_port(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path) as box:
        old = await box.connect()
        old.post(**SAID)
        await until(lambda: box.told(AttachWatcher))
        box.at("/front")._cell.kill()
        async with asyncio.timeout(10):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await old.reader.readexactly(1)
            await until(lambda: box.at("/front")._cell.status is Status.RUNNING)
        assert (await box.ask("/front", FrontInfo())).url == box.url
        assert (await get(client, box, "/livez"))[0] == 200


async def test_a_stop_lets_open_responses_end_and_takes_no_new_connection(tmp_path: Path) -> None:
    async with FrontBox(tmp_path, stop_s=10) as box:
        open_one, idle = await box.connect(), await box.connect()
        open_one.post(**SAID)
        await until(lambda: box.told(AttachWatcher))
        stopping = asyncio.ensure_future(box.at("/front").ask(Stop(), box.within()))
        assert await idle.reader.read() == b""
        with pytest.raises(OSError):
            await box.connect()
        watcher = box.told(AttachWatcher)[0].watcher
        watcher.tell(TurnOutcome(inbox_id="i", turn=row(TurnState.COMMITTED, text="late")))
        status, headers, answer = await open_one.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert answer["choices"][0]["message"]["content"] == "late"
        assert await stopping is StopStatus.STOPPED


async def test_a_stop_cuts_what_does_not_end(tmp_path: Path) -> None:
    async with FrontBox(tmp_path, stop_s=1) as box:
        one = await box.connect()
        one.post(**SAID)
        await until(lambda: box.told(AttachWatcher))
        assert await box.at("/front").ask(Stop(), box.within()) is StopStatus.STOPPED
        status, _, answer = await one.answer()
        assert (status, answer["error"]["code"]) == (503, "draining")
        assert await one.reader.read() == b""


# Sockets that others serve


async def test_a_socket_whose_endpoint_fails_is_closed(tmp_path: Path) -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        raise KeyError("sk-canary")

    async with FrontBox(tmp_path, relay_endpoint=fails) as box:
        async with websockets.connect(box.url.replace("http", "ws") + "/relay") as ws:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await ws.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011


# Neighbours that do not answer


async def test_api_4_without_a_lane_nothing_is_stored_and_the_name_is_only_a_name(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path, lanes=()) as box:
        status, headers, body = await post(client, box)
        assert (status, body["error"]["code"]) == (503, "backend_unavailable")
        token = headers["X-Session-Id"]
        assert headers["Retry-After"] == "1" and body["error"]["session_id"] == token
        assert headers["X-Hermes-Session-Id"] == token
        assert await box.ask("/store", FindBindings(peer="api:test", session_key=token)) == ()
        assert await box.ask("/store", ListSessions()) == ()
        assert (await get(client, box, "/readyz")) == (503, {"status": "not ready", "failing": ["lanes"]})
        assert (await get(client, box, "/v1/models"))[1]["data"] == []


async def test_a_store_that_does_not_answer_is_named_and_keeps_no_one_waiting(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path, ready_check_s=0.1, store_s=0.1) as box:
        await box.ask("/store", Suspend())
        answers = await asyncio.gather(*(get(client, box, "/readyz") for _ in range(10)))
        assert {(status, tuple(body["failing"])) for status, body in answers} == {(503, ("store",))}
        assert (await get(client, box, "/livez"))[0] == 200
        status, headers, body = await post(client, box)
        assert (status, body["error"]["code"], headers["Retry-After"]) == (503, "unavailable", "1")
        await box.ask("/store", Resume())
        await until(lambda: _is_ready(client, box))


async def test_a_front_is_not_ready_while_the_disk_takes_nothing_and_is_again_without_traffic(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path, ready_check_s=0.05) as box:

        def full() -> None:
            raise OSError(28, "No space left on device")

        box.system.failpoints.set("store.before_commit", full, times=math.inf)
        assert (await get(client, box, "/readyz"))[0] == 200
        assert (await post(client, box))[0] == 503
        await until(lambda: _is_not_ready(client, box))
        box.system.failpoints.clear("store.before_commit")
        await until(lambda: _is_ready(client, box))


async def _is_not_ready(client: aiohttp.ClientSession, box: FrontBox) -> bool:
    status, body = await get(client, box, "/readyz")
    return (status, body.get("failing")) == (503, ["store"])


async def _is_ready(client: aiohttp.ClientSession, box: FrontBox) -> bool:
    return bool((await get(client, box, "/readyz"))[0] == 200)


async def test_an_admission_that_nobody_can_vouch_for_is_not_to_be_sent_again(tmp_path: Path) -> None:
    async with FrontBox(tmp_path, store_s=0.2) as box:
        one = await box.connect()
        body = json.dumps(SAID).encode()
        asked = box.at("/store")._cell.handled
        one.begin(Content_Length=len(body), X_Session_Id="c1")
        # The key has been looked up: what comes next is the admission.
        await until(lambda: box.at("/store")._cell.handled > asked)
        await box.ask("/store", Suspend())
        one.writer.write(body)
        status, headers, answer = await one.answer()
        assert (status, answer["error"]["code"]) == (503, "outcome_unknown")
        assert headers["x-should-retry"] == "false" and "retry-after" not in headers
        assert headers["x-session-id"] == answer["error"]["session_id"] == "c1"
        await box.ask("/store", Resume())
        assert await box.ask("/store", ListTurns()) == () and box.heard == []


async def test_an_admission_whose_answer_was_lost_is_found_again(tmp_path: Path) -> None:
    async with FrontBox(tmp_path) as box:
        points = box.system.failpoints
        # Once the message is being written: the store dies after the commit, before it answers.
        points.set("store.before_commit", lambda: points.set("store.after_commit", _die))
        one = await box.connect()
        one.post(**SAID)
        await until(lambda: box.told(AttachWatcher))
        assert box.at("/store")._cell.incarnation == 1
        (turn,) = await box.ask("/store", ListTurns())
        (attached,) = box.told(AttachWatcher)
        assert (attached.session_id, attached.inbox_id) == (turn.session_id, turn.inbox_id)
        one.close()
        await until(lambda: box.told(StopTurn))


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("lost", ["answer", "front"])
async def test_a_message_that_is_kept_when_nobody_waits_any_more_is_seen_to(
    tmp_path: Path, lost: str, detached: bool
) -> None:
    async with FrontBox(tmp_path, store_s=0.2 if lost == "answer" else 10.0) as box:
        functions = box.at("/store")._cell.behaviour._functions
        accept, entered, gate = functions[AcceptMessage], threading.Event(), threading.Event()

        def hold(connection: Any, request: Any) -> Any:
            entered.set()
            gate.wait(10)
            return accept(connection, request)

        functions[AcceptMessage] = hold
        one = await box.connect()
        body = json.dumps(SAID).encode()
        one.begin(Content_Length=len(body), X_Turnkeep_Detach=int(detached))
        one.writer.write(body)
        await until(entered.is_set)
        if lost == "answer":
            assert (await one.answer())[2]["error"]["code"] == "outcome_unknown"
        else:
            box.at("/front")._cell.kill()
            assert await one.reader.read() == b""
        gate.set()
        (told,) = await until(lambda: box.told(InboxReady if detached else StopTurn))
        (turn,) = await box.ask("/store", ListTurns())
        assert told.session_id == turn.session_id
        assert detached or (told.inbox_id, told.by) == (turn.inbox_id, "client_gone")


def _die() -> None:
    raise RuntimeError("failpoint")


async def test_api_8_a_rotation_whose_answer_was_lost_is_found_again(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path) as box:
        points = box.system.failpoints
        points.set("store.before_commit", lambda: points.set("store.after_commit", _die))
        body = {"messages": [{"role": "user", "content": "/new"}]}
        status, _, _ = await post(client, box, body, X_Session_Id="c1")
        assert status == 200 and box.at("/store")._cell.incarnation == 1
        (binding,) = await box.ask("/store", FindBindings(peer="api:test", session_key="c1"))
        (session,) = await box.ask("/store", ListSessions())
        assert binding.session_id == session.session_id


@pytest.mark.parametrize("text", ["hi", "/new", "/new hi"])
async def test_a_write_that_died_with_the_store_is_made_by_the_one_that_follows(
    tmp_path: Path, text: str
) -> None:
    async with FrontBox(tmp_path) as box:
        box.system.failpoints.set("store.before_commit", _die)
        one = await box.connect()
        one.begin(Content_Length=len(body := _said(text)), X_Session_Id="c1")
        one.writer.write(body)
        if text == "/new":
            assert (await one.answer())[0] == 200
        else:
            await until(lambda: box.told(AttachWatcher))
        assert box.at("/store")._cell.incarnation == 1
        (session,) = await box.ask("/store", ListSessions())
        (binding,) = await box.ask("/store", FindBindings(peer="api:test", session_key="c1"))
        assert binding.session_id == session.session_id
        assert session.queued == (text != "/new")


def _said(text: str) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": text}]}).encode()


async def test_a_write_that_the_disk_refuses_is_not_kept_and_may_be_sent_again(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path) as box:

        def full() -> None:
            raise OSError(28, "No space left on device")

        box.system.failpoints.set("store.before_commit", full)
        status, headers, body = await post(client, box, X_Session_Id="c1")
        assert (status, body["error"]["code"], headers["Retry-After"]) == (503, "unavailable", "1")
        assert headers["X-Session-Id"] == "c1" and "X-Should-Retry" not in headers
        assert await box.ask("/store", ListTurns()) == ()


# Admission and leaving


async def test_draining_refuses_all_of_v1_and_nothing_else(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path) as box:
        await box.ask("/front", StopAdmission())
        status, headers, body = await post(client, box, X_Session_Id="c1")
        assert (status, body["error"]["code"], headers["X-Session-Id"]) == (503, "draining", "c1")
        assert (await get(client, box, "/v1/models"))[0] == 503
        assert (await get(client, box, "/livez"))[0] == 200
        assert (await get(client, box, "/readyz"))[1]["failing"] == ["draining"]
        assert await box.ask("/store", ListTurns()) == ()


@pytest.mark.parametrize(("headers", "stops"), [({}, 1), ({"X_Turnkeep_Detach": "1"}, 0)])
async def test_a_client_that_leaves_before_anything_was_said_lets_go(
    tmp_path: Path, headers: dict[str, str], stops: int
) -> None:
    async with FrontBox(tmp_path) as box:
        one = await box.connect()
        data = json.dumps({**SAID, "stream": True}).encode()
        one.begin(Content_Length=len(data), **headers)
        one.writer.write(data)
        await until(lambda: box.told(AttachWatcher))
        (turn,) = await box.ask("/store", ListTurns())
        assert turn.detached is (stops == 0)
        one.close()
        await until(lambda: box.told(DetachWatcher))
        await box.system.idle()
        assert [stop.by for stop in box.told(StopTurn)] == ["client_gone"] * stops
        assert all(stop.inbox_id == turn.inbox_id for stop in box.told(StopTurn))


async def test_a_silent_turn_is_asked_for_again_and_given_up_after_the_budget(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path, keepalive_s=0.02, early_error_s=0.02, request_s=0.5) as box:
        status, headers, body = await post(client, box)
        assert (status, body["error"]["code"]) == (504, "turn_failed")
        assert headers["X-Should-Retry"] == "false"
        assert len(box.told(AttachWatcher)) > 2
        await until(lambda: box.told(StopTurn))


async def test_api_9_the_session_that_a_chat_leaves_is_stopped_after_the_new_one_is_bound(
    tmp_path: Path,
) -> None:
    async with FrontBox(tmp_path) as box:
        first = await box.connect()
        first.begin(Content_Length=len(json.dumps(SAID)), X_Session_Id="c1")
        first.writer.write(json.dumps(SAID).encode())
        await until(lambda: box.told(AttachWatcher))
        old = box.told(AttachWatcher)[0].session_id
        second = await box.connect()
        data = json.dumps({"messages": [{"role": "user", "content": "/new go"}]}).encode()
        second.begin(Content_Length=len(data), X_Session_Id="c1")
        second.writer.write(data)
        await until(lambda: box.told(StopTurn))
        (stop,) = box.told(StopTurn)
        assert (stop.session_id, stop.by, stop.inbox_id) == (old, "superseded", None)
        assert box.told(AttachWatcher)[1].session_id != old


# Bodies


async def test_a_body_that_does_not_come_is_answered(tmp_path: Path) -> None:
    async with FrontBox(tmp_path, body_s=0.1) as box:
        one = await box.connect()
        one.begin(Content_Length=100, X_Session_Id="c1")
        one.writer.write(b'{"mess')
        status, headers, answer = await one.answer()
        assert (status, answer["error"]["code"], headers["connection"]) == (408, "body_timeout", "close")
        assert await one.reader.read() == b""


async def test_api_18_a_client_that_sends_all_before_it_reads_gets_its_413(tmp_path: Path) -> None:
    size = 4 * 1024 * 1024
    async with FrontBox(tmp_path, max_body_bytes=1000) as box:
        one = await box.connect()
        one.begin(Content_Length=size)
        for _ in range(size // 65536):
            one.writer.write(b"x" * 65536)
            await one.writer.drain()
        status, _, answer = await one.answer()
        assert (status, answer["error"]["code"]) == (413, "body_too_large")
        one.begin(path="/nope", Content_Length=0)
        assert (await one.answer())[0] == 404


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"GET /", b"x"),
        (b"GET /livez HTTP/1.1\r\nX-Long: ", b"x"),
        (b"GET /livez HTTP/1.1\r\n", b"X-Short: y\r\n"),
        (
            b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X-Trailer: y\r\n",
        ),
        (b"", b"\r\n"),
    ],
    ids=["line", "header", "headers", "trailers", "blank"],
)
async def test_rel_3_a_head_without_end_is_refused_before_it_costs_memory(
    tmp_path: Path, client: aiohttp.ClientSession, begun: bytes, more: bytes
) -> None:
    async with FrontBox(tmp_path, max_head_bytes=10_000) as box:
        one = await box.connect()
        one.writer.write(begun)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                while not one.reader.at_eof():
                    one.writer.write(more * (2000 // len(more)))
                    await one.writer.drain()
                    await asyncio.sleep(0)
        assert one.reader.at_eof() or one.reader.exception() is not None
        assert (await get(client, box, "/livez"))[0] == 200


async def test_rel_3_a_head_that_is_too_large_is_answered_431(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path, max_head_bytes=1000) as box:
        one = await box.connect()
        one.begin(path="/livez", X_Name="v" * 400)
        assert (await one.answer())[0] != 431
        one.writer.write(b"GET /livez HTTP/1.1\r\n")
        # By the time that another connection is answered, this has been read.
        assert (await get(client, box, "/livez"))[0] == 200
        one.writer.write(b"X-Long: " + b"v" * 2000)
        status, headers, answer = await one.answer()
        assert (status, answer["error"]["code"], headers["connection"]) == (431, "head_too_large", "close")
        assert await one.reader.read() == b""


@pytest.mark.parametrize("begun", [b"", b"GET /livez HTTP/1.1\r\nHost: "])
async def test_rel_3_a_head_that_does_not_come_in_time_ends_its_connection(
    tmp_path: Path, begun: bytes
) -> None:
    async with FrontBox(tmp_path, head_s=0.1) as box:
        one = await box.connect()
        one.writer.write(begun)
        status, headers, answer = await one.answer()
        assert (status, answer["error"]["code"], headers["connection"]) == (408, "head_timeout", "close")
        assert await one.reader.read() == b""


async def test_rel_3_the_time_of_a_head_is_not_that_of_a_turn(tmp_path: Path) -> None:
    async with FrontBox(tmp_path, head_s=0.05, body_s=0.3) as box:
        one = await box.connect()
        one.begin(Content_Length=100)
        status, _, answer = await one.answer()
        assert (status, answer["error"]["code"]) == (408, "body_timeout")


async def test_what_is_no_http_is_refused_like_everything_else(tmp_path: Path) -> None:
    async with FrontBox(tmp_path) as box:
        one = await box.connect()
        one.writer.write(b"\x16\x03\x01 no HTTP\r\n\r\n")
        status, _, answer = await one.answer()
        assert (status, answer["error"]["code"]) == (400, "invalid_http")


async def test_a_client_that_leaves_in_its_body_leaves_nothing(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path) as box:
        one = await box.connect()
        one.begin(Content_Length=100)
        one.writer.write(b"{")
        await one.writer.drain()
        one.close()
        assert (await get(client, box, "/livez"))[0] == 200
        assert await box.ask("/store", ListTurns()) == () and box.told(AcceptMessage) == []


@pytest.mark.parametrize("headers", [{"X_Session_Id": "c1"}, {"X_Hermes_Session_Id": "c1"}])
async def test_api_5_a_supplied_name_is_on_every_refusal(tmp_path: Path, headers: dict[str, str]) -> None:
    async with FrontBox(tmp_path, max_body_bytes=1000) as box, aiohttp.ClientSession() as stranger:
        seen = []
        for given, body in (
            ({}, SAID),
            (HEADERS, {}),
            (HEADERS, {**SAID, "model": "nope"}),
            (HEADERS, {**SAID, "x": "y" * 2000}),
        ):
            status, shown, answer = await post(stranger, box, body, **headers, **given)
            seen.append(status)
            assert shown["X-Session-Id"] == shown["X-Hermes-Session-Id"] == "c1"
            assert answer["error"]["session_id"] == "c1"
        assert seen == [401, 400, 404, 413]


async def test_a_bad_name_is_not_judged_before_the_key(tmp_path: Path) -> None:
    async with FrontBox(tmp_path) as box, aiohttp.ClientSession() as stranger:
        status, headers, _ = await post(stranger, box, X_Session_Id="../x")
        assert status == 401 and "X-Session-Id" not in headers
        assert headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/livez/", 404), ("/v1/models/", 404), ("/v1/models/fake", 200), ("/v1/models/fake-1", 200)],
)
async def test_paths_are_exact(tmp_path: Path, client: aiohttp.ClientSession, path: str, status: int) -> None:
    async with FrontBox(tmp_path) as box, client.get(box.url + path, allow_redirects=False) as response:
        assert response.status == status and response.content_type == "application/json"


async def test_a_model_that_is_not_there_is_answered_with_those_that_are(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path) as box:
        status, body = await get(client, box, "/v1/models/nope")
        assert (status, body["error"]["code"]) == (404, "model_not_found")
        assert body["error"]["message"].endswith("there are: turnkeep, fake.")


async def test_a_page_of_another_origin_may_send_what_client_libraries_send(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    async with FrontBox(tmp_path) as box:
        asked = "authorization,content-type,x-session-id,x-stainless-lang,x-turnkeep-detach"
        headers = {
            "Origin": "http://app",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": asked,
        }
        async with client.options(box.url + COMPLETIONS, headers=headers) as response:
            assert response.status == 200
            assert response.headers["Access-Control-Allow-Headers"] == asked
        _, shown, _ = await post(client, box, {}, Origin="http://app")
        exposed = {name.strip().lower() for name in shown["Access-Control-Expose-Headers"].split(",")}
        assert exposed == {"x-session-id", "x-hermes-session-id", "retry-after", "x-should-retry"}


async def test_a_reset_connection_is_not_kept_for_the_time_of_its_keep_alive(tmp_path: Path) -> None:
    def waiting() -> int:
        timers = asyncio.get_running_loop()._scheduled
        return sum("keep_alive" in repr(timer) and not timer.cancelled() for timer in timers)

    async with FrontBox(tmp_path) as box:
        one = await box.connect()
        one.writer.write(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        await one.reader.readuntil(b"}")
        assert waiting() == 1
        one.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        one.writer.transport.abort()
        await until(lambda: not waiting())
