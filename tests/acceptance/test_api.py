"""API: the OpenAI-compatible edge, through the real composition and over real sockets."""

import asyncio
import hashlib
import json

import aiohttp
import pytest

from actors.messages.front import StopAdmission
from actors.messages.rows import KeyScope, TurnState
from actors.messages.store import FindBindings, GetTurn, ListSessions, ListTurns, PutKey, ReadHistory
from tests.acceptance.conftest import Api
from tests.fakes.backend_script import Die, Finish, Head, Hold, Reply, Role, Silence, Text, Usage, answer
from tests.harness import until


async def turns(harness):
    return await harness.ask("/store", ListTurns())


async def ended(harness, count=1):
    """Wait until ``count`` turns have ended and none is under way; return them, newest first."""

    async def look():
        rows = await turns(harness)
        done = [row for row in rows if row.state not in (TurnState.ADMITTED, TurnState.RUNNING)]
        return rows if len(done) == len(rows) >= count else None

    return await until(look)


# API-2, API-3, API-5


@pytest.mark.parametrize("script", [(Die("rst"),), (Text("Hal"), Die("rst"))])
@pytest.mark.parametrize("named", [None, "c1"])
async def test_api_2_3_5_a_turn_that_fails_leaves_a_session_that_the_retry_reaches(
    api, backend, script, named
):
    backend.script(*script, times=4, when="first")
    status, headers, body = await api.say("/new first", named)
    token = headers["X-Session-Id"]
    assert (status, body["error"]["code"], body["error"]["session_id"]) == (500, "turn_failed", token)
    assert headers["X-Should-Retry"] == "false" and token == (named or token)
    (session,) = await api.harness.ask("/store", ListSessions())
    (binding,) = await api.harness.ask("/store", FindBindings(peer="api:default", session_key=token))
    assert binding.session_id == session.session_id
    asked = len(backend.exchanges)
    backend.script(*answer("fine"), when="second")
    assert (await api.say("second", token))[0] == 200
    sent = (await backend.request(asked)).body["messages"]
    assert [message["content"] for message in sent] == ["first", "second"]
    assert len(await api.harness.ask("/store", ListSessions())) == 1


# API-6


async def test_api_6_the_session_header_comes_before_the_first_byte_of_a_stream(api, backend):
    backend.script(Role(), Hold("go"), *answer("hi"))
    stream = await api.stream("hello", "c1")
    assert stream.status == 200
    assert stream.headers["X-Session-Id"] == stream.headers["X-Hermes-Session-Id"] == "c1"
    backend.release("go")
    await stream.rest()
    assert stream.text == "hi"


async def test_api_6_an_error_before_the_first_token_is_a_real_status(api, backend):
    backend.script(Reply(400, {"error": {"message": "a secret text"}}))
    stream = await api.stream("hello", "c1")
    assert stream.status == 500
    body = await stream.response.json()
    assert body["error"]["code"] == "turn_failed" and body["error"]["session_id"] == "c1"
    assert stream.headers["X-Session-Id"] == "c1" and stream.headers["X-Should-Retry"] == "false"
    assert "secret" not in json.dumps(body)


async def test_api_6_a_later_error_is_in_band(api, backend):
    backend.script(Text("Half"), Hold("die"), Die("rst"))
    stream = await api.stream("hello", "c1")
    assert await stream.until_text() == "Half"
    backend.release("die")
    await stream.rest()
    last = stream.chunks[-1]
    assert stream.status == 200 and last["choices"][0]["finish_reason"] == "error"
    assert last["choices"][0]["delta"] == {} and last["error"]["code"] == "turn_failed"
    assert stream.done


async def test_api_6_an_error_after_the_window_is_in_band_even_without_a_token(boot, client, backend):
    harness = await boot(**{"server.early_error_s": 0.05})
    backend.script(Hold("fail"), Reply(400))
    stream = await Api(client, harness).stream("hello")
    assert stream.status == 200
    backend.release("fail")
    await stream.rest()
    assert stream.chunks[-1]["choices"][0]["finish_reason"] == "error"


# API-8


@pytest.mark.parametrize("streamed", [False, True])
async def test_api_8_a_bare_new_commits_and_calls_no_backend(api, backend, streamed):
    await api.say("first", "c1")
    if streamed:
        stream = await api.stream(" /new ", "c1")
        await stream.rest()
        status, headers, text = stream.status, stream.headers, stream.text
    else:
        status, headers, body = await api.say("/new", "c1")
        text = body["choices"][0]["message"]["content"]
    assert status == 200 and headers["X-Session-Id"] == "c1" and text
    assert len(backend.exchanges) == 1
    await api.say("second", "c1")
    exchange = await backend.request(1)
    assert [message["content"] for message in exchange.body["messages"]] == ["second"]
    assert len(await api.harness.ask("/store", ListSessions())) == 2


