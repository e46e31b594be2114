"""What every lane does with its streams, seen through the lane that needs no backend and through a real one."""

import asyncio
from typing import Any

import pytest

from actors.exceptions import Invalid
from actors.messages.base import Request
from actors.messages.lane import FailureClass, StreamArmed, StreamDelta, StreamFailed
from actors.messages.lifecycle import DownReason, Resume, Suspend
from actors.runtime import Actor
from tests.fakes.backend_script import Hold, Silence, Text
from tests.transports.backends.conftest import Asker, failure_of, text_of
from transports.backends import LaneKind, LaneSettings, ModelLane
from transports.backends.echo import Echo
from transports.backends.stream import Stream


class Notes(Actor):
    """A turn that only remembers, and hands what it remembers on."""

    def __init__(self, heard: asyncio.Queue[Any]) -> None:
        self.heard = heard

    async def on_receive(self, message: Any) -> None:
        self.heard.put_nowait(message)


class Unknown(Request[None], frozen=True, kw_only=True):
    """Nothing that a lane understands."""


async def test_one_stream_more_than_allowed_is_rate_limited(backend, ask_lane):
    backend.script(Silence())
    asker = ask_lane(max_streams=1)
    first = asker.open()
    await backend.request(0)
    failed = failure_of(await asker.ask())
    assert (failed.failure, failed.error_class) == (FailureClass.RATE_LIMITED, "TooManyStreams")
    asker.cancel(first)
    await asker.until_idle()
    assert text_of(await asker.ask("x")) == "reply to: x"


async def test_a_cancel_that_overtakes_its_stream_still_cancels_it(backend, ask_lane):
    asker = ask_lane()
    asker.cancel(asker.open("unwanted"))
    assert text_of(await asker.ask("wanted")) == "reply to: wanted"
    assert [exchange.last_user_message for exchange in backend.exchanges] == ["wanted"]


async def test_a_cancel_of_nothing_is_forgotten(ask_lane):
    asker = ask_lane()
    asker.cancel("a")
    await asker.system.idle()
    messages = await asker.ask("x", stream_id="a")
    assert text_of(messages) == "reply to: x"


async def test_one_stream_id_opens_one_stream(backend, ask_lane):
    asker = ask_lane()
    asker.open("x", stream_id="a")
    await asker.ask("x", stream_id="a")
    await asker.until_idle()
    assert len(backend.exchanges) == 1


async def test_streams_do_not_mix(ask_lane):
    asker = ask_lane()
    texts = {asker.open(f"number {n}"): f"reply to: number {n}" for n in range(20)}
    heard: dict[str, str] = dict.fromkeys(texts, "")
    for _ in texts:
        for message in await asker.until_end():
            if isinstance(message, StreamDelta):
                heard[message.stream_id] += message.text
    assert heard == texts


async def test_an_unknown_request_is_refused(ask_lane):
    asker = ask_lane()
    with pytest.raises(Invalid, match="Unknown"):
        await asker.ref.ask(Unknown(), asker.within())


async def test_a_turn_that_is_gone_cancels_its_stream(backend, ask_lane):
    backend.script(Text("a"), Hold("gate"), Text("b"), Silence())
    asker = ask_lane()
    asker.open()
    exchange = await backend.request(0)
    await backend.gate("gate").reached.wait()
    asker.port.close()
    backend.release("gate")
    await exchange.connection_closed.wait()
    await asker.until_idle()


async def test_a_turn_that_is_killed_is_not_listened_for_until_a_silent_backend_speaks(
    system, backend, ask_lane
):
    backend.script(Silence())
    asker = ask_lane()
    turn = system.spawn("/turn", lambda: Notes(asyncio.Queue()))
    asker.open(reply_to=turn)
    asker.open("another", stream_id="b")
    exchange = await backend.request(0)
    turn._cell.kill()
    await exchange.connection_closed.wait()
    assert text_of(await asker.until_end()) == "reply to: another"
    await asker.until_idle()


async def test_a_turn_whose_mailbox_is_full_hears_of_the_end_once_there_is_room(system):
    settings = LaneSettings(name="echo", kind=LaneKind.ECHO, echo_delay_s=0)
    asker = Asker(system, system.spawn("/lanes-echo", lambda: ModelLane(settings, 1)))
    heard: asyncio.Queue[Any] = asyncio.Queue()
    turn = system.spawn("/turn", lambda: Notes(heard), bound=3)
    await turn.ask(Suspend(), asker.within())
    asker.open("one two three four five", reply_to=turn)
    await system.idle()
    await turn.ask(Resume(), asker.within())
    messages = [await heard.get() for _ in range(4)]
    assert isinstance(messages[0], StreamArmed)
    assert text_of(messages) == "Echo: one "
    assert messages[-1] == StreamFailed(
        stream_id="stream-0", failure=FailureClass.INCOMPLETE, error_class="MailboxFull"
    )
    await asker.until_idle()


async def test_a_stream_that_waits_for_room_can_be_cancelled(system):
    settings = LaneSettings(name="echo", kind=LaneKind.ECHO, echo_delay_s=0)
    asker = Asker(system, system.spawn("/lanes-echo", lambda: ModelLane(settings, 1)))
    turn = system.spawn("/turn", lambda: Notes(asyncio.Queue()), bound=1)
    await turn.ask(Suspend(), asker.within())
    stream_id = asker.open("one two", reply_to=turn)
    await system.idle()
    assert (await asker.describe()).streams == 1
    asker.cancel(stream_id)
    await asker.until_idle()


class Faulty(Echo):
    """A backend with a mistake in it."""

    async def serve(self, stream: Stream) -> None:
        raise LookupError("CANARY")


async def test_a_mistake_in_one_stream_is_that_streams_failure(system):
    settings = LaneSettings(name="echo", kind=LaneKind.ECHO)
    asker = Asker(system, system.spawn("/lanes-echo", lambda: ModelLane(settings, 1, Faulty)))
    failed = failure_of(await asker.ask())
    assert (failed.failure, failed.error_class) == (FailureClass.PROTOCOL, "LookupError")
    assert (await asker.describe()).streams == 0


@pytest.mark.parametrize(
    ("script", "failure"),
    [((Text("a"), Silence()), FailureClass.INCOMPLETE), ((Silence(),), FailureClass.CONNECT)],
)
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_streams_of_a_lane_that_ends_have_failed(backend, ask_lane, how, script, failure):
    backend.script(*script)
    asker = ask_lane()
    asker.open()
    exchange = await backend.request(0)
    if len(script) > 1:
        await asker.next()
        await asker.next()
    if how == "stop":
        await asker.system.stop(asker.ref, asker.within(), DownReason.SHUTDOWN)
    else:
        asker.ref._cell.kill()
    failed = failure_of(await asker.until_end())
    assert (failed.failure, failed.error_class) == (failure, "ActorStopped")
    await exchange.connection_closed.wait()
