"""Relay answers that are shown while they are being made: edits where the platform can edit, and the stored end as the last."""

import contextlib
import sqlite3

import pytest

from actors.messages.lifecycle import Resume, Suspend
from actors.messages.rows import DeliveryState, TurnState
from actors.messages.store import ListDeliveries, ListTurns
from actors.session.recovery import INTERRUPTED_MARK
from actors.turn.ends import BROKEN_OFF_MARK, CANCELLED_MARK, SHUTDOWN_MARK
from tests.daemon import Daemon
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import Die, Finish, Hold, Reply, Text, answer
from tests.fakes.connector import Connector, event
from tests.harness import until
from tests.peers import add_peer
from tests.terminal import admin_call

FAST = {"relay.edit_delay_s": 0.0, "relay.edit_interval_s": 0.05, "relay.retry_base_s": 0.01}
LATER = {"success": False, "error": "slow down", "retryable": True}
NO = {"success": False, "error": "no such message"}
INTERRUPT = {"type": "interrupt_inbound", "session_key": "agent:main:discord:group:C1:U1", "chat_id": "C1"}


@pytest.fixture
async def fast(boot):
    return await boot(**FAST)


async def connector(harness, **fields):
    secret = await add_peer(harness, "bot", "discord:b1")
    return await Connector(harness.url, "bot", secret, **{"supports_edit": True, **fields}).dial()


async def says(peer, text="hello", message_id="m1", **source):
    await peer.buffered(message_id, event(text, message_id, **source))


async def shows(peer, *texts):
    await until(lambda: list(peer.screen.values()) == list(texts))


async def deliveries(harness, count=2):
    """Wait until there are so many, and all of them settled."""

    async def settled():
        rows = await harness.ask("/store", ListDeliveries())
        open_states = {DeliveryState.PENDING, DeliveryState.ATTEMPTING}
        return len(rows) == count and not {row.state for row in rows} & open_states and rows

    return [(row.state, row.message_id) for row in reversed(await until(settled))]


def edits(peer):
    return [content for op, content in peer.ops() if op == "edit"]


async def test_an_answer_grows_in_one_message_and_its_last_edit_is_the_stored_row(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo "), Hold("2"), Text("world"), Finish())
    peer = await connector(fast)
    await says(peer, scope_id="G1", thread_id="T1")
    await shows(peer, "Hel")
    backend.release("1")
    await shows(peer, "Hello ")
    backend.release("2")
    await shows(peer, "Hello world")
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1")] * 2
    [turn] = await fast.ask("/store", ListTurns())
    assert (turn.state, turn.text) == (TurnState.COMMITTED, "Hello world")
    origin = {"scope_id": "G1", "user_id": "U1", "thread_id": "T1"}
    first, *rest = [frame["action"] for frame in peer.of("outbound")]
    assert first == {
        "op": "send", "chat_id": "C1", "content": "Hel", "reply_to": "m1", "metadata": origin,
    }  # fmt: skip
    assert rest[-1] == {
        "op": "edit", "chat_id": "C1", "message_id": "s1", "content": "Hello world", "metadata": origin,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"supports_edit": False}, {}),
        ({"supported_ops": ["send", "typing"]}, {}),
        ({}, {"relay.edit_streaming": False}),
    ],
    ids=["no edits", "op not listed", "switched off"],
)
async def test_without_edits_the_answer_is_one_message_when_it_is_whole(boot, backend, fields, settings):
    harness = await boot(**FAST, **settings)
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    peer = await connector(harness, **fields)
    await says(peer)
    await backend.gate("1").reached.wait()
    # Another chat's answer has come and gone meanwhile.
    await says(peer, "other", "m2", chat_id="C2")
    await shows(peer, "reply to: other")
    backend.release("1")
    await shows(peer, "reply to: other", "Hello")
    assert [op for op, _ in peer.ops()] == ["send", "send"]


async def test_an_answer_that_is_whole_at_once_is_sent_once(turnkeep):
    peer = await connector(turnkeep)
    await says(peer)
    await shows(peer, "reply to: hello")
    assert await deliveries(turnkeep, 1) == [(DeliveryState.DELIVERED, "s1")]
    assert peer.ops() == [("send", "reply to: hello")]


async def test_there_is_at_most_one_edit_in_the_interval(boot, backend):
    harness = await boot(**{**FAST, "relay.edit_interval_s": 0.3})
    backend.script(*answer(" ".join("word" for _ in range(60)), interval_s=0.02))
    peer = await connector(harness)
    await says(peer)
    await shows(peer, " ".join("word" for _ in range(60)))
    assert await deliveries(harness) == [(DeliveryState.DELIVERED, "s1")] * 2
    gaps = [after - before for before, after in zip(peer.edited_at, peer.edited_at[1:], strict=False)]
    assert len(gaps) >= 2
    assert min(gaps) >= 0.29


