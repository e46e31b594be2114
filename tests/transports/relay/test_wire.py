"""The queue of one socket: what may still be written, and when it closes."""

import asyncio

import pytest

from actors.exceptions import ActorStopped
from actors.messages.lifecycle import DeadLetterReason, Down, DownReason
from actors.messages.link import CloseWire, WriteInboundAck, WriteOutbound
from actors.runtime import System
from tests.clock import StillClock
from transports.relay.wire import Wire


@pytest.fixture
async def clock():
    return StillClock()


@pytest.fixture
async def wire(clock):
    return Wire(System(clock), "/wire", 8)


def ack(number=1):
    return WriteInboundAck(buffer_id=f"b{number}")


def outbound(expires=2000.0):
    return WriteOutbound(
        request_id="r1", action={"op": "send"}, platform="discord", bot_id=None, expires=expires
    )


def down(reason):
    return Down(path="/link", incarnation=0, reason=reason)


def emptied(wire):
    messages = []
    while (message := wire.pop()) is not None:
        messages.append(message)
    return messages


async def test_frames_come_out_in_order(wire):
    waiting = asyncio.create_task(wire.wait())
    await asyncio.sleep(0)
    wire.tell(ack(1))
    wire.tell(outbound())
    await waiting
    assert emptied(wire) == [ack(1), outbound()]


async def test_an_action_is_not_handed_out_after_the_close_was_asked_for(wire):
    for message in (ack(1), outbound(), CloseWire(code=1012, reason="x"), CloseWire(code=4409, reason="y")):
        wire.tell(message)
    await wire.wait()
    assert emptied(wire) == [ack(1)] and wire.closing == (1012, "x")


async def test_an_action_is_not_handed_out_after_it_was_given_up(wire, clock):
    wire.tell(outbound(expires=clock.monotonic() + 5))
    wire.tell(ack(1))
    clock.advance(5)
    assert emptied(wire) == [ack(1)]


async def test_nothing_is_taken_after_the_close(wire):
    wire.tell(CloseWire(code=1012, reason="x"))
    with pytest.raises(ActorStopped):
        wire.tell(ack())
    wire.tell(down(DownReason.CRASHED))
    assert wire.closing == (1012, "x")


@pytest.mark.parametrize(
    ("reason", "code"), [(DownReason.CRASHED, 1011), (DownReason.KILLED, 1011), (DownReason.SHUTDOWN, 1012)]
)
async def test_the_end_of_the_link_closes(wire, reason, code):
    wire.tell(down(reason))
    await wire.wait()
    assert wire.closing is not None and wire.closing[0] == code


async def test_a_peer_that_lets_too_much_pile_up_is_closed(wire):
    for number in range(9):
        wire.tell(ack(number))
    assert wire.closing == (1011, "the peer reads too slowly")
    assert wire._system.dead_letters.counts[DeadLetterReason.OVERFLOW] == 1
    assert len(emptied(wire)) == 8


async def test_nothing_is_handed_out_once_the_socket_is_gone(wire):
    wire.tell(ack())
    wire.cut()
    await wire.wait()
    assert emptied(wire) == []


async def test_a_reader_waits_while_much_is_to_be_written(wire):
    for number in range(4):
        wire.tell(ack(number))
    waiting = asyncio.create_task(wire.room())
    await asyncio.sleep(0)
    wire.pop()
    await asyncio.sleep(0)
    assert not waiting.done()
    wire.pop()
    assert emptied(wire) == [ack(2), ack(3)]
    await waiting


async def test_a_reader_that_waits_is_let_go_by_the_close(wire):
    for number in range(4):
        wire.tell(ack(number))
    waiting = asyncio.create_task(wire.room())
    await asyncio.sleep(0)
    wire.tell(CloseWire(code=1012, reason="x"))
    await waiting