async def test_api_8_new_with_text_asks_in_the_fresh_session(api, backend):
    await api.say("first", "c1")
    status, _, _ = await api.say("/new second", "c1")
    exchange = await backend.request(1)
    assert status == 200
    assert [message["content"] for message in exchange.body["messages"]] == ["second"]


async def test_api_9_new_stops_what_runs_and_fences_it(api, backend):
    backend.script(Text("old"), Silence())
    stream = await api.stream("first", "c1")
    await stream.until_text()
    await api.say("/new", "c1")
    await asyncio.wait_for((await backend.request(0)).connection_closed.wait(), 5)
    chunks = await stream.rest()
    assert chunks[-1]["error"]["code"] == "turn_cancelled" and stream.text == "old"
    (turn,) = await ended(api.harness)
    assert (turn.state, turn.reason) == (TurnState.CANCELLED, "superseded")


async def test_api_9_who_waits_in_the_session_that_a_chat_leaves_is_told(api, backend):
    backend.script(Text("old"), Silence())
    running = await api.stream("first", "c1")
    await running.until_text()
    waiting = asyncio.ensure_future(api.say("second", "c1"))
    await until(lambda: _count(api.harness, 2))
    status, _, body = await api.say("/new third", "c1")
    assert (status, body["choices"][0]["message"]["content"]) == (200, "reply to: third")
    status, headers, body = await waiting
    assert (status, body["error"]["code"]) == (409, "turn_cancelled")
    assert headers["X-Should-Retry"] == "false"
    await running.rest()
    assert len(backend.exchanges) == 2


# API-11


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("plain", None),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], None),
        ({"type": "text", "text": "a"}, "invalid_content"),
        ([{"type": "image_url", "image_url": {"url": "http://x"}}], "unsupported_content"),
        ([{"type": "image_url", "image_url": "http://x"}], "invalid_content"),
        ([], "invalid_content"),
        (None, "invalid_content"),
        (7, "invalid_content"),
    ],
)
async def test_api_11_only_text_passes_and_the_rest_is_refused_before_anything(api, backend, content, code):
    status, headers, body = await api.post({"messages": [{"role": "user", "content": content}]})
    assert status == (400 if code else 200)
    if status == 400:
        assert body["error"]["code"] == code
        assert body["error"]["param"].startswith("messages[0].content")
        # Which lane it is for, and so what it takes, is known after the chat's name only.
        assert ("X-Session-Id" in headers) == (code == "unsupported_content")
        assert await turns(api.harness) == () and backend.exchanges == []


async def test_api_11_parts_are_joined_by_newlines(api, backend):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    await api.post({"messages": [{"role": "user", "content": parts}]})
    assert (await backend.request(0)).last_user_message == "a\nb"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"not json", None),
        (b"[]", None),
        (b'{"messages": "x"}', "messages"),
        (b'{"messages": []}', "messages"),
        (b'{"messages": [7]}', "messages[0]"),
        (b'{"messages": [{"role": "pope", "content": "x"}]}', "messages[0].role"),
        (b'{"messages": [{"role": "assistant", "content": "x"}]}', "messages"),
        (b'{"messages": [{"role": "user", "content": "x"}], "stream": "yes"}', "stream"),
        (b'{"messages": [{"role": "user", "content": "x"}], "n": 2}', "n"),
        (b'{"messages": [{"role": "user", "content": "x"}], "model": 7}', "model"),
        (b"[" * 100_000, None),
        (b'{"messages": [{"role": "user", "content": "\xff"}]}', None),
    ],
)
async def test_a_wrong_body_is_refused_by_name_and_keeps_nothing(api, body, param):
    status, _, answered = await api.post(body, Content_Type="application/json")
    assert status == 400 and answered["error"]["param"] == param and answered["error"]["message"]
    assert await turns(api.harness) == ()


# API-12


