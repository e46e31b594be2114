"""
One turn, and whatever a backend, an operator and another owner of its row do to it: drawn by hypothesis, on virtual time.

The daemon is the real composition on a real SQLite file, the backend speaks real HTTP over connections in memory.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog
from hypothesis import strategies as st

from actors.exceptions import Conflict
from actors.messages.rows import Entry, HistoryRow, Origin, TurnRow, TurnState
from actors.messages.session import AttachWatcher, FollowTurns, InboxReady, StopTurn, TurnOutcome
from actors.messages.store import AcceptMessage, EndTurn, GetTurn, ReadHistory
from actors.messages.turn import Cancelled, TurnEvent
from bin.config import load
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import (
    Die,
    Done,
    Event,
    Finish,
    Head,
    Pause,
    Raw,
    Reasoning,
    Reply,
    Role,
    Silence,
    Step,
    Text,
    Usage,
)
from tests.fakes.chunks import chunk
from tests.simulation.daemon import Daemon
from tests.simulation.first_run import PORT, first_run, own_address
from tests.simulation.simulation import Simulation

BACKEND = 11_434
STEP_SECONDS = 0.001
CLOSING_SECONDS = 0.1
"""How long a stop may take to reach the backend (TRN-52)."""

TURN_SECONDS = 60.0
"""The turn's budget: whatever happens, it has ended by then, and what has to be stored soon after."""

LETTERS = "αβγδεζ"
"""Each response has a letter of its own, which tells what came from which."""


class Response(msgspec.Struct, frozen=True):
    """What the backend does with one request."""

    steps: tuple[Step, ...]
    text: str | None = None
    """The answer, if it comes to its end and has no tags in it."""


class Act(msgspec.Struct, frozen=True):
    """Something that somebody does to the turn, so many seconds after the n-th event was heard of it."""

    after: int
    seconds: float
    what: Literal["stop", "take over", "turn again", "watch"]


class Case(msgspec.Struct, frozen=True):
    """One example."""

    seed: int
    lanes: tuple[dict[str, Any], ...]
    responses: tuple[Response, ...]
    acts: tuple[Act, ...]


# What is drawn

_PAUSES = st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.3, 2.0])
_NOISE = st.sampled_from(
    [
        Raw(b": a comment\n\n"),
        Raw(b"\r\n"),
        Event(chunk(None)),
        Role(),
        Usage(),
        Text(""),
        Reasoning("r"),
    ]
)
_TAGS = st.sampled_from(["<think>", "</think>", "<thi", "nk>", "<"])


@st.composite
def _stream(draw: st.DrawFn, letter: str) -> Response:
    steps: list[Step] = [Head()] if draw(st.booleans()) else []
    if draw(st.booleans()):
        steps.append(Role())
    text, tagged = "", False
    for kind in draw(
        st.lists(st.sampled_from(["text", "text", "text", "pause", "noise", "tag"]), max_size=8)
    ):
        match kind:
            case "text":
                piece = letter * draw(st.integers(1, 20))
                text += piece
                steps.append(Text(piece))
            case "tag":
                tagged = True
                steps.append(Text(draw(_TAGS)))
            case "pause":
                steps.append(Pause(draw(_PAUSES)))
            case _:
                steps.append(draw(_NOISE))
    end = draw(st.sampled_from(["good", "good", *_ENDS]))
    steps += _ENDS[end]
    whole = end in ("good", "no mark", "twice", "late rst") and not tagged
    return Response(tuple(steps), text if whole else None)


_ENDS: dict[str, tuple[Step, ...]] = {
    "good": (Finish(), Usage(), Done()),
    "no mark": (Finish(),),
    "twice": (Finish(), Finish("length"), Done(), Done()),
    "late rst": (Finish(), Die("rst")),
    "rst": (Die("rst"),),
    "fin": (Die("fin"),),
    "silence": (Silence(),),
    "error": (Event({"error": {"code": "server_error", "message": "secret"}}), Done()),
    "overflow": (Event({"error": {"code": "context_length_exceeded", "message": "secret"}}), Done()),
    "no finish": (Done(),),
    "malformed": (Raw(b"data: {nothing\n\n"), Die("rst")),
    "in mid-line": (Raw(b'data: {"choices"'), Die("fin")),
}