# Ends


async def test_a_stop_leaves_the_partial_with_its_marker(fast, backend):
    backend.script(Text("Hel"), Hold("never"))
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "Hel")
    await peer.send(INTERRUPT)
    await shows(peer, f"Hel\n\n{CANCELLED_MARK}")
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1")] * 2


async def test_a_stop_before_anything_was_shown_says_nothing(turnkeep, backend):
    backend.script(Text("Hel"), Hold("never"))
    peer = await connector(turnkeep)
    await says(peer)
    await backend.gate("never").reached.wait()
    await peer.send(INTERRUPT)

    async def cancelled():
        return [turn.state for turn in await turnkeep.ask("/store", ListTurns())] == [TurnState.CANCELLED]

    await until(cancelled)
    await says(peer, "again", "m2")
    await shows(peer, "reply to: again")
    assert len(peer.ops()) == 1


async def test_a_failure_leaves_the_partial_with_its_marker_and_our_notice(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Die("rst"))
    backend.script(Reply(400, {"error": {"message": "no"}}), times=9)
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "Hel")
    backend.release("1")

    def told():
        return [text.startswith(f"Hel\n\n{BROKEN_OFF_MARK}\n\n") for text in peer.screen.values()] == [True]

    await until(told)
    [turn] = await fast.ask("/store", ListTurns())
    assert turn.state is TurnState.FAILED
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1")] * 2


async def test_the_text_of_a_dead_attempt_gives_way_to_the_next_ones(fast, backend):
    backend.script(Text("from the dead attempt"), Hold("1"), Die("rst"))
    backend.script(Text("Hello"), Hold("2"), Text(" world"), Finish())
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "from the dead attempt")
    backend.release("1")
    await shows(peer, "Hello")
    backend.release("2")
    await shows(peer, "Hello world")
    after = edits(peer)
    assert not [content for content in after if "dead" in content]


async def test_a_dead_attempt_that_waits_for_its_chat_is_never_shown(fast, backend):
    backend.script(Text("dead"), Hold("1"), Die("rst"), when="hello")
    backend.script(Hold("2"), Text("Hello"), Finish(), when="hello")
    peer = await connector(fast, answer=lambda frame: None)
    # The answer to another person in the chat is being sent.
    await says(peer, "other", "m0", user_id="U2")
    [first] = await peer.frames("outbound")
    await says(peer)
    await until(lambda: _count(fast, 2))
    backend.release("1")
    await backend.request(2)
    await until(lambda: _count(fast, 1))
    await peer.result(first, {"success": True, "message_id": "s0"})
    peer.answer = peer.say_yes
    backend.release("2")
    await shows(peer, "reply to: other", "Hello")
    assert "dead" not in peer.contents()


async def _count(harness, count):
    return len(await harness.ask("/store", ListDeliveries())) == count


async def test_a_long_answer_stops_growing_at_the_limit_and_is_split_at_its_end(fast, backend):
    words = [f"word{n}" for n in range(30)]
    backend.script(Text(" ".join(words)), Hold("1"), Text(" and the rest"), Finish())
    peer = await connector(fast, max_message_length=100)
    await says(peer)
    await until(lambda: len(peer.screen) == 1)
    backend.release("1")
    await until(lambda: len(peer.screen) > 1)
    assert await deliveries(fast) == [
        (DeliveryState.DELIVERED, "s1"),
        (DeliveryState.DELIVERED, list(peer.screen)[-1]),
    ]
    texts = list(peer.screen.values())
    assert " ".join(texts) == " ".join([*words, "and the rest"])
    assert max(len(text) for text in peer.contents()) <= 100
    assert [op for op, _ in peer.ops()].count("send") == len(texts)


# Order


async def test_other_deliveries_of_the_chat_go_between_and_the_message_keeps_its_place(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish(), when="slow")
    peer = await connector(fast)
    await says(peer, "slow")
    await shows(peer, "Hel")
    await says(peer, "quick", "m2", user_id="U2")
    await shows(peer, "Hel", "reply to: quick")
    backend.release("1")
    await shows(peer, "Hello", "reply to: quick")


