"""TRN-36, 37, 40, 41, 42, 55: what a lane is sent is made for that lane, once, and what is stored stays as it was."""

import pytest
import structlog

from actors.messages.store import ListSessions, ReadHistory
from tests.acceptance.conftest import Api
from tests.daemon import Daemon
from tests.fakes.backend_script import Die, Done, Event, Finish, Reply, Role, Text
from tests.fakes.chunks import chunk
from tests.harness import Harness

DYING = (Role(), Text("dead"), Die("rst"))
GOOD = (Role(), Text("Hello "), Text("world"), Finish(), Done())
OVERFLOW = Reply(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})
SUMMARISING = "Messages:\n"
HI = {"role": "user", "content": "hi"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LOOK = {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]}


async def stored(harness):
    (session,) = await harness.ask("/store", ListSessions())
    return await harness.ask("/store", ReadHistory(session_id=session.session_id))


def lanes(backend, **capabilities):
    """Lanes with these capabilities, each a fallback of the ones before."""
    return [
        {
            "name": name,
            "base_url": backend.url,
            "model": f"{name}-1",
            "order": place,
            "capabilities": list(able),
        }
        for place, (name, able) in enumerate(capabilities.items())
    ]


@pytest.fixture
def start(tmp_path, backend, client):
    """Make the real composition on such lanes; it is entered by the test."""

    def make(**capabilities):
        settings = {"turn.retry_base_s": 0.0, "turn.creation_tries": 1}
        return Harness(tmp_path / "data", lane=lanes(backend, **capabilities), **settings)

    return make


# The dump of a request


def dumps(logged):
    return [entry["body"] for entry in logged if entry["event"] == "lane.request"]


async def test_trn_36_a_request_is_dumped_once_however_often_the_answer_begins(boot, client, backend):
    api = Api(client, await boot())
    backend.script(Reply(503, {}))
    backend.script(*DYING, times=2)
    backend.script(*GOOD)
    with structlog.testing.capture_logs() as logged:
        assert (await api.say("hi", "c1"))[2]["choices"][0]["message"]["content"] == "Hello world"
        assert len(backend.exchanges) == 4 and len(dumps(logged)) == 1
        # Each turn has its own.
        await api.say("more", "c1")
    assert len(dumps(logged)) == 2 and '"more"' in dumps(logged)[1]
    assert {entry["log_level"] for entry in logged if entry["event"] == "lane.request"} == {"debug"}


async def test_trn_37_it_is_dumped_again_after_a_compaction_alone(boot, client, backend):
    api = Api(client, await boot())
    await api.say("one", "c1")
    backend.script(*DYING, when="two")
    backend.script(OVERFLOW, when="two")
    backend.script(*DYING, when="two")
    backend.script(*GOOD, when="two")
    backend.script(Text("A summary."), Finish(), when=SUMMARISING)
    with structlog.testing.capture_logs() as logged:
        assert (await api.say("two", "c1"))[0] == 200
    assert len(backend.exchanges) == 6
    before, after = (body for body in dumps(logged) if SUMMARISING not in body)
    assert "A summary." in after and "A summary." not in before


@pytest.mark.parametrize(("level", "times"), [("debug", 1), ("info", 0)])
async def test_trn_36_the_daemon_dumps_it_in_its_debug_log_alone(tmp_path, backend, client, level, times):
    config = (
        f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "m"\n'
        f'[turn]\nretry_base_s = 0.0\n[log]\nlevel = "{level}"\n'
    )
    backend.script(*DYING)
    backend.script(*GOOD)
    async with Daemon(tmp_path / "data", config=config) as daemon:
        headers = {"Authorization": f"Bearer {daemon.api_key}"}
        path = f"{daemon.url}/v1/chat/completions"
        async with client.post(path, json={"messages": [HI]}, headers=headers) as response:
            assert response.status == 200
        assert await daemon.stop() == 0
    assert len(backend.exchanges) == 2
    assert daemon.log.count("lane.request") == times and ('"hi"' in daemon.log) is bool(times)


# What the serving lane takes


