"""The lane to a real HTTP server, through real sockets."""

import asyncio
import fcntl
import json
import os
import re
import socket
import sys
import termios

import psutil
import pytest
import structlog

from actors.messages.lane import (
    FailureClass,
    Prepared,
    StreamArmed,
    StreamDelta,
    StreamFinished,
    StreamPrepared,
)
from actors.messages.rows import Entry
from actors.messages.secret import Secret
from tests.clock import StillClock
from tests.fakes.backend_script import (
    Die,
    Done,
    Event,
    Finish,
    Head,
    Hold,
    Raw,
    Reasoning,
    Reply,
    Role,
    Silence,
    Text,
    Usage,
)
from tests.fakes.chunks import chunk
from tests.transports.backends.conftest import failure_of, text_of

CANARY = "CANARY-9f27"


def finish_of(messages) -> StreamFinished:
    assert isinstance(messages[-1], StreamFinished), messages[-1]
    return messages[-1]


# The request


async def test_an_answer_comes_in_pieces_and_ends_once(backend, ask_lane):
    backend.script(Role(), Reasoning("hm"), Text("Hel"), Text("lo"), Finish("stop"), Usage(3, 5), Done())
    messages = await ask_lane().ask()
    assert isinstance(messages[0], StreamArmed)
    assert text_of(messages) == "Hello"
    assert "".join(m.reasoning for m in messages if isinstance(m, StreamDelta)) == "hm"
    assert finish_of(messages).finish_reason == "stop"
    assert finish_of(messages).usage == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


async def test_tool_calls_come_as_deltas_with_ids_of_ours_where_the_backend_gives_none(backend, ask_lane):
    function = {"name": "f", "arguments": "{}"}
    backend.script(Event(chunk({"tool_calls": [{"index": 0, "function": function}]})), Finish("stop"), Done())
    messages = await ask_lane().ask()
    (call,) = [call for m in messages if isinstance(m, StreamDelta) for call in m.tool_calls]
    assert (call.index, call.name, call.arguments) == (0, "f", "{}")
    assert re.fullmatch(r"call_[0-9a-f]{16}_0", call.call_id)
    assert finish_of(messages).finish_reason == "tool_calls"


async def test_the_request_is_what_the_protocol_asks_for(backend, ask_lane):
    asker = ask_lane(api_key=Secret(CANARY))
    entries = (
        Entry(role="user", content="a"),
        Entry(role="assistant", content="b"),
        Entry(role="user", content="c"),
    )
    asker.open(
        entries,
        system="Be brief.",
        temperature=0.5,
        stop=["x"],
        model="other",
        stream=False,
        messages=[],
        stream_options={},
        n=3,
    )
    await asker.until_end()
    [exchange] = backend.exchanges
    assert exchange.path == "/v1/chat/completions"
    assert exchange.headers["authorization"] == f"Bearer {CANARY}"
    assert exchange.headers["accept-encoding"] == "identity"
    assert exchange.body == {
        "model": "fake-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "stop": ["x"],
    }


async def test_without_a_key_there_is_no_authorization(backend, ask_lane):
    await ask_lane().ask()
    assert "authorization" not in backend.exchanges[0].headers


async def test_a_key_is_read_from_the_environment(backend, ask_lane, monkeypatch):
    monkeypatch.setenv("LANE_KEY", CANARY)
    await ask_lane(api_key_env="LANE_KEY").ask()
    assert backend.exchanges[0].headers["authorization"] == f"Bearer {CANARY}"


async def test_without_the_key_that_it_should_have_it_asks_nobody(backend, ask_lane, monkeypatch):
    monkeypatch.delenv("LANE_KEY", raising=False)
    failed = failure_of(await ask_lane(api_key_env="LANE_KEY").ask())
    assert (failed.failure, failed.error_class) == (FailureClass.AUTH_REFUSED, "ApiKeyMissing")
    assert backend.exchanges == []


async def test_a_long_history_is_sent_whole(backend, ask_lane):
    text = "x" * (3 << 20)
    backend.script(Text("a"), Finish(), Done())
    assert text_of(await ask_lane().ask(text)) == "a"
    assert backend.exchanges[0].last_user_message == text


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"system": 5}, "TypeError"),
        ({"stop": "\ud800"}, "UnicodeEncodeError"),
        ({"x": object()}, "TypeError"),
    ],
)
async def test_a_request_that_cannot_be_put_together_fails_alone(backend, ask_lane, params, error):
    asker = ask_lane()
    failed = failure_of(await asker.ask(**params))
    assert (failed.failure, failed.error_class) == (FailureClass.PREPARATION, error)
    assert text_of(await asker.ask("x")) == "reply to: x"
    assert len(backend.exchanges) == 1