async def test_a_beginning_waits_for_what_its_chat_waits_for(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish(), when="slow")
    peer = await connector(fast, answer=lambda frame: None)
    await says(peer, "quick", "m0", user_id="U2")
    [first] = await peer.frames("outbound")
    await says(peer, "slow")
    await until(lambda: _count(fast, 2))
    assert peer.contents() == ["reply to: quick"]
    peer.answer = peer.say_yes
    await peer.result(first, {"success": True, "message_id": "s0"})
    await shows(peer, "reply to: quick", "Hel")
    backend.release("1")
    await shows(peer, "reply to: quick", "Hello")


async def test_the_end_waits_for_an_edit_that_is_under_way(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Hold("2"), Text("!"), Finish())
    peer = await connector(fast)
    peer.answer = lambda frame: peer.say_yes(frame) if frame["action"]["op"] == "send" else None
    await says(peer)
    await shows(peer, "Hel")
    backend.release("1")
    await until(lambda: edits(peer) == ["Hello"])
    backend.release("2")
    await until(lambda: _ended(fast, TurnState.COMMITTED))
    # The stored end is in the outbox's hands, and goes out once the edit is answered.
    await until(lambda: _attempting(fast))
    assert edits(peer) == ["Hello"]
    peer.answer = peer.say_yes
    await peer.result(peer.of("outbound")[-1], {"success": True})
    await shows(peer, "Hello!")
    assert edits(peer) == ["Hello", "Hello!"]


async def _ended(harness, state):
    return [turn.state for turn in await harness.ask("/store", ListTurns())] == [state]


async def _attempting(harness):
    rows = await harness.ask("/store", ListDeliveries())
    return [row.state for row in rows] == [DeliveryState.ATTEMPTING, DeliveryState.DELIVERED]


# Peers that do not edit as they say


async def test_a_refused_edit_slows_down_and_fails_nothing(boot, backend):
    harness = await boot(**{**FAST, "relay.edit_interval_s": 0.1})
    backend.script(*answer(" ".join("word" for _ in range(60)), interval_s=0.02))
    peer = await connector(harness)
    refused = []

    def sometimes(frame):
        if frame["action"]["op"] == "edit" and len(refused) < 3:
            refused.append(frame)
            return LATER
        return peer.say_yes(frame)

    peer.answer = sometimes
    await says(peer)
    await shows(peer, " ".join("word" for _ in range(60)))
    assert await deliveries(harness) == [(DeliveryState.DELIVERED, "s1")] * 2
    gaps = [after - before for before, after in zip(peer.edited_at, peer.edited_at[1:], strict=False)]
    assert gaps[0] >= 0.19
    assert gaps[1] >= 0.39


async def test_a_final_edit_that_is_refused_is_followed_by_the_whole(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    peer = await connector(fast)
    peer.answer = lambda frame: NO if frame["action"]["op"] == "edit" else peer.say_yes(frame)
    await says(peer)
    await shows(peer, "Hel")
    backend.release("1")
    await shows(peer, "Hel", "Hello")
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1"), (DeliveryState.DELIVERED, "s2")]
    assert peer.of("outbound")[-1]["action"]["reply_to"] == "m1"


async def test_a_final_edit_that_is_wanted_later_is_tried_later(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "Hel")
    peer.answer = lambda frame: LATER if len(edits(peer)) < 2 else peer.say_yes(frame)
    backend.release("1")
    await shows(peer, "Hello")
    assert [op for op, _ in peer.ops()] == ["send", "edit", "edit"]


async def test_a_stop_whose_mark_cannot_be_put_is_seen(fast, backend):
    backend.script(Text("Hel"), Hold("never"))
    peer = await connector(fast)
    peer.answer = lambda frame: NO if frame["action"]["op"] == "edit" else peer.say_yes(frame)
    await says(peer)
    await shows(peer, "Hel")
    await peer.send(INTERRUPT)
    await until(lambda: _count(fast, 2))
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1"), (DeliveryState.DEAD, None)]
    assert [op for op, _ in peer.ops()] == ["send", "edit"]


async def test_a_peer_that_says_nothing_to_edits_gets_the_whole_and_no_more_of_them(boot, backend):
    harness = await boot(**FAST, **{"relay.outbound_s": 0.3})
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Hold("2"), Text("!"), Finish())
    peer = await connector(harness)
    peer.answer = lambda frame: None if frame["action"]["op"] == "edit" else peer.say_yes(frame)
    await says(peer)
    await shows(peer, "Hel")
    backend.release("1")
    await until(lambda: edits(peer) == ["Hello"])
    backend.release("2")
    await shows(peer, "Hel", "Hello!")
    backend.script(Text("Hel"), Hold("3"), Text("lo"), Finish())
    await says(peer, "again", "m2")
    await backend.gate("3").reached.wait()
    await says(peer, "other", "m3", chat_id="C2")
    await shows(peer, "Hel", "Hello!", "reply to: other")
    backend.release("3")
    await shows(peer, "Hel", "Hello!", "reply to: other", "Hello")
    assert edits(peer) == ["Hello"]


