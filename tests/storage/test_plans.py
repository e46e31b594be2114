"""Hot requests find what they need by index: nothing that grows is scanned, nor sorted."""

import asyncio

from actors.messages.quarantine import ReadQuarantines
from actors.messages.rows import DeliveryState, NewDelivery, Origin, Route, TurnState
from actors.messages.store import (
    BeginAnswer,
    BuryMessage,
    CheckStore,
    ClaimDeliveries,
    CompactHistory,
    EndTurn,
    FindKey,
    FlushPartial,
    GetSession,
    GetTurn,
    LastEventSeq,
    ListDeliveries,
    ListKeys,
    ListPeers,
    ListSessions,
    ListTurns,
    LoseAttempts,
    PeersWithDeliveries,
    PutDelivery,
    ReadConversation,
    ReadEvents,
    ReadEventsBefore,
    ReadHistory,
    SessionsWithMail,
    SettleDelivery,
    TakeTurn,
    Unfinished,
    WithdrawBeginning,
)
from storage.retention import Retain

SMALL = ("inbox_waiting", "turns_running", "turns_admitted", "deliveries_open", "deliveries_pending")
"""Indexes of what is going on: they hold as much as is unfinished, however much was finished."""


async def hot(store):
    """A message's way through the store, and what is asked of it all the time."""
    accepted = await store.accept(message_id="m", buffer_id="b", turn_id="T", origin=Origin.API, max_queued=9)
    await store.accept(buffer_id="b", body_hash="other", inbox_id="I", turn_id="U", session_key="k")
    taken = await store.take(accepted.session_id)
    await store.ask(FlushPartial(turn_id=taken.turn_id, turn_gen=taken.turn_gen, text="x", at=1.0))
    await store.ask(ReadConversation(session_id=taken.session_id, inbox_id=taken.inbox_id))
    await store.ask(
        CompactHistory(turn_id=taken.turn_id, turn_gen=taken.turn_gen, upto=0, summary="x", at=1.0)
    )
    route = Route(platform="discord", chat_id="C")
    delivery = NewDelivery(delivery_id="d", peer="p", route=route, content="", in_place="x")
    beginning = NewDelivery(delivery_id="b", peer="p", route=route, content="x")
    begin = BeginAnswer(turn_id=taken.turn_id, turn_gen=taken.turn_gen, delivery=beginning, at=1.0)
    await store.ask(begin)
    await store.ask(WithdrawBeginning(delivery_id="b", at=1.0))
    await store.ask(begin)
    await store.ask(ClaimDeliveries(peer="p", at=1.0))
    await store.ask(SettleDelivery(delivery_id="b", state=DeliveryState.DELIVERED, message_id="m", at=1.0))
    await store.end(taken, TurnState.COMMITTED, text="x", delivery=delivery, again=True)
    await store.ask(ClaimDeliveries(peer="p", at=1.0))
    await store.ask(SettleDelivery(delivery_id="d", state=DeliveryState.DELIVERED, at=1.0))
    await store.ask(BuryMessage(inbox_id="I", reason="x", at=1.0))
    await store.accept(rotate=True)
    for read in (
        GetTurn(turn_id="T"),
        GetTurn(inbox_id="I"),
        GetSession(session_id=accepted.session_id),
        GetSession(session_id="s"),
        ListSessions(),
        ListSessions(peer="p"),
        ReadHistory(session_id=accepted.session_id),
        ReadEvents(from_seq=1),
        ReadEventsBefore(seq=10, count=5),
        FindKey(key_hash="h"),
    ):
        await store.ask(read)


async def small(store):
    """What may look at all that is unfinished."""
    for request in (
        SessionsWithMail(),
        Unfinished(),
        PeersWithDeliveries(),
        LoseAttempts(at=1.0),
        ListDeliveries(peer="p"),
        ListTurns(),
        ListTurns(session_id="s"),
        ListTurns(states=(TurnState.FAILED, TurnState.RUNNING)),
        Retain(at=1.0),
    ):
        await store.ask(request)