async def test_trn_29_a_preparation_fault_says_its_class_only_and_asks_nobody(backend, ask_lane, system):
    def fault():
        raise ValueError(CANARY)

    system.failpoints.set("lane.prepare", fault)
    with structlog.testing.capture_logs() as logs:
        messages = await ask_lane().ask()
    failed = failure_of(messages)
    assert (len(messages), failed.failure, failed.error_class) == (1, FailureClass.PREPARATION, "ValueError")
    assert CANARY not in repr(messages) + repr(logs)
    assert backend.exchanges == []


async def test_trn_41_what_the_lane_does_not_take_is_a_preparation_fault(backend, ask_lane):
    look = Entry(role="user", content="", parts=({"type": "image_url", "image_url": {"url": CANARY}},))
    asker = ask_lane()
    failed = failure_of(await asker.ask((look,)))
    assert (failed.failure, failed.error_class) == (FailureClass.PREPARATION, "ImagesNotTaken")
    assert backend.exchanges == []


async def test_the_request_is_told_before_it_goes_out(backend, ask_lane):
    backend.script(Hold("gate"), Text("a"), Finish(), Done())
    asker = ask_lane()
    asker.open("x")
    message = await asker.port.receive(asker.within())
    assert isinstance(message, StreamPrepared)
    assert (message.prepared.lane, message.prepared.gen) == ("main", 1)
    backend.release("gate")
    await asker.until_end()
    assert json.loads(message.prepared.body) == backend.exchanges[0].body


@pytest.mark.parametrize(("changes", "again"), [({}, False), ({"gen": 2}, True), ({"lane": "other"}, True)])
async def test_trn_5_a_request_that_is_prepared_goes_out_as_it_is_while_its_lane_is_the_same(
    backend, ask_lane, system, changes, again
):
    prepared = Prepared(
        **{"lane": "main", "gen": 1, "body": b'{"messages":[{"role":"user","content":"old"}]}', **changes}
    )
    asker = ask_lane()
    asker.open("new", prepared=prepared)
    messages = await asker.until_end()
    assert text_of(messages) == f"reply to: {'new' if again else 'old'}"
    assert system.failpoints.passed.get("lane.prepare", 0) == 0
    assert (asker.prepared == [prepared]) is not again


async def test_trn_36_the_dump_of_a_request_is_in_the_debug_log_without_secrets(backend, ask_lane):
    asker = ask_lane(api_key=Secret(CANARY))
    with structlog.testing.capture_logs() as logs:
        asker.open(f"my key is {CANARY} and api_key=hunter22", dump=True)
        await asker.until_end()
        asker.open("x")
        await asker.until_end()
    [dump] = [entry for entry in logs if entry["event"] == "lane.request"]
    assert dump["log_level"] == "debug"
    assert "my key is" in dump["body"]
    assert CANARY not in dump["body"] and "hunter22" not in dump["body"]


async def test_one_connection_serves_request_after_request(backend, ask_lane):
    asker = ask_lane()
    for _ in range(3):
        await asker.ask()
        await asker.until_idle()
    assert backend.connections_made == 1


async def test_it_describes_itself_without_secrets(backend, ask_lane):
    asker = ask_lane(base_url=backend.url.replace("http://", f"http://user:{CANARY}@") + f"?key={CANARY}")
    info = await asker.describe()
    assert (info.kind, info.model, info.base_url) == ("openai", "fake-model", backend.url)
    assert text_of(await asker.ask("x")) == "reply to: x"
    assert backend.exchanges[0].headers["authorization"].startswith("Basic ")
    assert backend.exchanges[0].path == f"/v1/chat/completions?key={CANARY}"


# Ends of a stream


