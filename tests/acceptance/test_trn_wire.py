"""TRN: what becomes of a turn for each thing that its backend can do, through the real composition and real sockets."""

import pytest

from actors.messages.rows import TurnState
from tests.acceptance.watched import Watched
from tests.fakes.backend_faults import BLIPS, DEATHS, FAULTS, ODDITIES, UNACCEPTED, refusal
from tests.fakes.backend_script import Done, Finish, Role, Text

GOOD = (Role(), Text("Hello "), Text("world"), Finish(), Done())
SUMMARISING = "Messages:\n"
QUICK = {"idle_timeout_s": 0.3, "trailing_s": 0.2}
PROMPT = "hi there"

ASKED_AGAIN = {
    "rst before headers": "ConnectError",
    "fin before headers": "ConnectError",
    "silence before headers": "StreamStalled",
    "408": "RequestTimeout",
    "409": "BackendConflict",
    "429": "RateLimited",
    "429 that speaks of length": "RateLimited",
    "500": "ServerError",
    "502": "ServerError",
    "503": "ServerError",
    "529": "ServerError",
}
"""The lane is asked again, and the class that says why."""

REFUSED = {
    "400": ("bad_request", "BadRequest"),
    "401": ("auth_refused", "AuthRefused"),
    "403": ("auth_refused", "AuthRefused"),
    "404": ("bad_request", "BadRequest"),
    "413": ("bad_request", "BadRequest"),
}
"""The turn fails at once; category and class."""

SHORTENED = ("overflow by code", "overflow by message", "overflow as 413", "overflow in band")

BEGUN_AGAIN = {
    "rst": "ReadError",
    "rst at once": "ReadError",
    "fin": "ReadError",
    "rst in mid-line": "ReadError",
    "fin in mid-line": "ReadError",
    "no finish reason": "IncompleteStream",
    "no finish reason and a fin": "IncompleteStream",
    "no finish reason and an end mark": "IncompleteStream",
    "nothing but an end mark": "IncompleteStream",
    "silence": "StreamStalled",
    "server_error in band": "ServerError",
    "rate_limit_exceeded in band": "RateLimited",
}
"""The stream has died, the answer begins again; the class."""

LOST = {"unknown error in band": "BadRequest", "malformed chunk": "MalformedChunk"}
"""The stream has died, and the turn with it."""


def test_each_fault_has_its_expectation():
    assert {*ASKED_AGAIN, *REFUSED, *SHORTENED, *BEGUN_AGAIN, *LOST, "429 with a wish"} == {
        *UNACCEPTED,
        *DEATHS,
    }


def shown(chat):
    """What a watcher has of the answer: the content since the last discard."""
    text = ""
    for event in chat.events:
        if event["event"] == "turn.stream_discarded":
            text = ""
        elif event["event"] == "turn.content":
            text += event["data"]["text"]
    return text


def numbered(chat):
    """Whether no event is missing."""
    seqs = [event["data"]["seq"] for event in chat.events if "seq" in event["data"]]
    return seqs == list(range(1, len(seqs) + 1))


async def committed(chat, text):
    """Hear on to the end: the text was committed, and is what was shown."""
    turn = await chat.over()
    assert (turn.state, turn.text) == (TurnState.COMMITTED, text)
    assert shown(chat) == text and chat.state == ("idle", text) and numbered(chat)
    assert (await chat.rows())[-1] == text and "error" not in chat.kinds
    return turn


async def failed(chat, category, error_class):
    """Hear on to the end: the turn failed so, and nothing is in the history that a model gets."""
    turn = await chat.over()
    (error,) = chat.of("error")
    assert (turn.state, turn.reason) == (TurnState.FAILED, category)
    assert (error["category"], error["error_class"]) == (category, error_class)
    assert shown(chat) == "" and chat.state[0] == "error" and numbered(chat)
    assert await chat.rows() == [] and "turn_committed" not in chat.kinds
    return turn


@pytest.mark.parametrize("fault", ASKED_AGAIN)
async def test_a_request_that_was_not_accepted_is_sent_again(boot, backend, fault):
    harness = await boot(lane=QUICK)
    backend.script(*FAULTS[fault])
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        await committed(chat, "Hello world")
        assert [(told["n"], told["error_class"]) for told in chat.of("lane_retry")] == [
            (1, ASKED_AGAIN[fault])
        ]
        assert chat.life == ["thinking_start", "stream_end", "turn_committed"]
    assert len(backend.exchanges) == 2
    assert backend.exchanges[1].raw == backend.exchanges[0].raw


@pytest.mark.parametrize("fault", ASKED_AGAIN)
async def test_a_request_that_is_never_accepted_fails_the_turn_after_three_retries(boot, backend, fault):
    harness = await boot(lane=QUICK)
    backend.script(*FAULTS[fault], times=9)
    async with Watched(harness) as chat:
        await chat.say()
        turn = await chat.over()
        (error,) = chat.of("error")
        assert error["error_class"] == ASKED_AGAIN[fault] and ASKED_AGAIN[fault] in turn.error
        assert [told["n"] for told in chat.of("lane_retry")] == [1, 2, 3]
        # Nothing had begun that could end.
        assert chat.life == ["thinking_start", "error"] and numbered(chat)
    assert len(backend.exchanges) == 4


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("3600", 120.0)])
async def test_a_backend_that_asks_for_a_wait_gets_it_within_reason(boot, backend, asked, waited):
    harness = await boot()
    backend.script(*refusal(429, headers={"Retry-After": asked}))
    async with Watched(harness) as chat:
        await chat.say()
        retry = await chat.until("lane_retry")
        assert retry["delay_s"] == waited
        await chat.stop()
        assert (await chat.over()).state is TurnState.CANCELLED
    assert len(backend.exchanges) == 1