@pytest.mark.parametrize(
    ("detach", "end"), [("0", (TurnState.CANCELLED, "client_gone")), ("1", (TurnState.COMMITTED, "stop"))]
)
async def test_api_12_only_a_detached_message_that_waits_outlives_its_client_at_a_restart(
    boot, client, backend, detach, end
):
    harness = await boot()
    api = Api(client, harness)
    api.headers = {**api.headers, "X-Turnkeep-Detach": detach}
    backend.script(Text("Hel"), Silence())
    stream = await api.stream("one", "c1")
    await stream.until_text()
    waiting = asyncio.ensure_future(api.say("two", "c1"))
    await until(lambda: _count(harness, 2))
    await harness.crash()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    stream.leave()
    two, one = await ended(await boot(), 2)
    assert (two.state, two.reason) == end
    assert (one.state, one.reason) == (TurnState.INTERRUPTED, "restart")


# API-15


async def test_api_15_chunks_have_one_shape(api, backend):
    backend.script(*answer("one two three"))
    stream = await api.stream("hello", "c1", stream_options={"include_usage": True})
    chunks = await stream.rest()
    assert {(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks} == {
        (chunks[0]["id"], chunks[0]["created"], chunks[0]["model"])
    }
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [len(chunk["choices"]) for chunk in chunks] == [1] * (len(chunks) - 1) + [0]
    assert chunks[-1]["usage"]["total_tokens"] == 6
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert stream.text == "one two three" and stream.done


async def test_api_15_no_usage_chunk_unless_asked_for(api, backend):
    backend.script(*answer("one"))
    stream = await api.stream("hello")
    assert all(len(chunk["choices"]) == 1 for chunk in await stream.rest())


async def test_api_15_a_silent_stream_is_kept_alive_by_comments(boot, client, backend):
    harness = await boot(**{"server.keepalive_s": 0.02, "server.early_error_s": 0.02})
    backend.script(Hold("go"), *answer("hi"))
    stream = await Api(client, harness).stream("hello")
    reading = asyncio.ensure_future(stream.rest())
    await until(lambda: stream.comments >= 3)
    backend.release("go")
    await reading
    assert stream.text == "hi"


async def test_api_15_no_chunk_is_over_64_kib(api, backend):
    text = "\x01" * 100_000
    backend.script(Role(), Text(text), Finish())
    stream = await api.stream("hello")
    await stream.rest()
    assert stream.text == text
    assert max(len(json.dumps(chunk)) for chunk in stream.chunks) <= 65_536


# API-16


async def test_api_16_a_client_that_leaves_a_stream_stops_its_turn(api, backend):
    backend.script(Text("Hel"), Silence())
    stream = await api.stream("hello", "c1")
    await stream.until_text()
    stream.leave()
    exchange = await backend.request(0)
    await asyncio.wait_for(exchange.connection_closed.wait(), 5)
    (turn,) = await ended(api.harness)
    assert (turn.state, turn.reason) == (TurnState.CANCELLED, "client_gone")
    assert turn.partial.startswith("Hel\n\n[generation cancelled")


async def test_api_16_the_backend_is_let_go_within_100_ms(api, backend):
    """The best of a few tries: a busy machine may be late, our code may not."""
    times = []
    for n in range(5):
        backend.script(Text("Hel"), Silence())
        stream = await api.stream("hello", f"c{n}")
        await stream.until_text()
        exchange = await backend.request(n)
        left = asyncio.get_running_loop().time()
        stream.leave()
        await asyncio.wait_for(exchange.connection_closed.wait(), 5)
        times.append(asyncio.get_running_loop().time() - left)
    assert min(times) <= 0.1, times


async def test_api_16_a_client_that_leaves_a_buffered_request_stops_its_turn(api, backend):
    backend.script(Role(), Silence())
    asking = asyncio.ensure_future(api.say("hello", "c1"))
    exchange = await backend.request(0)
    asking.cancel()
    await asyncio.wait_for(exchange.connection_closed.wait(), 5)
    (turn,) = await ended(api.harness)
    assert (turn.state, turn.reason) == (TurnState.CANCELLED, "client_gone")


async def test_api_16_a_client_that_leaves_while_it_waits_is_not_turned(api, backend):
    backend.script(Text("a"), Hold("go"), Finish())
    first = await api.stream("one", "c1")
    await first.until_text()
    second = asyncio.ensure_future(api.say("two", "c1"))
    await until(lambda: _count(api.harness, 2))
    second.cancel()
    await until(lambda: _cancelled(api.harness, "client_gone"))
    backend.release("go")
    await first.rest()
    await ended(api.harness, 2)
    assert len(backend.exchanges) == 1


async def _count(harness, count):
    return len(await turns(harness)) == count


async def _cancelled(harness, reason):
    return any(row.reason == reason for row in await turns(harness))


async def test_api_16_a_detached_turn_goes_on(client, turnkeep, backend):
    backend.script(Text("Hel"), Hold("go"), Text("lo"), Finish())
    api = Api(client, turnkeep)
    api.headers = {**api.headers, "X-Turnkeep-Detach": "1"}
    stream = await api.stream("hello", "c1")
    await stream.until_text()
    stream.leave()
    backend.release("go")
    (turn,) = await ended(turnkeep)
    assert (turn.state, turn.text) == (TurnState.COMMITTED, "Hello")


# API-20


async def test_api_20_concurrent_streams_never_see_each_others_deltas(api, backend):
    count = 40

    async def talk(n):
        word = f"w{n}"
        backend.script(*answer(" ".join([word] * 20)), when=f"say {word}.")
        stream = await api.stream(f"say {word}.", f"chat{n}")
        await stream.rest()
        return stream.text == " ".join([word] * 20)

    assert all(await asyncio.gather(*(talk(n) for n in range(count))))


# Sessions behind the header


async def test_a_minted_chat_is_reached_by_its_header(api, backend):
    _, headers, _ = await api.say("one")
    await api.say("two", headers["X-Session-Id"])
    exchange = await backend.request(1)
    assert [message["content"] for message in exchange.body["messages"]] == ["one", "reply to: one", "two"]


async def test_a_clients_own_history_counts_only_for_a_new_chat(api, backend):
    history = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    await api.post({"messages": history}, X_Session_Id="c1")
    await api.post({"messages": [*history[:3], {"role": "user", "content": "d"}]}, X_Session_Id="c1")
    first, second = await backend.request(0), await backend.request(1)
    assert [message["content"] for message in first.body["messages"]] == ["be brief", "a", "b", "c"]
    assert [message["content"] for message in second.body["messages"]] == [
        "be brief", "a", "b", "c", "reply to: c", "d",
    ]  # fmt: skip


@pytest.mark.parametrize("token", ["a b", "../x", "a/b", "a\\b", "C:x", "x" * 257, "\u00e9"])
async def test_a_bad_session_id_is_refused(api, token):
    status, _, body = await api.say("hi", token)
    assert status == 400 and body["error"]["code"] == "invalid_session_id"


async def test_two_session_headers_that_differ_are_refused(api):
    body = {"messages": [{"role": "user", "content": "x"}]}
    status, _, _ = await api.post(body, X_Session_Id="a", X_Hermes_Session_Id="b")
    assert status == 400
    status, _, _ = await api.post(body, X_Session_Id="a", X_Hermes_Session_Id="a")
    assert status == 200


async def test_api_1_a_full_queue_and_draining_write_nothing(boot, client, backend):
    harness = await boot(**{"server.max_queued": 1})
    api = Api(client, harness)
    backend.script(Text("a"), Hold("go"), Finish())
    stream = await api.stream("one", "c1")
    await stream.until_text()
    waiting = asyncio.ensure_future(api.say("two", "c1"))
    await until(lambda: _count(harness, 2))
    status, headers, body = await api.say("three", "c1")
    assert (status, body["error"]["code"], headers["Retry-After"]) == (429, "session_busy", "1")
    assert len(await turns(harness)) == 2
    backend.release("go")
    await stream.rest()
    assert (await waiting)[0] == 200


async def test_api_4_a_name_minted_for_a_refusal_is_only_a_name(api, backend):
    status, headers, body = await api.say("hi", model="gpt-nope")
    assert status == 404 and body["error"]["code"] == "model_not_found" and "fake" in body["error"]["message"]
    assert await turns(api.harness) == () == await api.harness.ask("/store", ListSessions())
    token = headers["X-Session-Id"]
    assert token == headers["X-Hermes-Session-Id"] == body["error"]["session_id"]
    status, headers, _ = await api.say("hi", token)
    assert status == 200 and headers["X-Session-Id"] == token
    assert len(await api.harness.ask("/store", ListSessions())) == 1


async def test_names_that_are_minted_are_never_alike_and_tell_nothing(api, backend):
    tokens = {(await api.say("hi", user="u"))[1]["X-Session-Id"] for _ in range(5)}
    assert len(tokens) == 5 and all(len(token) == len("chat-") + 40 for token in tokens)


async def test_chats_of_two_owners_never_meet(client, turnkeep, backend):
    other = "tk_other"
    await turnkeep.ask(
        "/store",
        PutKey(
            key_id="k2",
            name="other",
            owner="other",
            scopes=(KeyScope.API,),
            key_hash=hashlib.sha256(other.encode()).hexdigest(),
            at=1.0,
        ),
    )
    mine, theirs = Api(client, turnkeep), Api(client, turnkeep)
    theirs.headers = {"Authorization": f"Bearer {other}"}
    await mine.say("one", "c1")
    await theirs.say("two", "c1")
    sent = (await backend.request(1)).body["messages"]
    assert [message["content"] for message in sent] == ["two"]


async def test_a_model_is_chosen_by_lane_or_by_its_backends_name(api, backend):
    for model in ("turnkeep", "fake", "fake-1"):
        status, _, body = await api.say("hi", model=model)
        assert status == 200 and body["model"] == model
    assert {exchange.body["model"] for exchange in backend.exchanges} == {"fake-1"}


async def test_what_a_client_tunes_is_passed_through(api, backend):
    await api.say("hi", temperature=0.5, max_tokens=7, stop=["x"])
    body = (await backend.request(0)).body
    assert (body["temperature"], body["max_tokens"], body["stop"]) == (0.5, 7, ["x"])


async def test_without_a_key_nothing_is_said(client, turnkeep):
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {turnkeep.admin_token}"},
    ):
        async with client.get(f"{turnkeep.url}/v1/models", headers=headers) as response:
            assert response.status == 401
            assert (await response.json())["error"]["code"] == "invalid_api_key"


