"""
A late answer of the store, or one that was lost with it, means unknown: every caller asks again before it answers anybody.
"""

import asyncio

import pytest

from actors.exceptions import Invalid, MailboxFull, OutcomeUnknown, RuntimeFault, StoreUnavailable
from actors.keep import keep
from actors.messages.admin import (
    AddKey,
    AddPeer,
    OpenChat,
    Perform,
    RevokeKeyAccess,
    RevokePeerAccess,
    RotatePeerSecret,
    SendText,
)
from actors.messages.lifecycle import Resume, Suspend
from actors.messages.relay import PerformAction
from actors.messages.rows import KeyScope, TurnState
from actors.messages.session import StopTurn
from actors.messages.store import (
    ListDeliveries,
    ListKeys,
    ListSessions,
    ListTurns,
    PutKey,
    ReadHistory,
    SessionsWithMail,
)
from actors.runtime import Budget, System
from actors.supervision import ChildSpec, Supervisor
from storage import Store, open_database
from tests.clock import StillClock
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import Hold
from tests.fakes.connector import Connector
from tests.gate import Gate, crash, lose_answer
from tests.harness import Harness, until
from tests.peers import add_peer, admin_key

BUDGET = 20.0
LATE = 15.0
"""Later than the first try's share of it, earlier than its end."""


# The helper, on a clock that stands still


class Box:
    """A supervised store and nothing else."""

    def __init__(self, database):
        self.clock = StillClock()
        self.system = System(clock=self.clock)
        spec = ChildSpec(name="store", factory=lambda: Store(database), bound=4)
        self.root = self.system.spawn("/", lambda: Supervisor((spec,)))

    async def start(self):
        await self.root.started(self.within())
        self.store = self.system.find("/store")
        return self

    def within(self):
        return Budget.of(self.clock, BUDGET)

    def keep(self, n=1):
        """Begin to keep a key; the first try is asked at once."""
        key = PutKey(
            at=1.0, key_id=f"k{n}", name=f"n{n}", owner="o", scopes=(KeyScope.API,), key_hash=f"h{n}"
        )
        return asyncio.ensure_future(keep(self.store, key, self.within()))

    async def keys(self):
        return [row.key_id for row in await self.store.ask(ListKeys(), self.within())]

    async def restarted(self):
        """Let the store come back, without any time."""
        await until(lambda: self.clock.advance(0.0) or self.store._cell.incarnation == 1)


@pytest.fixture
async def box(tmp_path):
    database = await open_database(tmp_path / "data")
    box = await Box(database).start()
    yield box
    await box.system.stop(box.root, box.within())
    database.close()


async def test_a_late_answer_is_asked_for_again_in_the_share_that_is_kept_for_that(box):
    gate = Gate(box.system)
    kept = box.keep()
    await gate.reached()
    box.clock.advance(LATE)
    await box.system.idle()
    assert not kept.done()
    gate.open()
    assert (await kept).key_id == "k1"
    assert await box.keys() == ["k1"]


async def test_what_was_dropped_before_it_began_is_done_by_the_repetition(box):
    gate = Gate(box.system)
    held = box.keep(1)
    await gate.reached()
    kept = box.keep(2)
    await box.system.idle()
    box.clock.advance(LATE)
    gate.open()
    assert (await held).key_id == "k1" and (await kept).key_id == "k2"
    assert box.system.dead_letters.counts["expired"] == 1


async def test_an_answer_that_is_lost_with_the_store_is_asked_of_the_next_one(box):
    lose_answer(box.system)
    kept = box.keep()
    await box.restarted()
    assert (await kept).key_id == "k1"
    assert await box.keys() == ["k1"]


async def test_a_write_that_is_lost_with_the_store_is_done_by_the_repetition(box):
    box.system.failpoints.set("store.before_commit", crash)
    kept = box.keep()
    await box.restarted()
    assert (await kept).key_id == "k1"
    assert await box.keys() == ["k1"]


async def test_without_any_answer_the_outcome_is_unknown_when_the_budget_ends(box):
    gate = Gate(box.system)
    kept = box.keep()
    await gate.reached()
    box.clock.advance(LATE)
    await box.system.idle()
    box.clock.advance(BUDGET - LATE)
    with pytest.raises(OutcomeUnknown, match="whether PutKey was done is not known; look before you repeat"):
        await kept
    gate.open()
    assert await box.keys() == ["k1"]


