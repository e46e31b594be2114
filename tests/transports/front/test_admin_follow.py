"""Following a session over the admin socket: each event once and in order, over connections, restarts and rests."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from actors.exceptions import DeadlineExceeded
from actors.messages.admin import AddKey, Perform
from actors.messages.lifecycle import Resume, Suspend
from actors.messages.rows import KeyRow, KeyScope, TurnState
from actors.messages.session import FollowTurns, TurnOutcome, UnfollowTurns
from actors.messages.store import GetTurn
from actors.messages.turn import Content, RunPhase, Snapshot, StateChange, TurnEvent
from actors.runtime import Budget, System
from tests.admin_wire import AdminWire
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import Done, Finish, Hold, Role, Text
from tests.harness import Harness, until
from tests.transports.front.box import Notes
from transports.front.admin_follow import TurnFeed
from transports.front.admin_settings import AdminSocketSettings

Boot = Callable[..., Awaitable[Harness]]
Place = tuple[int, int]


@pytest.fixture
async def harness(boot: Boot) -> Harness:
    return await boot()


@pytest.fixture
async def system() -> AsyncIterator[System]:
    made = System()
    yield made
    for info in made.actors():
        ref = made.find(info.path)
        assert ref is not None
        await made.stop(ref, Budget.of(made.clock, 2.0))


def wire(harness: Harness) -> AdminWire:
    return AdminWire(harness.url, harness.admin_token)


async def session(harness: Harness) -> str:
    async with wire(harness) as other:
        return str((await other.ask("sessions.open", chat="main"))["session"]["session_id"])


async def say(harness: Harness, text: str) -> str:
    """Send a message on a connection of its own; return its inbox id."""
    async with wire(harness) as other:
        sent = await other.ask("sessions.send", chat="main", text=text)
    return str(sent["accepted"]["inbox_id"])


async def ended(harness: Harness, inbox_id: str) -> None:
    async def over() -> bool:
        turn = await harness.ask("/store", GetTurn(inbox_id=inbox_id))
        return turn is not None and turn.state is TurnState.COMMITTED

    await until(over)
    await harness.system.idle()


def handled(harness: Harness, session_id: str) -> int:
    info = harness.system.info(f"/sessions/{session_id}")
    assert info is not None
    return info.handled


def place(event: Any) -> Place:
    return event["data"]["turn_gen"], event["data"]["seq"]


def is_last(event: Any) -> bool:
    return event["event"] == "turn.state" and event["data"]["state"] in ("idle", "error")


async def heard(follower: AdminWire, turns: int = 1) -> list[Any]:
    """Return the events up to the end of so many turns."""
    events: list[Any] = []
    while sum(map(is_last, events)) < turns:
        events.append(await follower.event())
    return events


def text_of(events: list[Any]) -> str:
    return "".join(event["data"]["text"] for event in events if event["event"] == "turn.content")


async def test_every_event_of_every_turn_is_told_once_and_in_order(harness: Harness) -> None:
    session_id = await session(harness)
    async with wire(harness) as follower:
        assert await follower.ask("sessions.follow", session_id=session_id[:30]) == {
            "session_id": session_id,
            "turn_gen": 0,
        }
        await say(harness, "one two")
        first = await heard(follower)
        await say(harness, "three")
        second = await heard(follower)
    for gen, events in ((1, first), (2, second)):
        assert [place(event) for event in events] == [(gen, seq) for seq in range(1, len(events) + 1)]
        assert {event["data"]["session_id"] for event in events} == {session_id}
        assert len({event["data"]["turn_id"] for event in events}) == 1
        assert {event["data"]["attempt"] for event in events} == {1}
        assert [event["seq"] for event in events] == [event["data"]["seq"] for event in events]
        kinds = list(dict.fromkeys(event["event"].removeprefix("turn.") for event in events))
        assert kinds == [
            "turn_start",
            "thinking_start",
            "state",
            "thinking_stop",
            "content",
            "stream_end",
            "status",
            "turn_committed",
        ]
    assert text_of(first) == "reply to: one two" and text_of(second) == "reply to: three"


async def test_a_follower_that_comes_to_a_running_turn_hears_it_from_its_beginning(
    harness: Harness, backend: FakeBackend
) -> None:
    session_id = await session(harness)
    backend.script(Role(), Text("Hel"), Hold("on"), Text("lo"), Finish(), Done())
    await say(harness, "hi")
    await backend.gate("on").reached.wait()
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id)
        await follower.event("turn.content")
        backend.release("on")
        events = await heard(follower)
        assert text_of(events) == "lo"
        # Its end is said once, though the store was asked for it too.
        await say(harness, "more")
        assert (await heard(follower))[0]["event"] == "turn.turn_start"


@pytest.mark.parametrize("cut", range(1, 10))
async def test_over_a_lost_connection_nothing_is_missed_and_nothing_told_twice(
    harness: Harness, backend: FakeBackend, cut: int
) -> None:
    session_id = await session(harness)
    backend.script(Role(), Text("Hel"), Hold("on"), Text("lo"), Finish(), Done())
    events: list[Any] = []
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id)
        inbox_id = await say(harness, "hi")
        if cut > 6:
            backend.release("on")
        while len(events) < cut:
            events.append(await follower.event())
    backend.release("on")
    if cut % 2:
        await ended(harness, inbox_id)
    turn_gen, seq = place(events[-1])
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id, after_gen=turn_gen, after_seq=seq)
        if cut % 2:
            # The turn is over: what came of it is told by the store.
            outcome = await follower.event()
            assert outcome["event"] == "turn.outcome"
            assert outcome["data"]["turn"]["text"] == "Hello" and outcome["data"]["turn"]["turn_gen"] == 1
            return
        while not events or not (is_last(events[-1]) or events[-1]["event"] == "turn.outcome"):
            events.append(await follower.event())
    told = [event for event in events if event["event"] != "turn.outcome"]
    assert [place(event) for event in told] == [(1, n) for n in range(1, len(told) + 1)]


async def test_what_happened_while_nobody_followed_is_told_turn_by_turn(
    harness: Harness, backend: FakeBackend
) -> None:
    session_id = await session(harness)
    for text in ("one", "two", "three"):
        await ended(harness, await say(harness, text))
    backend.script(Role(), Text("Hel"), Hold("on"), Text("lo"), Finish(), Done())
    await say(harness, "four")
    await backend.gate("on").reached.wait()
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id, after_gen=2, after_seq=4)
        outcomes = [await follower.event() for _ in range(2)]
        assert [event["event"] for event in outcomes] == ["turn.outcome"] * 2
        assert [event["data"]["turn"]["text"] for event in outcomes] == ["reply to: two", "reply to: three"]
        backend.release("on")
        events = await heard(follower)
        assert [place(event) for event in events] == [(4, n) for n in range(1, len(events) + 1)]


async def test_where_more_turns_ended_than_are_told_a_gap_is_said(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.session.followers.MAX_MISSED", 2)
    session_id = await session(harness)
    for text in ("one", "two", "three", "four"):
        await ended(harness, await say(harness, text))
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id, after_gen=1, after_seq=1)
        events = [await follower.event() for _ in range(3)]
    assert [event["event"] for event in events] == ["turn.gap", "turn.outcome", "turn.outcome"]
    assert events[0]["data"] == {"session_id": session_id, "after_gen": 1, "next_gen": 3}


async def test_events_that_are_not_kept_are_a_gap_with_a_snapshot(
    harness: Harness, backend: FakeBackend
) -> None:
    session_id = await session(harness)
    # More than a turn keeps of its events.
    whole = "x" * 70_000
    backend.script(Role(), Text(whole), Hold("on"), Text("end"), Finish(), Done())
    await say(harness, "hi")
    await backend.gate("on").reached.wait()

    async def shown() -> bool:
        async with wire(harness) as follower:
            await follower.ask("sessions.follow", session_id=session_id, after_gen=1, after_seq=3)
            return bool((await follower.event())["data"].get("text") == whole)

    await until(shown)
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id, after_gen=1, after_seq=3)
        snapshot = await follower.event()
        assert snapshot["event"] == "turn.snapshot" and snapshot["data"]["gap"] is True
        assert snapshot["data"]["text"] == whole
        backend.release("on")
        events = await heard(follower)
        assert [place(event)[1] for event in events] == list(
            range(snapshot["seq"] + 1, snapshot["seq"] + 1 + len(events))
        )
        assert text_of(events) == "end"


async def test_a_session_that_is_lost_under_its_followers_is_followed_again(
    boot: Boot, backend: FakeBackend
) -> None:
    harness = await boot(**{"admin_socket.recheck_s": 0.05})
    session_id = await session(harness)
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id)
        await say(harness, "one")
        assert text_of(await heard(follower)) == "reply to: one"
        harness.system.kill(f"/sessions/{session_id}")
        # Told as events if the following was renewed before it, else as the outcome that was missed.
        await say(harness, "two")
        events: list[Any] = []
        while not events or not (is_last(events[-1]) or events[-1]["event"] == "turn.outcome"):
            events.append(await follower.event())
        if events[-1]["event"] == "turn.outcome":
            assert events[-1]["data"]["turn"]["text"] == "reply to: two"
        else:
            assert text_of(events) == "reply to: two"
        await say(harness, "three")
        assert text_of(await heard(follower)) == "reply to: three"


async def test_a_turn_that_is_lost_under_its_followers_is_told_as_its_outcome(
    harness: Harness, backend: FakeBackend
) -> None:
    session_id = await session(harness)
    backend.script(Role(), Text("Hel"), Hold("on"))
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id)
        await say(harness, "hi")
        await follower.event("turn.content")
        harness.system.kill(f"/sessions/{session_id}/turn")
        outcome = await follower.event("turn.outcome")
        assert outcome["data"]["turn"]["state"] == "interrupted"


async def test_a_session_rests_once_nobody_follows_it_any_more(boot: Boot) -> None:
    harness = await boot(**{"session.idle_s": 0.05})
    session_id = await session(harness)
    async with wire(harness) as follower, wire(harness) as other:
        for one in (follower, other):
            await one.ask("sessions.follow", session_id=session_id)
        await say(harness, "one")
        await heard(follower)
        await heard(other)
        assert await other.ask("sessions.unfollow", session_id=session_id) == {"session_id": session_id}
        # The idle time is over, several times.
        before = handled(harness, session_id)
        await until(lambda: handled(harness, session_id) > before + 2)
        await say(harness, "two")
        assert text_of(await heard(follower)) == "reply to: two"
        assert [event for event in other.events if event["event"].startswith("turn.")] == []
    await until(lambda: harness.system.find(f"/sessions/{session_id}") is None)


async def test_adm_4_who_reads_too_slowly_is_dropped_and_the_turn_goes_on(
    boot: Boot, backend: FakeBackend
) -> None:
    harness = await boot(**{"admin_socket.queue": 8})
    session_id = await session(harness)
    async with wire(harness) as follower:
        await follower.ask("sessions.follow", session_id=session_id)
        follower.socket.transport.pause_reading()
        # More than the buffers of both sockets take.
        pieces = [Text("x" * 1_000_000) for _ in range(24)]
        backend.script(Role(), *pieces, Finish(), Done())
        await ended(harness, await say(harness, "hi"))
        follower.socket.transport.resume_reading()
        last = await follower.last()
        assert (last["event"], last["data"]) == ("dropped", {"reason": "too_slow"})
        assert follower.socket.close_code == 1008


async def test_one_follower_that_came_while_the_end_was_on_its_way_hears_of_it_all_the_same(
    harness: Harness, backend: FakeBackend
) -> None:
    session_id = await session(harness)
    backend.script(Role(), Text("Hel"), Hold("on"), Text("lo"), Finish(), Done())
    await say(harness, "hi")
    await backend.gate("on").reached.wait()
    port = harness.system.port("/test")
    harness.sessions.tell(FollowTurns(session_id=session_id, watcher=port, after_gen=0, after_seq=0))
    assert isinstance(await port.receive(harness.within()), TurnEvent)
    backend.release("on")
    message: Any = None
    while not isinstance(message, TurnOutcome):
        message = await port.receive(harness.within())
    assert message.turn is not None and message.turn.text == "Hello"


async def test_while_the_store_does_not_answer_a_follower_is_none_and_comes_back(boot: Boot) -> None:
    harness = await boot(**{"session.store_s": 0.1, "session.retry_base_s": 0.01})
    session_id = await session(harness)
    port = harness.system.port("/test")
    following = FollowTurns(session_id=session_id, watcher=port, after_gen=0, after_seq=0)
    await harness.ask("/store", Suspend())
    harness.sessions.tell(following)
    await until(lambda: harness.system.find(f"/sessions/{session_id}") is not None)
    # It has heard of the follower, and that neither its inbox nor its past could be read.
    await until(lambda: handled(harness, session_id) >= 3)
    await harness.ask("/store", Resume())
    harness.sessions.tell(following)
    await say(harness, "hi")
    message: Any = await port.receive(harness.within())
    assert isinstance(message, TurnEvent)
    assert (message.turn_gen, message.seq) == (1, 1)


async def test_who_follows_no_more_hears_nothing_more_of_the_running_turn(
    harness: Harness, backend: FakeBackend
) -> None:
    session_id = await session(harness)
    backend.script(Role(), Text("Hel"), Hold("on"), Text("lo"), Finish(), Done())
    inbox_id = await say(harness, "hi")
    await backend.gate("on").reached.wait()
    port = harness.system.port("/test")
    harness.sessions.tell(FollowTurns(session_id=session_id, watcher=port, after_gen=0, after_seq=0))
    while not isinstance(await port.receive(harness.within()), Content):
        pass
    harness.sessions.tell(UnfollowTurns(session_id=session_id, watcher=port))
    await harness.system.idle()
    backend.release("on")
    await ended(harness, inbox_id)
    with pytest.raises(DeadlineExceeded):
        await port.receive(harness.within(0.0))


async def test_nothing_is_written_twice_whatever_is_told_twice(system: System) -> None:
    heard: list[Any] = []
    written: list[bytes] = []

    async def write(frame: bytes) -> None:
        written.append(frame)

    sessions = system.spawn("/sessions", lambda: Notes(heard))
    settings = AdminSocketSettings()
    feed = TurnFeed(
        "s",
        after_gen=2,
        after_seq=5,
        ended_gen=1,
        system=system,
        sessions=sessions,
        settings=settings,
        write=write,
    )
    running = asyncio.ensure_future(feed.run())
    await until(lambda: heard)
    port = heard[0].watcher

    def event(kind: type[TurnEvent], gen: int, seq: int, **fields: Any) -> None:
        port.tell(kind(session_id="s", turn_id="t", turn_gen=gen, attempt=1, seq=seq, **fields))

    event(Content, 1, 9, text="ended")
    event(Content, 2, 5, text="known")
    event(Snapshot, 2, 5, text="so far")
    for _ in range(2):
        event(Content, 2, 6, text="new")
    for _ in range(2):
        event(StateChange, 2, 7, state=RunPhase.IDLE)
    event(Content, 2, 8, text="after its end")
    event(Content, 3, 1, text="next")
    await until(lambda: b"next" in b"".join(written))
    running.cancel()
    shown = [(frame["event"], frame["seq"]) for frame in map(json.loads, written)]
    assert shown == [
        ("turn.snapshot", 5),
        ("turn.content", 6),
        ("turn.state", 7),
        ("turn.content", 1),
    ]
    feed.close()
    await system.idle()
    assert [type(one) for one in heard] == [FollowTurns, UnfollowTurns]


async def test_what_cannot_be_followed_is_refused(harness: Harness) -> None:
    session_id = await session(harness)
    caller = KeyRow(key_id="k", name="t", owner="t", scopes=(KeyScope.ADMIN,), created_at=0.0)
    add = Perform(request=AddKey(name="o", scopes=(KeyScope.OBSERVE,)), caller=caller, watcher=None)
    observer = (await harness.ask("/admin", add))["secret"]
    async with wire(harness) as follower:
        assert await follower.ask("sessions.follow", session_id="nowhere") == "not_found"
        assert await follower.ask("sessions.unfollow", session_id="nowhere") == "not_found"
        assert await follower.ask("sessions.follow", session_id=session_id, after_seq=3) == "invalid"
        assert await follower.ask("sessions.follow", session_id=session_id, after_gen=-1) == "invalid"
        # Nothing was followed, so there is nothing to end.
        assert await follower.ask("sessions.unfollow", session_id=session_id) == {"session_id": session_id}
    async with AdminWire(harness.url, observer) as wire_of_observer:
        assert await wire_of_observer.ask("sessions.follow", session_id=session_id) == "forbidden"


async def test_one_connection_follows_a_bounded_number_of_sessions(boot: Boot) -> None:
    harness = await boot(**{"admin_socket.followed": 1})
    async with wire(harness) as follower:
        ids = [
            (await follower.ask("sessions.open", chat=chat))["session"]["session_id"] for chat in ("a", "b")
        ]
        for _ in range(2):
            assert (await follower.ask("sessions.follow", session_id=ids[0]))["session_id"] == ids[0]
        assert await follower.ask("sessions.follow", session_id=ids[1]) == "busy"
        await follower.ask("sessions.unfollow", session_id=ids[0])
        assert (await follower.ask("sessions.follow", session_id=ids[1]))["session_id"] == ids[1]