async def test_errors_are_json_whatever_the_path_and_method(client, turnkeep):
    for method, path, status in (
        ("GET", "/nope", 404),
        ("DELETE", "/v1/models", 405),
        ("GET", "/relay", 404),
    ):
        async with client.request(method, turnkeep.url + path, headers=turnkeep.api_headers) as response:
            assert response.status == status
            assert (await response.json())["error"]["message"]


async def test_api_18_a_body_over_the_limit_is_answered_413(boot, client):
    harness = await boot(**{"server.max_body_bytes": 1000})
    big = {"messages": [{"role": "user", "content": "x" * 2000}]}
    status, _, body = await Api(client, harness).post(big)
    assert status == 413 and body["error"]["code"] == "body_too_large"

    async def dripping():
        for _ in range(20):
            yield b"x" * 100

    async with client.post(
        f"{harness.url}/v1/chat/completions", data=dripping(), headers=harness.api_headers
    ) as response:
        assert response.status == 413


async def test_cors_allows_and_exposes_the_session_headers(client, turnkeep):
    headers = {
        "Origin": "http://app",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-session-id, authorization",
    }
    async with client.options(f"{turnkeep.url}/v1/chat/completions", headers=headers) as response:
        assert response.status == 200
    async with client.get(
        f"{turnkeep.url}/v1/models", headers={**turnkeep.api_headers, "Origin": "http://app"}
    ) as response:
        assert "X-Session-Id" in response.headers["Access-Control-Expose-Headers"]