async def plans_of(store, work):
    """Return (statement, line of its plan) for all that ``work`` makes the store execute."""
    statements: list[str] = []
    await store.raw(lambda raw: raw.set_trace_callback(statements.append))
    await work(store)
    await store.raw(lambda raw: raw.set_trace_callback(None))
    verbs = ("SELECT", "WITH", "UPDATE", "DELETE")
    asked = [text for text in dict.fromkeys(text.strip() for text in statements) if text.startswith(verbs)]
    assert asked
    return [
        (text, row["detail"])
        for text in asked
        for row in await store.raw(
            lambda raw, text=text: raw.execute(f"EXPLAIN QUERY PLAN {text}").fetchall()
        )
    ]


def scans(plans):
    """Leave out what is read in the order of an index, up to a limit, and the few chats of a claim."""
    return [
        (text, line)
        for text, line in plans
        if line.startswith("SCAN")
        and "sqlite_schema" not in text
        and not line.startswith(("SCAN chats", "SCAN CONSTANT"))
        and not ("LIMIT" in text and "ORDER BY" in text and not sorts(text, plans))
    ]


def sorts(text, plans):
    return any(line.startswith("USE TEMP B-TREE FOR ORDER BY") for other, line in plans if other == text)


async def test_nothing_of_a_message_on_its_way_is_looked_for_by_scanning(store):
    plans = await plans_of(store, hot)
    assert scans(plans) == []
    assert [text for text, _ in plans if sorts(text, plans) and "WITH RECURSIVE" not in text] == []


async def test_what_is_unfinished_is_found_without_what_is_finished(store):
    found = scans(await plans_of(store, small))
    assert [entry for entry in found if not any(index in entry[1] for index in SMALL)] == []


async def steps(store, request):
    """Return how many of SQLite's instructions a request takes."""
    passed = []
    await store.raw(lambda raw: raw.set_progress_handler(lambda: passed.append(1), 1))
    await store.ask(request)
    await store.raw(lambda raw: raw.set_progress_handler(None, 0))
    return len(passed)


async def test_a_deep_backlog_makes_claims_no_dearer(store):
    def put(n):
        route = Route(platform="discord", chat_id=f"C{n % 2}")
        delivery = NewDelivery(delivery_id=f"d{n}", peer="p", route=route, content="x")
        return store.ask(PutDelivery(delivery=delivery, at=1.0))

    claim = ClaimDeliveries(peer="p", busy_chats=("discord::C0", "discord::C1"), at=1.0)
    await put(0)
    await put(1)
    few = await steps(store, claim)
    await asyncio.gather(*(put(n) for n in range(2, 2000)))
    assert await steps(store, claim) <= few * 1.2


async def test_a_long_session_makes_turns_no_dearer(store):
    session_id = (await store.accept()).session_id

    async def turn():
        taken = await store.take(session_id)
        await store.end(taken, TurnState.COMMITTED, text="x")
        await store.accept()

    await turn()
    few = await steps(store, TakeTurn(session_id=session_id, turn_id="first", at=1.0))
    await store.ask(EndTurn(turn_id="first", turn_gen=2, state=TurnState.FAILED, at=1.0))
    await store.accept()
    for _ in range(200):
        await turn()
    assert await steps(store, TakeTurn(session_id=session_id, turn_id="last", at=1.0)) <= few * 1.2


START = (
    LastEventSeq(),
    ReadEvents(from_seq=1, limit=1),
    ReadQuarantines(),
    LoseAttempts(at=5.0),
    ListPeers(),
    Unfinished(),
    SessionsWithMail(),
    PeersWithDeliveries(),
    ListKeys(),
    CheckStore(),
)
"""What the actors ask when they start."""


async def test_perf_4_a_start_reads_nothing_of_dormant_sessions(store):
    async def dormant(n):
        accepted = await store.accept(session_key=f"k{n}", turn_id=f"T{n}")
        taken = await store.take(accepted.session_id)
        route = Route(platform="discord", chat_id=f"C{n}")
        delivery = NewDelivery(delivery_id=f"d{n}", peer="p", route=route, content="x")
        await store.end(taken, TurnState.COMMITTED, text="x", delivery=delivery)
        await store.ask(ClaimDeliveries(peer="p", at=1.0))
        await store.ask(SettleDelivery(delivery_id=f"d{n}", state=DeliveryState.DELIVERED, at=1.0))

    for n in range(3):
        await dormant(n)
    few = [await steps(store, request) for request in START]
    for n in range(3, 1000):
        await dormant(n)
    many = [await steps(store, request) for request in START]
    assert [
        type(request).__name__
        for request, before, after in zip(START, few, many, strict=True)
        if after > 1.2 * before
    ] == []