async def test_a_disk_that_fails_the_repetition_says_nothing_of_the_first_try(box):
    lose_answer(box.system)
    kept = box.keep()
    await until(lambda: box.store._cell.own is None)

    def full():
        raise OSError(28, "No space left on device")

    box.system.failpoints.set("store.before_commit", full)
    await box.restarted()
    with pytest.raises(OutcomeUnknown):
        await kept
    assert await box.keys() == ["k1"]


async def test_what_certainly_was_not_kept_is_said_at_once(box):
    def full():
        raise OSError(28, "No space left on device")

    box.system.failpoints.set("store.before_commit", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        await box.keep()
    await box.store.ask(Suspend(), box.within())
    kept = [box.keep(n) for n in range(1, 6)]
    with pytest.raises(MailboxFull):
        await kept[-1]
    await box.store.ask(Resume(), box.within())
    await asyncio.gather(*kept[:-1])
    assert sorted(await box.keys()) == ["k1", "k2", "k3", "k4"]


async def test_a_refusal_of_the_repetition_is_one(box):
    lose_answer(box.system)
    bad = PutKey(at=2.0**80, key_id="k" * 3, name="\ud800", owner="o", scopes=(), key_hash="h")
    kept = asyncio.ensure_future(keep(box.store, bad, box.within()))
    await box.restarted()
    with pytest.raises(Invalid):
        await kept


# Its callers, in the real composition


@pytest.fixture(params=["late", "lost"])
def fault(request):
    return request.param


@pytest.fixture
async def backend():
    async with FakeBackend() as fake:
        yield fake


@pytest.fixture
async def harness(tmp_path, backend, fault):
    """On a clock that stands still where an answer is to be late; where the store crashes, it has to come back."""
    lane = {"name": "fake", "base_url": backend.url, "model": "fake-1"}
    made = Harness(
        tmp_path / "data",
        clock=StillClock() if fault == "late" else None,
        lane=[lane],
        console=[{"platform": "console"}],
        **{"relay.store_s": BUDGET, "session.store_s": BUDGET, "server.store_s": BUDGET},
    )
    async with made:
        await made.system.idle()
        yield made


async def under(fault, harness, ask):
    """Return what ``ask()`` is answered although the answer to its next write comes late, or is lost."""
    if fault == "lost":
        lose_answer(harness.system)
        answer = await ask()
        assert harness.at("/store")._cell.incarnation == 1
        return answer
    gate = Gate(harness.system)
    asked = asyncio.ensure_future(ask())
    await gate.reached()
    harness.system.clock.advance(LATE)
    await harness.system.idle()
    assert not asked.done()
    gate.open()
    return await asked


@pytest.fixture
async def perform(harness):
    key = await admin_key(harness)

    def perform(request):
        watcher = harness.system.port("/watcher")
        return harness.ask("/admin", Perform(request=request, caller=key, watcher=watcher))

    return perform


async def test_a_peer_that_is_added(fault, harness, perform):
    add = AddPeer(name="p", identities=("discord:b",))
    added = await under(fault, harness, lambda: perform(add))
    assert added["peer"]["name"] == "p" and len(added["secret"]) >= 43


async def test_a_secret_that_is_rotated(fault, harness, perform):
    await perform(AddPeer(name="p", identities=("discord:b",)))
    rotated = await under(fault, harness, lambda: perform(RotatePeerSecret(name="p")))
    connector = Connector(harness.url, "p", rotated["secret"], "discord")
    await connector.connect()
    await connector.send({"type": "descriptor", "descriptor": connector.descriptors[0]})
    await connector.frames("hello")
    await connector.close()


async def test_a_peer_that_is_revoked_loses_its_link(fault, harness, perform):
    secret = await add_peer(harness, "p", "discord:b")
    connector = await Connector(harness.url, "p", secret).dial()
    revoked = await under(fault, harness, lambda: perform(RevokePeerAccess(name="p")))
    assert revoked["peer"]["revoked_at"] is not None
    assert (await connector.closed())[0] == 4401
    await connector.close()


async def test_a_key_that_is_added(fault, harness, perform):
    added = await under(fault, harness, lambda: perform(AddKey(name="k")))
    assert [row.name for row in await harness.ask("/store", ListKeys())].count("k") == 1
    assert len(added["secret"]) >= 43


async def test_a_key_that_is_revoked(fault, harness, perform):
    await perform(AddKey(name="k"))
    revoked = await under(fault, harness, lambda: perform(RevokeKeyAccess(key="k")))
    assert revoked["key"].revoked_at is not None


async def test_a_chat_that_is_opened(fault, harness, perform):
    opened = await under(fault, harness, lambda: perform(OpenChat(chat="c")))
    (row,) = await harness.ask("/store", ListSessions())
    assert opened["session"]["session_id"] == row.session_id


async def test_a_text_that_is_sent_is_turned_once(fault, harness, perform, backend):
    sent = await under(fault, harness, lambda: perform(SendText(chat="c", text="hello")))
    await backend.request(0)
    turns = await harness.ask("/store", ListTurns())
    assert [turn.inbox_id for turn in turns] == [sent["accepted"].inbox_id]


@pytest.mark.parametrize("fault", ["late"])
async def test_a_text_whose_fate_nobody_knows_is_seen_to(harness, perform, backend):
    gate = Gate(harness.system)
    sending = asyncio.ensure_future(perform(SendText(chat="c", text="hello")))
    await gate.reached()
    # Step by step, so that each try ends in its own time.
    for _ in range(4):
        harness.system.clock.advance(LATE / 2)
        await harness.system.idle()
    with pytest.raises(RuntimeFault):
        await sending
    gate.open()
    await backend.request(0)
    assert len(await harness.ask("/store", ListTurns())) == 1


def action(op, **fields):
    return PerformAction(
        gateway="gw", platform="console", bot_id="b", action={"op": op, "metadata": {}, **fields}
    )


async def test_what_a_gateway_posts_and_edits_is_there_once(fault, harness):
    post = action("send", chat_id="c", content="hello")
    posted = await under(fault, harness, lambda: harness.ask("/relays", post))
    assert posted["success"] is True
    (session,) = await harness.ask("/store", ListSessions())
    (row,) = await harness.ask("/store", ReadHistory(session_id=session.session_id))
    assert (str(row.seq), row.content) == (posted["message_id"], "hello")


async def test_what_a_gateway_edits_is_edited(fault, harness):
    posted = await harness.ask("/relays", action("send", chat_id="c", content="hello"))
    edit = action("edit", chat_id="c", message_id=posted["message_id"], content="hello there")
    assert await under(fault, harness, lambda: harness.ask("/relays", edit)) == {"success": True}


async def test_a_send_that_is_kept_for_a_connector_is_kept_once_and_sent(fault, harness):
    secret = await add_peer(harness, "p", "discord:b")
    send = PerformAction(
        gateway="gw",
        platform="discord",
        bot_id="b",
        action={"op": "send", "chat_id": "C1", "content": "hello", "metadata": {}},
    )
    assert await under(fault, harness, lambda: harness.ask("/relays", send)) == {"success": True}
    assert len(await harness.ask("/store", ListDeliveries())) == 1
    connector = await Connector(harness.url, "p", secret).dial()
    await connector.frames("outbound")
    assert connector.contents() == ["hello"]
    await connector.close()


async def test_a_stop_of_a_message_that_waits_is_answered_truly(fault, harness, perform, backend):
    backend.script(Hold("go"))
    first = await perform(SendText(chat="c", text="one"))
    await backend.request(0)
    second = await perform(SendText(chat="c", text="two"))
    stop = StopTurn(session_id=first["accepted"].session_id, by="user", inbox_id=second["accepted"].inbox_id)
    assert await under(fault, harness, lambda: harness.ask("/sessions", stop)) is True
    assert await harness.ask("/store", SessionsWithMail()) == ()
    assert [turn.state for turn in await harness.ask("/store", ListTurns())] == [TurnState.RUNNING]
    backend.release("go")


@pytest.mark.parametrize("fault", ["late"])
async def test_a_stop_that_the_store_cannot_carry_out_says_why(harness, perform, backend):
    backend.script(Hold("go"))
    first = await perform(SendText(chat="c", text="one"))
    await backend.request(0)
    second = await perform(SendText(chat="c", text="two"))
    stop = StopTurn(session_id=first["accepted"].session_id, by="user", inbox_id=second["accepted"].inbox_id)

    def full():
        raise OSError(28, "No space left on device")

    harness.system.failpoints.set("store.before_commit", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        await harness.ask("/sessions", stop)
    backend.release("go")