@pytest.mark.parametrize(
    ("script", "failure", "error"),
    [
        ((Text("a"), Die("rst")), FailureClass.INCOMPLETE, "ReadError"),
        ((Text("a"), Die("fin")), FailureClass.INCOMPLETE, "ReadError"),
        ((Text("a"), Raw(b'data: {"choi'), Die("fin")), FailureClass.INCOMPLETE, "ReadError"),
        ((Head(framing="close"), Text("a"), Die("fin")), FailureClass.INCOMPLETE, "IncompleteStream"),
        ((Text("a"),), FailureClass.INCOMPLETE, "IncompleteStream"),
        ((Text("a"), Done()), FailureClass.INCOMPLETE, "IncompleteStream"),
        ((Text("a"), Raw(b"data: {nonsense\n\n")), FailureClass.PROTOCOL, "MalformedChunk"),
        ((Text("a"), Raw(b"data: " + b"x" * 5000)), FailureClass.PROTOCOL, "EventTooLarge"),
        (
            (Text("a"), Event({"error": {"code": "server_error", "message": CANARY}})),
            FailureClass.SERVER_ERROR,
            "ServerError",
        ),
        (
            (Text("a"), Event({"error": {"code": "rate_limit_exceeded", "message": CANARY}})),
            FailureClass.RATE_LIMITED,
            "RateLimited",
        ),
        (
            (Text("a"), Event({"error": {"code": "context_length_exceeded"}})),
            FailureClass.OVERFLOW,
            "ContextOverflow",
        ),
    ],
)
async def test_a_stream_that_dies(backend, ask_lane, script, failure, error):
    # The death waits until the text was read: a RST overtakes what lies before it.
    backend.script(*script[:-1], *([Hold("gate")] if isinstance(script[-1], Die) else []), script[-1])
    asker = ask_lane(max_event_bytes=4000)
    asker.open()
    messages = [await asker.next(), await asker.next()]
    backend.release("gate")
    messages += await asker.until_end()
    failed = failure_of(messages)
    assert (failed.failure, failed.error_class) == (failure, error)
    assert text_of(messages) == "a"
    assert CANARY not in repr(messages)


@pytest.mark.parametrize(
    "script",
    [
        (Text("a"), Finish(), Hold("gate"), Die("rst")),
        (Text("a"), Finish(), Die("fin")),
        (Text("a"), Finish(), Usage(), Done(), Done()),
        (Text("a"), Finish()),
        (Text("a"), Finish("stop"), Finish("length"), Done()),
        (Text("a"), Finish(), Raw(b"data: {nonsense\n\n")),
        (Head(framing="close"), Text("a"), Finish(), Done()),
        (Raw(b": hello\r\n\r\n"), Text("a"), Role(), Raw(b"event: x\r\ndata: {}\r\n\r\n"), Finish(), Done()),
    ],
)
async def test_a_stream_that_ends_well(backend, ask_lane, script):
    backend.release("gate")
    backend.script(*script)
    messages = await ask_lane().ask()
    assert text_of(messages) == "a"
    assert finish_of(messages).finish_reason == "stop"


async def test_a_lane_may_do_without_finish_reasons(backend, ask_lane):
    backend.script(Text("a"), Done())
    assert finish_of(await ask_lane(finish_optional=True).ask()).finish_reason is None


async def test_a_backend_that_forgets_to_end_is_not_waited_for(backend, ask_lane):
    backend.script(Text("a"), Finish("stop"), Silence())
    asker = ask_lane(trailing_s=0.05)
    assert finish_of(await asker.ask()).finish_reason == "stop"
    await backend.exchanges[0].connection_closed.wait()


async def test_a_backend_that_forgets_to_end_after_done_is_not_waited_for(backend, ask_lane):
    backend.script(Text("a"), Finish("stop"), Done(), Silence())
    asker = ask_lane(trailing_s=0.05)
    assert finish_of(await asker.ask()).finish_reason == "stop"
    await backend.exchanges[0].connection_closed.wait()
    await asker.until_idle()


# Refusals


@pytest.mark.parametrize(
    ("reply", "failure", "error"),
    [
        (Reply(500, {"error": {"message": CANARY}}), FailureClass.SERVER_ERROR, "ServerError"),
        (Reply(503, CANARY), FailureClass.SERVER_ERROR, "ServerError"),
        (Reply(401, {"error": {"message": CANARY}}), FailureClass.AUTH_REFUSED, "AuthRefused"),
        (Reply(404, "<html>"), FailureClass.BAD_REQUEST, "BadRequest"),
        (
            Reply(400, {"error": {"code": "context_length_exceeded"}}),
            FailureClass.OVERFLOW,
            "ContextOverflow",
        ),
        (Reply(400, {"detail": "maximum context length is 5"}), FailureClass.OVERFLOW, "ContextOverflow"),
        (
            Reply(429, {"error": {"code": "context_length_exceeded"}}),
            FailureClass.RATE_LIMITED,
            "RateLimited",
        ),
        (Reply(302, "", {"location": "/elsewhere"}), FailureClass.PROTOCOL, "UnexpectedStatus"),
        (Reply(400, CANARY * 100_000), FailureClass.BAD_REQUEST, "BadRequest"),
    ],
)
async def test_a_refusal_has_its_class_and_never_its_text(backend, ask_lane, reply, failure, error):
    backend.script(reply)
    messages = await ask_lane().ask()
    failed = failure_of(messages)
    assert len(messages) == 1
    assert (failed.failure, failed.error_class, failed.status) == (failure, error, reply.status)
    assert CANARY not in repr(messages)
    assert len(backend.exchanges) == 1