async def test_api_22_readyz_names_what_fails(client, turnkeep):
    async with client.get(f"{turnkeep.url}/readyz") as response:
        assert response.status == 200 and (await response.json())["failing"] == []
    await turnkeep.ask("/front", StopAdmission())
    async with client.get(f"{turnkeep.url}/readyz") as response:
        assert response.status == 503 and (await response.json())["failing"] == ["draining"]
    async with client.get(f"{turnkeep.url}/livez") as response:
        assert response.status == 200
    status, headers, body = await Api(client, turnkeep).say("hi")
    assert (status, body["error"]["code"], headers["Retry-After"]) == (503, "draining", "1")


async def test_the_answer_is_in_the_history_with_its_usage(api, backend):
    backend.script(Role(), Text("yes"), Finish(), Usage(3, 5))
    _, _, body = await api.say("hi", "c1")
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    (session,) = await api.harness.ask("/store", ListSessions())
    rows = await api.harness.ask("/store", ReadHistory(session_id=session.session_id))
    assert [(row.role, row.content) for row in rows] == [("user", "hi"), ("assistant", "yes")]
    (turn,) = await turns(api.harness)
    assert (await api.harness.ask("/store", GetTurn(turn_id=turn.turn_id))).usage["total_tokens"] == 8


async def test_a_header_that_is_held_back_does_not_hold_back_others(api, backend):
    backend.script(Hold("never"), Head(), when="slow")
    slow = asyncio.ensure_future(api.say("slow", "c1"))
    await backend.request(0)
    assert (await api.say("fast", "c2"))[0] == 200
    slow.cancel()
    assert isinstance(
        (await asyncio.gather(slow, return_exceptions=True))[0], asyncio.CancelledError | aiohttp.ClientError
    )