def _error(code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": "secret", "code": code}}


_REFUSALS = st.sampled_from(
    [
        (Die("rst"),),
        (Die("fin"),),
        (Silence(),),
        (Reply(400, _error()),),
        (Reply(400, _error("context_length_exceeded")),),
        (Reply(413, _error("context_length_exceeded")),),
        (Reply(401, _error()),),
        (Reply(404, "gone"),),
        (Reply(409, _error()),),
        (Reply(429, _error(), {"Retry-After": "3"}),),
        (Reply(500, "<html>"),),
        (Reply(503, _error()),),
        (Reply(529, _error()),),
    ]
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw an example."""
    names = ("one", "two", "three")[: draw(st.integers(1, 3))]
    lanes = tuple(
        {
            "name": name,
            "order": order,
            "think_tags": draw(st.sampled_from(["off", "leading", "anywhere"])),
            "hold_back": draw(st.integers(0, 4)) == 0,
            "finish_optional": draw(st.integers(0, 4)) == 0,
        }
        for order, name in enumerate(names)
    )
    responses = [
        draw(_stream(letter)) if draw(st.integers(0, 3)) else Response(draw(_REFUSALS))
        for letter in LETTERS[: draw(st.integers(1, len(LETTERS)))]
    ]
    delays = st.sampled_from([0.0, 0.0, 0.001, 0.02, 0.4, 4.0])
    kinds = st.sampled_from(["stop", "stop", "take over", "turn again", "watch"])
    acts = draw(st.lists(st.builds(Act, st.integers(0, 14), delays, kinds), min_size=1, max_size=3))
    return Case(draw(st.integers(0, 2**32)), lanes, tuple(responses), tuple(acts))


# What happens


class Played(msgspec.Struct):
    """What was seen of a turn."""

    turn: TurnRow
    history: tuple[HistoryRow, ...]
    heard: list[tuple[float, Any]]
    """What the watcher that was there from the beginning was told, and when."""
    late: list[list[Any]]
    """What each of the watchers was told that came later."""
    opened: list[float]
    """When requests went out."""
    requests: list[Any]
    taken_over: float | None
    """When somebody else has ended the row first, for good."""
    given_back: dict[int, float]
    """The generations under which it was ended to be turned again, and when."""
    followed: list[tuple[float, Any]]
    """What somebody was told who follows the session through all of its turns, and when."""
    stopped_at: float | None
    """When a stop was first answered with yes."""
    clinging: list[str]
    """Requests whose connection was still open a moment after the stop."""


class Player:
    """Plays one case."""

    def __init__(self, case: Case, data: Path) -> None:
        self._case = case
        self._simulation = Simulation(case.seed)
        lanes = [
            {
                **lane,
                "base_url": f"http://127.0.0.1:{BACKEND}/{lane['name']}/v1",
                "model": lane["name"],
                "idle_timeout_s": 5.0,
                "connect_timeout_s": 3.0,
                "trailing_s": 1.0,
                "keepalive_s": 3600.0,
            }
            for lane in case.lanes
        ]
        arguments = {
            "data_dir": str(data),
            "server.host": own_address(),
            "server.port": PORT,
            "turn.budget_s": TURN_SECONDS,
            "lane": lanes,
        }
        self._daemon = Daemon(
            "daemon",
            load(environment={}, arguments=arguments).config,
            clock=self._simulation.clock,
            rng=self._simulation.rng("daemon"),
            network=self._simulation.network,
            threads=self._simulation.threads,
        )
        self._backend = FakeBackend(port=BACKEND)
        self._opened: list[float] = []
        self._heard: list[tuple[float, Any]] = []
        self._followed: list[tuple[float, Any]] = []
        self._over = False
        self._taken_over: float | None = None
        self._given_back: dict[int, float] = {}
        self._stopped_at: float | None = None
        self._late: list[Any] = []
        self._clinging: list[str] = []

    def play(self) -> Played:
        """Return what came of it."""
        before = structlog.get_config()
        quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
        structlog.configure(wrapper_class=quiet)
        try:
            played: Played = self._simulation.run(self._main)
            return played
        finally:
            structlog.configure(**before)

    async def _main(self) -> Played:
        for response in self._case.responses:
            self._backend.script(*response.steps)
        async with self._backend:
            await self._daemon.start()
            self._daemon.failpoints.always("turn.open", lambda: self._opened.append(self._now()))
            accepted = await self._ask(
                "/store",
                AcceptMessage(
                    inbox_id="i",
                    origin=Origin.API,
                    peer="api:owner",
                    scope="",
                    session_key="chat",
                    new_session_id="s",
                    entries=(Entry(role="user", content="hi"),),
                    turn_id="t",
                    at=self._simulation.clock.wall(),
                ),
            )
            self._session_id = accepted.session_id
            hearing = [
                asyncio.ensure_future(self._hear(self._watch("/first"), self._heard)),
                asyncio.ensure_future(self._hear(self._follow("/follower"), self._followed)),
            ]
            self._daemon.call(self._at("/sessions").tell, InboxReady(session_id=self._session_id))
            acting = [asyncio.ensure_future(self._act(act)) for act in self._case.acts]
            turn = await self._ended()
            self._over = True
            await asyncio.gather(*acting)
            # Whatever still goes on after the end would be seen by then.
            await asyncio.sleep(TURN_SECONDS)
            for ears in hearing:
                ears.cancel()
            history = await self._ask("/store", ReadHistory(session_id=self._session_id))
            late = [_rest(port) for port in self._late]
            assert await self._daemon.stop() == 0
        return Played(
            turn=turn,
            history=tuple(history),
            heard=self._heard,
            late=late,
            opened=self._opened,
            requests=[exchange.body for exchange in self._backend.exchanges],
            taken_over=self._taken_over,
            given_back=self._given_back,
            followed=self._followed,
            stopped_at=self._stopped_at,
            clinging=self._clinging,
        )

    async def _act(self, act: Act) -> None:
        while len(self._heard) < act.after and not self._over:
            await asyncio.sleep(STEP_SECONDS)
        await asyncio.sleep(act.seconds)
        match act.what:
            case "stop":
                if await self._ask("/sessions", StopTurn(session_id=self._session_id, by="user")):
                    self._stopped_at = self._stopped_at or self._now()
            case "watch":
                self._late.append(self._watch(f"/late-{len(self._late)}"))
            case "take over" | "turn again":
                await self._take_over(again=act.what == "turn again")

    async def _take_over(self, *, again: bool) -> None:
        turn = await self._ask("/store", GetTurn(inbox_id="i"))
        if turn is None or turn.state is not TurnState.RUNNING:
            return
        end = EndTurn(
            turn_id=turn.turn_id,
            turn_gen=turn.turn_gen,
            state=TurnState.INTERRUPTED,
            reason="given back" if again else "elsewhere",
            again=again,
            at=self._simulation.clock.wall(),
        )
        with contextlib.suppress(Conflict):
            row = await self._ask("/store", end)
            if row.reason != end.reason:
                # Another one was first: what it has stored is the answer.
                return
            if again:
                self._given_back[turn.turn_gen] = self._now()
            else:
                self._taken_over = self._now()

    async def _ended(self) -> TurnRow:
        turn: TurnRow | None = None
        for _ in range(int((2 + len(self._case.acts)) * TURN_SECONDS)):
            turn = await self._ask("/store", GetTurn(inbox_id="i"))
            if turn is not None and turn.ended_at is not None and turn.turn_gen not in self._given_back:
                return turn
            self._daemon.call(self._at("/sessions").tell, self._following)
            await asyncio.sleep(1)
        raise AssertionError(f"the turn does not come to its end: {turn}")

    def _watch(self, path: str) -> Any:
        port = self._daemon.call(self._daemon.system.port, path)
        attach = AttachWatcher(session_id=self._session_id, inbox_id="i", watcher=port)
        self._daemon.call(self._at("/sessions").tell, attach)
        return port

    def _follow(self, path: str) -> Any:
        port = self._daemon.call(self._daemon.system.port, path)
        # To be said again now and then, or it counts as gone.
        self._following = FollowTurns(session_id=self._session_id, watcher=port, after_gen=0, after_seq=0)
        self._daemon.call(self._at("/sessions").tell, self._following)
        return port

    async def _hear(self, port: Any, heard: list[tuple[float, Any]]) -> None:
        while True:
            message = await port.receive()
            heard.append((self._now(), message))
            if heard is self._heard and isinstance(message, Cancelled):
                self._simulation.loop.call_later(CLOSING_SECONDS, self._look_for_clinging)

    def _look_for_clinging(self) -> None:
        for exchange in self._backend.exchanges:
            if not (exchange.served.is_set() or exchange.connection_closed.is_set()):
                self._clinging.append(exchange.path)

    async def _ask(self, path: str, message: Any) -> Any:
        return await self._daemon.ask(path, message)

    def _at(self, path: str) -> Any:
        return self._daemon.system.find(path)

    def _now(self) -> float:
        return self._simulation.loop.time()


def _rest(port: Any) -> list[Any]:
    return list(port._messages)


def play(case: Case) -> Played:
    """Play a case on a data directory of its own."""
    with first_run() as (directory, _):
        return Player(case, directory / "data").play()


def events(messages: list[Any]) -> list[TurnEvent]:
    """Return the turn's events among what a watcher was told."""
    return [message for message in messages if isinstance(message, TurnEvent)]


def outcomes(messages: list[Any]) -> list[TurnOutcome]:
    """Return how the turn is said to have ended to a watcher that did not see it end."""
    return [message for message in messages if isinstance(message, TurnOutcome)]