@pytest.mark.parametrize(
    ("reply", "failure", "error"),
    [
        (Reply(200, {"error": {"code": "server_error"}}), FailureClass.SERVER_ERROR, "ServerError"),
        (Reply(200, {"object": "chat.completion"}), FailureClass.PROTOCOL, "NotAStream"),
        (
            Reply(200, "<html>", {"content-type": "text/html; charset=utf-8"}),
            FailureClass.PROTOCOL,
            "NotAStream",
        ),
    ],
)
async def test_a_200_that_is_no_stream_is_a_refusal(backend, ask_lane, reply, failure, error):
    backend.script(reply)
    messages = await ask_lane().ask()
    assert len(messages) == 1
    assert (failure_of(messages).failure, failure_of(messages).error_class) == (failure, error)


async def test_retry_after_is_handed_on(backend, ask_lane):
    backend.script(Reply(429, {}, {"retry-after": "7"}))
    assert failure_of(await ask_lane().ask()).retry_after == 7.0


async def test_a_refusal_whose_body_does_not_end_is_not_waited_for(backend, ask_lane):
    backend.script(Head(500), Raw(b"oh"), Silence())
    failed = failure_of(await ask_lane(trailing_s=0.05).ask())
    assert (failed.failure, failed.status) == (FailureClass.SERVER_ERROR, 500)
    await backend.exchanges[0].connection_closed.wait()


@pytest.mark.parametrize("how", ["rst", "fin"])
async def test_a_connection_that_breaks_before_the_answer(backend, ask_lane, how):
    backend.script(Die(how))
    failed = failure_of(await ask_lane().ask())
    assert failed.failure is FailureClass.CONNECT
    assert len(backend.exchanges) == 1