@pytest.mark.parametrize("fault", REFUSED)
async def test_a_refusal_fails_the_turn_at_once(boot, backend, fault):
    harness = await boot()
    backend.script(*FAULTS[fault])
    async with Watched(harness) as chat:
        await chat.say()
        await failed(chat, *REFUSED[fault])
        assert chat.life == ["thinking_start", "error"] and "lane_retry" not in chat.kinds
    assert len(backend.exchanges) == 1


@pytest.mark.parametrize("fault", SHORTENED)
async def test_an_overflow_has_the_conversation_shortened(boot, backend, fault):
    harness = await boot()
    for text in ("one", "two"):
        async with Watched(harness) as chat:
            await chat.say(text)
            await chat.until("state", state="idle")
    backend.script(*FAULTS[fault], when=PROMPT)
    backend.script(*GOOD, when=PROMPT)
    backend.script(Text("They have counted."), Finish(), when=SUMMARISING)
    async with Watched(harness) as chat:
        await chat.say(PROMPT)
        await chat.until("state", state="idle")
        assert shown(chat) == "Hello world" == (await chat.rows())[-1]
        assert [kind for kind in chat.kinds if kind in ("overflow", "compacted")] == ["overflow", "compacted"]
        assert "retry" not in chat.kinds and "lane_retry" not in chat.kinds and numbered(chat)
    assert len(backend.exchanges) == 5


@pytest.mark.parametrize("tags", ["leading", "anywhere"])
@pytest.mark.parametrize("fault", BEGUN_AGAIN)
async def test_a_stream_that_dies_is_begun_again_and_leaves_nothing(boot, backend, fault, tags):
    harness = await boot(lane={**QUICK, "think_tags": tags})
    backend.script(*FAULTS[fault])
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        await committed(chat, "Hello world")
        assert chat.life == [
            "thinking_start", "stream_end", "retry", "stream_discarded", "thinking_start", "stream_end",
            "turn_committed",
        ]  # fmt: skip
        (retry,) = chat.of("retry")
        assert (retry["error_class"], retry["n"], retry["of"]) == (BEGUN_AGAIN[fault], 1, 2)
        # Only what was said before is kept: the discard names the last event before the attempt began.
        (discarded,) = chat.of("stream_discarded")
        begun = chat.of("thinking_start")[0]
        assert discarded["keep_upto"] == begun["seq"] - 1
    assert len(backend.exchanges) == 2
    assert backend.exchanges[1].raw == backend.exchanges[0].raw


@pytest.mark.parametrize("fault", BEGUN_AGAIN)
async def test_a_stream_that_dies_again_and_again_fails_the_turn(boot, backend, fault):
    harness = await boot(lane=QUICK)
    backend.script(*FAULTS[fault], times=9)
    async with Watched(harness) as chat:
        await chat.say()
        turn = await chat.over()
        (error,) = chat.of("error")
        for said in (error["text"], turn.error):
            assert "Backend stream died mid-response" in said and "2 retries did not recover it" in said
            assert BEGUN_AGAIN[fault] in said
        assert shown(chat) == "" and await chat.rows() == [] and numbered(chat)
        assert [chat.kinds.count(kind) for kind in ("stream_end", "stream_discarded", "retry")] == [3, 3, 2]
    assert len(backend.exchanges) == 3


@pytest.mark.parametrize("fault", LOST)
async def test_a_stream_that_would_die_again_fails_the_turn(boot, backend, fault):
    harness = await boot()
    backend.script(*FAULTS[fault])
    async with Watched(harness) as chat:
        await chat.say()
        turn = await chat.over()
        assert chat.life == ["thinking_start", "stream_end", "stream_discarded", "error"]
        assert shown(chat) == "" and LOST[fault] in turn.error and numbered(chat)
        assert turn.state is TurnState.FAILED and await chat.rows() == []
    assert len(backend.exchanges) == 1


@pytest.mark.parametrize("fault", LOST)
async def test_a_lane_can_list_what_else_is_worth_a_retry(boot, backend, fault):
    harness = await boot(lane={"retryable": [LOST[fault]]})
    backend.script(*FAULTS[fault])
    backend.script(*GOOD)
    async with Watched(harness) as chat:
        await chat.say()
        await committed(chat, "Hello world")
        assert [retry["error_class"] for retry in chat.of("retry")] == [LOST[fault]]


@pytest.mark.parametrize("tags", ["leading", "anywhere"])
@pytest.mark.parametrize("fault", [*BLIPS, *ODDITIES])
async def test_an_answer_that_is_whole_is_kept(boot, backend, fault, tags):
    harness = await boot(lane={**QUICK, "think_tags": tags})
    backend.script(*FAULTS[fault])
    async with Watched(harness) as chat:
        await chat.say()
        turn = await committed(chat, "Hello")
        assert chat.life == ["thinking_start", "stream_end", "turn_committed"]
        (status,) = chat.of("status")
    counted = fault in ("usage", "end mark never", "end mark twice", "two finish reasons")
    assert (turn.estimated, status["estimated"]) == (not counted, not counted)
    # Five characters at four a token.
    assert status["usage"]["completion_tokens"] == (2 if counted else 1)
    assert turn.reason == "stop" and len(backend.exchanges) == 1
