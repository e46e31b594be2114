"""Reading, speaking, watching and stopping."""

import pytest

from actors.exceptions import Conflict, Invalid, NotFound
from actors.messages.admin import (
    ListAllSessions,
    OpenChat,
    SendText,
    ShowHistory,
    ShowSession,
    StopSessionTurn,
    WatchTurn,
)
from actors.messages.rows import TurnState
from actors.messages.session import TurnOutcome
from actors.messages.store import ListTurns, RotateChat
from actors.messages.turn import Content, Snapshot, TurnStart
from tests.fakes.backend_script import Hold, Role, Text, answer
from tests.harness import until


async def open_chat(box, chat="main", **fields):
    return (await box.perform(OpenChat(chat=chat, **fields)))["session"]["session_id"]


async def send(box, **fields):
    return (await box.perform(SendText(**fields)))["accepted"]


async def test_a_chat_is_opened_once(box):
    assert await open_chat(box) == await open_chat(box)
    assert await open_chat(box) != await open_chat(box, "other")
    assert await open_chat(box) != await open_chat(box, platform="web")


async def test_a_chat_has_the_key_of_a_private_chat(box):
    opened = await box.perform(OpenChat(chat="main"))
    assert opened["session"]["session_key"] == "agent:main:console:dm:main"
    assert opened["session"]["peer"] == "console"


async def test_a_message_is_answered_and_its_events_go_to_the_watcher(box):
    accepted = await send(box, chat="main", text="hello", watch=True)
    heard = await box.turn()
    assert isinstance(heard[0], TurnStart)
    assert "".join(event.text for event in heard if isinstance(event, Content)) == "reply to: hello"
    history = await box.perform(ShowHistory(session_id=accepted.session_id))
    assert [(row.role, row.content) for row in history["history"]] == [
        ("user", "hello"),
        ("assistant", "reply to: hello"),
    ]


async def test_a_session_is_addressed_by_the_beginning_of_its_id(box):
    session_id = await open_chat(box)
    accepted = await send(box, session_id=session_id[:20], text="hello")
    assert accepted.session_id == session_id and not accepted.created


async def test_the_same_message_id_with_the_same_text_sends_nothing_twice(box):
    first = await send(box, chat="main", text="hello", message_id="m1")
    again = await send(box, chat="main", text="hello", message_id="m1", watch=True)
    assert again.duplicate and again.inbox_id == first.inbox_id
    other = await send(box, chat="other", text="hello", message_id="m1")
    assert not other.duplicate
    message = await box.watcher.receive(box.harness.within())
    assert isinstance(message, TurnOutcome | TurnStart | Snapshot)
    await until(lambda: _all_ended(box))
    assert len(await box.harness.ask("/store", ListTurns())) == 2


async def test_either_a_session_or_a_chat_is_named(box):
    for fields in ({}, {"session_id": "x", "chat": "y"}):
        with pytest.raises(Invalid):
            await send(box, text="hello", **fields)


async def test_a_session_whose_chat_went_on_elsewhere_is_not_spoken_to(box):
    opened = await box.perform(OpenChat(chat="main"))
    old = opened["session"]["session_id"]
    rotated = await box.harness.ask(
        "/store",
        RotateChat(
            at=1.0,
            peer="console",
            scope=None,
            session_key=opened["session"]["session_key"],
            new_session_id="new",
        ),
    )
    with pytest.raises(Conflict, match=rotated.session_id):
        await send(box, session_id=old, text="hello")


async def test_the_list_says_who_lives(box):
    await open_chat(box, "asleep")
    await send(box, chat="awake", text="hello", watch=True)
    await box.turn()
    rows = (await box.perform(ListAllSessions(peer="console")))["sessions"]
    assert {row["title"]: row["live"] for row in rows} == {"hello": True, "asleep": False}
    assert rows[0]["last_turn"] == "committed"


async def test_a_session_with_its_turns_but_not_their_texts(box):
    accepted = await send(box, chat="main", text="hello", watch=True)
    await box.turn()
    shown = await box.perform(ShowSession(session_id=accepted.session_id))
    assert [turn["state"] for turn in shown["turns"]] == ["committed"]
    assert "reply" not in str(shown)


@pytest.mark.parametrize(
    "request_",
    [
        ShowSession(session_id="nope"),
        ShowHistory(session_id="nope"),
        SendText(session_id="nope", text="x"),
        StopSessionTurn(session_id="nope"),
        WatchTurn(session_id="nope"),
    ],
)
async def test_no_such_session(box, request_):
    with pytest.raises(NotFound):
        await box.perform(request_)


async def test_a_running_turn_is_watched_from_what_it_has_shown_and_stopped(box, backend):
    backend.script(Role(), Text("Hel"), Hold("never"))
    accepted = await send(box, chat="main", text="hello", watch=True)
    while not isinstance(await box.watcher.receive(box.harness.within()), Content):
        pass
    second = box.harness.system.port("/second")
    box.watcher, first = second, box.watcher
    watched = await box.perform(WatchTurn(session_id=accepted.session_id))
    assert watched["inbox_id"] == accepted.inbox_id
    snapshot = await second.receive(box.harness.within())
    assert isinstance(snapshot, Snapshot) and snapshot.text == "Hel"
    stopped = await box.perform(StopSessionTurn(session_id=accepted.session_id))
    assert stopped["stopped"] is True
    assert (await box.turn())[-1].text == "Hel"
    box.watcher = first
    await box.turn()
    turn = (await box.harness.ask("/store", ListTurns()))[0]
    assert turn.state is TurnState.CANCELLED


async def test_a_turn_that_has_ended_is_told_as_its_outcome(box):
    accepted = await send(box, chat="main", text="hello", watch=True)
    await box.turn()
    await box.perform(WatchTurn(session_id=accepted.session_id, inbox_id=accepted.inbox_id))
    outcome = await box.watcher.receive(box.harness.within())
    assert isinstance(outcome, TurnOutcome) and outcome.turn.text == "reply to: hello"


async def test_there_is_nothing_to_watch_or_to_stop(box):
    session_id = await open_chat(box)
    assert (await box.perform(WatchTurn(session_id=session_id)))["inbox_id"] is None
    assert (await box.perform(StopSessionTurn(session_id=session_id)))["stopped"] is False


async def test_a_message_that_waits_is_cancelled(box, backend):
    backend.script(Hold("never"), *answer("late"))
    await send(box, chat="main", text="first", watch=True)
    second = await send(box, chat="main", text="second")
    stop = StopSessionTurn(session_id=second.session_id, inbox_id=second.inbox_id)
    assert (await box.perform(stop))["stopped"] is True
    assert (await box.perform(StopSessionTurn(session_id=second.session_id)))["stopped"] is True
    await box.turn()
    assert len(await box.harness.ask("/store", ListTurns())) == 1


async def _all_ended(box):
    turns = await box.harness.ask("/store", ListTurns())
    return all(turn.ended_at is not None for turn in turns)