async def test_an_answer_that_is_no_http(ask_lane):
    async def babble(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 smtp ready\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        failed = failure_of(await ask_lane(base_url=f"http://127.0.0.1:{port}/v1").ask())
    assert failed.failure is FailureClass.PROTOCOL


async def test_nobody_listens(backend, ask_lane):
    await backend.stop()
    failed = failure_of(await ask_lane().ask())
    assert (failed.failure, failed.error_class) == (FailureClass.CONNECT, "ConnectError")


async def test_a_backends_text_reaches_a_debug_log_only_and_without_secrets(backend, ask_lane):
    backend.script(Reply(401, {"error": {"message": f"bad key {CANARY} or sk-abcdefgh at you"}}))
    with structlog.testing.capture_logs() as logs:
        await ask_lane(api_key=Secret(CANARY)).ask()
    [entry] = [entry for entry in logs if entry["event"] == "backend.error"]
    assert entry["log_level"] == "debug"
    assert entry["text"] == "bad key … or … at you"


# Cancellation (TRN-52)


@pytest.mark.parametrize(
    "script",
    [
        (Silence(),),
        (Head(), Silence()),
        (Text("a"), Silence()),
        (Text("a"), Finish(), Silence()),
        (Head(503), Silence()),
    ],
)
async def test_cancel_closes_the_connection_within_100_ms(backend, ask_lane, script):
    backend.script(*script[:-1], Hold("gate"), times=5)
    asker = ask_lane()
    loop = asyncio.get_running_loop()
    took = []
    for round_ in range(5):
        stream_id = asker.open()
        exchange = await backend.request(round_)
        await backend.gate("gate").reached.wait()
        if len(script) > 1 and script[0] != Head(503):
            await asker.next()
        began = loop.time()
        asker.cancel(stream_id)
        await exchange.connection_closed.wait()
        took.append(loop.time() - began)
    assert min(took) < 0.1
    await asker.until_idle()


async def test_after_a_cancel_nothing_more_is_said(backend, ask_lane):
    backend.script(Text("a"), Silence())
    asker = ask_lane()
    cancelled = asker.open()
    await asker.next()
    await asker.next()
    asker.cancel(cancelled)
    other = asker.open("x")
    assert {message.stream_id for message in await asker.until_end()} == {other}


async def test_cancel_in_a_tls_handshake_closes_the_connection(ask_lane):
    hello, gone = asyncio.Event(), asyncio.Event()

    async def silent(reader, writer):
        await reader.read(1)
        hello.set()
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        gone.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        asker = ask_lane(base_url=f"https://127.0.0.1:{port}/v1")
        stream_id = asker.open()
        await hello.wait()
        asker.cancel(stream_id)
        await gone.wait()
        await asker.until_idle()


def connections(port: int) -> list[str]:
    """Return the states of this process's connections to the port."""
    made = psutil.Process(os.getpid()).net_connections("tcp")
    return [str(one.status) for one in made if one.raddr and one.raddr.port == port]


async def until_stuck(receiver: socket.socket) -> None:
    """Return when the bytes that wait to be read have not grown for many turns of the loop."""
    seen, still = -1, 0
    while still < 500:
        await asyncio.sleep(0)
        waiting = int.from_bytes(fcntl.ioctl(receiver, termios.FIONREAD, bytes(4)), sys.byteorder)
        seen, still = (waiting, still + 1) if waiting == seen else (waiting, 0)


async def test_cancel_cuts_an_upload_that_nobody_reads(ask_lane):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        port = listener.getsockname()[1]
        asker = ask_lane(base_url=f"http://127.0.0.1:{port}/v1")
        stream_id = asker.open("x" * (64 << 20))
        receiver, _ = await asyncio.get_running_loop().sock_accept(listener)
        with receiver:
            await until_stuck(receiver)
            asker.cancel(stream_id)
            await asker.until_idle()
            while connections(port):
                await asyncio.sleep(0)


@pytest.fixture
def unreachable():
    """A port at which connections are never made: its backlog is full."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_cancel_while_it_connects(ask_lane, unreachable):
    asker = ask_lane(base_url=f"http://127.0.0.1:{unreachable}/v1")
    before = connections(unreachable)
    stream_id = asker.open()
    while len(connections(unreachable)) == len(before):
        await asyncio.sleep(0)
    asker.cancel(stream_id)
    await asker.until_idle()
    assert sorted(connections(unreachable)) == sorted(before)


async def test_connecting_takes_no_longer_than_allowed(ask_lane, unreachable):
    asker = ask_lane(base_url=f"http://127.0.0.1:{unreachable}/v1", connect_timeout_s=0.05)
    failed = failure_of(await asker.ask())
    assert (failed.failure, failed.error_class) == (FailureClass.CONNECT, "ConnectTimeout")


# Deadlines


class TestDeadlines:
    @pytest.fixture
    def clock(self):
        return StillClock()

    async def test_a_silent_stream_has_stalled(self, backend, ask_lane, clock):
        backend.script(Text("a"), Hold("gate"), Raw(b": still here\n\n"), Text("b"), Silence())
        asker = ask_lane(idle_timeout_s=60)
        asker.open(budget=asker.within(600))
        await asker.next()
        await asker.next()
        clock.advance(59)
        backend.release("gate")
        assert text_of([await asker.next()]) == "b"
        clock.advance(59)
        assert (await asker.describe()).streams == 1
        clock.advance(1)
        failed = failure_of(await asker.until_end())
        assert (failed.failure, failed.error_class) == (FailureClass.STALLED, "StreamStalled")
        await backend.exchanges[0].connection_closed.wait()

    async def test_a_backend_that_never_answers_has_stalled(self, backend, ask_lane, clock):
        backend.script(Silence())
        asker = ask_lane()
        asker.open(budget=asker.within(600))
        exchange = await backend.request(0)
        clock.advance(60)
        assert failure_of(await asker.until_end()).failure is FailureClass.STALLED
        await exchange.connection_closed.wait()

    async def test_the_budget_ends_a_stream_that_goes_on(self, backend, ask_lane, clock):
        backend.script(Text("a"), Silence())
        asker = ask_lane()
        asker.open(budget=asker.within(5))
        await asker.next()
        await asker.next()
        clock.advance(5)
        failed = failure_of(await asker.until_end())
        assert (failed.failure, failed.error_class) == (FailureClass.TIMEOUT, "DeadlineExceeded")
        await backend.exchanges[0].connection_closed.wait()