async def test_trn_40_41_each_lane_gets_its_own_form_of_one_conversation(start, client, backend):
    messages = [HI, {"role": "assistant", "content": "yes"}, {"role": "developer", "content": "brief"}, HI]
    async with start(a=("system_anywhere", "developer"), b=("system_anywhere",), c=()) as harness:
        backend.script(Reply(403, {}), times=2)
        status, _, _ = await Api(client, harness).post({"messages": messages})
        assert status == 200
        rows = await stored(harness)
    first, second, third = (exchange.body["messages"] for exchange in backend.exchanges)
    assert first == messages
    assert second == [*messages[:2], {"role": "system", "content": "brief"}, HI]
    assert [message["role"] for message in third] == ["system", "user", "assistant", "user"]
    assert third[3]["content"] == "⟦system message⟧\nbrief\n⟦end of system message⟧\n\nhi"
    assert [(row.role, row.content) for row in rows[:4]] == [
        (message["role"], message["content"]) for message in messages
    ]


async def test_trn_41_a_fallback_that_does_not_take_it_is_passed_over_unasked(start, client, backend):
    async with start(a=("images",), b=("tools",), c=("images",)) as harness:
        backend.script(Reply(403, {}))
        status, _, body = await Api(client, harness).post({"messages": [LOOK]})
        assert (status, body["choices"][0]["finish_reason"]) == (200, "stop")
    assert [exchange.body["model"] for exchange in backend.exchanges] == ["a-1", "c-1"]
    assert [exchange.body["messages"] for exchange in backend.exchanges] == [[LOOK], [LOOK]]


# Tool calls


def asking(arguments):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{"n": ', '{"unparsed":"{\\"n\\": "}'),
        ("[1]", '{"unparsed":"[1]"}'),
        ("", "{}"),
        ('{"n": 1}', '{"n": 1}'),
    ],
)
async def test_trn_42_arguments_are_made_legal_once_a_turn_and_stored_as_they_were(
    boot, client, backend, raw, sent
):
    harness = await boot()
    harness.system.failpoints.always("lane.prepare", lambda: None)
    told = {"role": "tool", "tool_call_id": "a", "content": "42"}
    backend.script(Reply(503, {}))
    backend.script(*DYING, times=2)
    backend.script(*GOOD)
    status, _, _ = await Api(client, harness).post({"messages": [HI, asking(raw), told]})
    assert status == 200 and len(backend.exchanges) == 4
    assert harness.system.failpoints.passed["lane.prepare"] == 1
    for exchange in backend.exchanges:
        assert exchange.body["messages"] == [HI, asking(sent), told]
    assert (await stored(harness))[1].tool_calls[0].arguments == raw


async def test_trn_42_what_a_model_wrote_is_stored_raw_and_goes_back_legal(either, client, backend):
    harness = await either()
    api = Api(client, harness)
    piece = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"n": '}}
    backend.script(Role(), Event(chunk({"tool_calls": [piece]})), Finish("tool_calls"), Done())
    _, _, body = await api.post({"messages": [HI], "tools": TOOLS}, X_Session_Id="c1")
    (call,) = body["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"n": '
    told = {"role": "tool", "tool_call_id": "a", "content": "42"}
    await api.post({"messages": [told], "tools": TOOLS}, X_Session_Id="c1")
    assert backend.exchanges[1].body["messages"] == [HI, asking('{"unparsed":"{\\"n\\": "}'), told]
    assert (await stored(harness))[1].tool_calls[0].arguments == '{"n": '


@pytest.mark.parametrize("stream", [False, True])
async def test_trn_55_through_the_daemon_a_length_finish_drops_calls_and_the_chat_says_so(
    tmp_path, backend, client, stream
):
    config = f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "m"\n'
    piece = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"n": 1'}}
    backend.script(Role(), Text("I ask"), Event(chunk({"tool_calls": [piece]})), Finish("length"), Done())
    async with Daemon(tmp_path / "data", config=config) as daemon:
        headers = {"Authorization": f"Bearer {daemon.api_key}", "X-Session-Id": "c1"}
        path = f"{daemon.url}/v1/chat/completions"
        body = {"messages": [HI], "tools": TOOLS, "stream": stream}
        async with client.post(path, json=body, headers=headers) as response:
            said = await response.text()
        assert '"finish_reason":"length"' in said
        # A result of what was dropped answers nothing.
        told = {"role": "tool", "tool_call_id": "a", "content": "42"}
        async with client.post(path, json={"messages": [told]}, headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (400, "unknown_tool_call")
        async with client.post(path, json={"messages": [HI]}, headers=headers) as response:
            assert response.status == 200
        assert await daemon.stop() == 0
    assert backend.exchanges[1].body["messages"] == [HI, {"role": "assistant", "content": "I ask"}, HI]