async def test_a_final_edit_without_an_answer_leaves_its_delivery_unknown(boot, backend):
    harness = await boot(**{**FAST, "relay.outbound_s": 0.3, "relay.edit_interval_s": 10.0})
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    peer = await connector(harness)
    await says(peer)
    await shows(peer, "Hel")
    await until(lambda: _count(harness, 1))
    peer.answer = lambda frame: None
    backend.release("1")
    assert await deliveries(harness) == [(DeliveryState.DELIVERED, "s1"), (DeliveryState.UNKNOWN, None)]
    assert [op for op, _ in peer.ops()] == ["send", "edit"]


async def test_a_beginning_without_an_answer_is_followed_by_the_whole(boot, backend):
    harness = await boot(**FAST, **{"relay.outbound_s": 0.3})
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    peer = await connector(harness, answer=lambda frame: None)
    await says(peer)
    await peer.frames("outbound")
    peer.answer = peer.say_yes
    backend.release("1")
    await shows(peer, "Hello")
    assert peer.ops() == [("send", "Hel"), ("send", "Hello")]
    assert await deliveries(harness) == [(DeliveryState.UNKNOWN, None), (DeliveryState.DELIVERED, "s1")]


# Links


async def test_a_link_that_drops_and_returns_goes_on_in_the_same_message(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Hold("2"), Text("!"), Finish())
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "Hel")
    peer.cut()
    backend.release("1")
    await peer.dial()
    await shows(peer, "Hello")
    peer.cut()
    backend.release("2")
    await until(lambda: _ended(fast, TurnState.COMMITTED))
    await peer.dial()
    await shows(peer, "Hello!")
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1")] * 2
    assert [op for op, _ in peer.ops()].count("send") == 1


async def test_an_edit_that_is_lost_with_its_link_is_made_again(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Hold("2"), Finish())
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "Hel")
    peer.answer = lambda frame: None
    backend.release("1")
    await until(lambda: edits(peer) == ["Hello"])
    peer.cut()
    peer.answer = peer.say_yes
    await peer.dial()
    await shows(peer, "Hello")


async def test_one_that_has_missed_events_catches_up(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Hold("2"), Text("!"), Hold("3"), Finish())
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "Hel")
    [place] = [one.path for one in fast.at("/relays/bot")._cell.offspring() if "/answer-" in one.path]
    await fast.ask(place, Suspend())
    backend.release("1")
    missed = fast.at(place)._cell.mailbox.ordinary
    await until(lambda: len(missed) > 0)
    # As when more came than its mailbox holds.
    missed.clear()
    await fast.ask(place, Resume())
    backend.release("2")
    await shows(peer, "Hello!")
    backend.release("3")
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1")] * 2


async def test_one_that_crashes_costs_nothing_but_its_edits(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    peer = await connector(fast)
    fast.system.failpoints.set("relay.begin", _raise)
    await says(peer)
    await backend.gate("1").reached.wait()
    backend.release("1")
    await shows(peer, "Hello")
    assert peer.ops() == [("send", "Hello")]


def _raise():
    raise ValueError("failpoint")


async def test_a_peer_that_crashes_in_mid_stream_loses_no_answer(fast, backend):
    backend.script(Text("Hel"), Hold("1"), Text("lo"), Hold("2"), Text("!"), Finish())
    peer = await connector(fast)
    await says(peer)
    await shows(peer, "Hel")
    fast.system.failpoints.set("relay.edit", _raise)
    backend.release("1")
    await peer.closed()
    await peer.dial()
    backend.release("2")
    await shows(peer, "Hello!")
    assert await deliveries(fast) == [(DeliveryState.DELIVERED, "s1")] * 2
    assert [op for op, _ in peer.ops()].count("send") == 1


# Restarts


@pytest.fixture
async def runs(tmp_path):
    """A daemon as a process, a scripted backend and a connector that dials in again."""
    async with FakeBackend() as backend:
        run = Run(tmp_path / "data", backend)
        try:
            yield run
        finally:
            await run.peer.close()
            await run.daemon.close()


class Run:
    def __init__(self, data_dir, backend):
        self.data_dir = data_dir
        self.backend = backend

    async def start(self, *, env=None, session="", interval=0.05):
        """The first start."""
        config = f"""
            [relay]
            edit_delay_s = 0.0
            edit_interval_s = {interval}
            [turn]
            flush_s = 0.01
            [session]
            {session}
            [[lane]]
            name = "fake"
            base_url = "{self.backend.url}"
            model = "m"
        """
        self.daemon = await Daemon(self.data_dir, config=config).start()
        added = await admin_call(self.daemon, "peers.add", name="bot", identities=["discord:b1"])
        self.daemon.port = self.daemon.port_in_use
        if env is not None:
            await self.daemon.stop()
            await self.daemon.start(env={"TURNKEEP_FAILPOINTS": env})
        self.peer = await Connector(self.daemon.url, "bot", added["secret"], supports_edit=True).dial()
        return self.peer

    async def again(self):
        """The start after a kill."""
        await self.peer.close()
        await self.daemon.start()
        await self.peer.dial()

    async def deliveries(self):
        rows = (await admin_call(self.daemon, "deliveries.list"))["deliveries"]
        return [row["state"] for row in reversed(rows)]

    async def settled(self, *states):
        async def are():
            return await self.deliveries() == list(states)

        await until(are)


async def test_trn_54_a_kill_in_mid_stream_leaves_the_message_with_what_was_kept_and_our_notice(runs):
    runs.backend.script(Text("Hel"), Hold("never"))
    peer = await runs.start()
    await says(peer)
    await shows(peer, "Hel")
    await runs.settled("delivered")
    await until(lambda: _flushed(runs.data_dir) == "Hel")
    await runs.daemon.kill()
    await runs.again()
    await runs.settled("delivered", "delivered")
    [text] = peer.screen.values()
    assert text.startswith(f"Hel\n\n{INTERRUPTED_MARK}\n\n")
    assert [op for op, _ in peer.ops()] == ["send", "edit"]


def _flushed(data_dir):
    with contextlib.closing(sqlite3.connect(data_dir / "turnkeep.db")) as connection:
        return connection.execute("SELECT partial FROM turns").fetchone()[0]


async def test_trn_54_a_second_run_goes_on_in_the_message_of_the_first(runs):
    runs.backend.script(Text("Hel"), Hold("never"))
    runs.backend.script(Text("Good"), Hold("1"), Text("bye"), Finish())
    peer = await runs.start(session='on_restart = "retry"')
    await says(peer)
    await shows(peer, "Hel")
    await runs.settled("delivered")
    await runs.daemon.kill()
    await runs.again()
    await shows(peer, "Good")
    runs.backend.release("1")
    await shows(peer, "Goodbye")
    await runs.settled("delivered", "delivered")
    assert [op for op, _ in peer.ops()].count("send") == 1


async def test_a_kill_before_the_message_s_id_is_kept_lets_the_notice_follow(runs):
    runs.backend.script(Text("Hel"), Hold("never"))
    peer = await runs.start(env="relay.settle=kill")
    await says(peer)
    assert await runs.daemon.ended() == -9
    await runs.again()
    await runs.settled("unknown", "delivered")
    assert [op for op, _ in peer.ops()] == ["send", "send"]
    assert len(peer.screen) == 2


async def test_a_kill_between_the_stored_end_and_its_edit_costs_nothing(runs):
    runs.backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    peer = await runs.start(env="turn.leave=kill")
    await says(peer)
    await shows(peer, "Hel")
    await runs.settled("delivered")
    runs.backend.release("1")
    assert await runs.daemon.ended() == -9
    await runs.again()
    await runs.settled("delivered", "delivered")
    assert list(peer.screen.values()) == ["Hello"]
    assert [op for op, _ in peer.ops()].count("send") == 1


async def test_a_kill_after_the_last_edit_was_sent_does_not_repeat_it(runs):
    runs.backend.script(Text("Hel"), Hold("1"), Text("lo"), Finish())
    # The first outcome is the beginning's.
    peer = await runs.start(env="relay.settle=kill@2", interval=10.0)
    await says(peer)
    await shows(peer, "Hel")
    await runs.settled("delivered")
    runs.backend.release("1")
    assert await runs.daemon.ended() == -9
    await runs.again()
    await runs.settled("delivered", "unknown")
    assert list(peer.screen.values()) == ["Hello"]
    assert len([op for op, text in peer.ops() if text == "Hello"]) == 1


async def test_a_shutdown_in_mid_stream_marks_the_message_at_the_next_start(runs):
    runs.backend.script(Text("Hel"), Hold("never"))
    peer = await runs.start()
    await says(peer)
    await shows(peer, "Hel")
    await runs.settled("delivered")
    await runs.daemon.stop()
    await runs.again()
    await runs.settled("delivered", "delivered")
    [text] = peer.screen.values()
    assert text.startswith(f"Hel\n\n{SHUTDOWN_MARK}\n\n")
