"""
What an HTTP request hears of its turn, reduced to what it needs: text and tool calls, what of it is void, one end. Pure.

| what happens to the turn | of whose answer nothing was handed on | of whose answer some was |
|---|---|---|
| a lane is tried again, or another one, or compaction | – | – |
| its stream dies (retry), or does not fit (overflow) | – | Died |
| what an attempt has shown is discarded | – | Void |
| another run begins over the same message | – | BegunAgain |
"""

from array import array
from bisect import bisect_right
from typing import Any

import msgspec

from actors.messages.base import Message
from actors.messages.lane import ToolCallDelta
from actors.messages.rows import ENDED_TURNS, TurnRow, TurnState
from actors.messages.session import TurnOutcome
from actors.messages.turn import (
    Cancelled,
    Content,
    Overflow,
    Retry,
    RunPhase,
    Snapshot,
    StateChange,
    StatusUpdate,
    StreamDiscarded,
    ToolCalls,
    TurnCommitted,
    TurnError,
    TurnEvent,
)
from actors.notifier.notice import Cause, notice
from actors.turn.calls import Calls

FAILED = "turn_failed"
CANCELLED = "turn_cancelled"
SLOW_READER = "slow_reader"

STATUSES = {Cause.TIMEOUT: 504}
"""HTTP statuses of turns that failed, where they are not 500 (API-2)."""


CAUSES = frozenset(Cause)
SUPERSEDED = ("superseded", "new_session")
"""Why a turn, or a message that waited, ended when its chat was given a fresh session."""


class ClientGone(Message, frozen=True, kw_only=True):
    """The client has closed its connection."""


class Text(msgspec.Struct, frozen=True):
    """A piece of the answer."""

    text: str


class Called(msgspec.Struct, frozen=True):
    """Pieces of the answer's tool calls."""

    calls: tuple[ToolCallDelta, ...]


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How the turn ended: well with a finish reason, or with a code and a sentence."""

    finish_reason: str = "stop"
    usage: dict[str, int] | None = None
    text: str | None = None
    """The whole answer, where the end says it."""
    code: str | None = None
    status: int = 500
    message: str = ""

    @property
    def failed(self) -> bool:
        """Say whether there is no whole answer."""
        return self.code is not None


class Gone(msgspec.Struct, frozen=True):
    """The client is gone."""


class Died(msgspec.Struct, frozen=True):
    """The stream has died of which something was handed on; the answer is about to begin again."""


class Void(msgspec.Struct, frozen=True):
    """Of the text that was handed on only the first ``keep`` characters are a part of the answer, and none of the calls."""

    keep: int


class BegunAgain(msgspec.Struct, frozen=True):
    """Something of a run that was lost has been heard; what comes now is another run over the same message."""


class Unsettled(msgspec.Struct, frozen=True):
    """The turn has ended, and how was said before anybody listened: the store knows."""


class Silence(msgspec.Struct, frozen=True):
    """Nothing came in time."""


Heard = Text | Called | End | Gone | Died | Void | BegunAgain | Unsettled | Silence


class Run(msgspec.Struct):
    """What is known of one run over the message, that is of one turn_gen."""

    turn_gen: int = 0
    attempt: int = 0
    """Of which something was handed on last."""
    seqs: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    """The numbers of the events with text that was handed on."""
    lengths: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    """How much of it there was with each of them, in characters from the beginning."""
    calls: Calls = Calls()
    """The tool calls that were handed on, all of that attempt."""
    finish_reason: str | None = None
    """Set once it has committed."""
    usage: dict[str, int] | None = None
    category: str | None = None
    """The category of its error."""
    cancelled_by: str | None = None

    @property
    def length(self) -> int:
        """How much of its text was handed on, in characters."""
        return self.lengths[-1] if self.lengths else 0

    @property
    def shown(self) -> bool:
        """Whether anything was handed on."""
        return self.length > 0 or bool(self.calls.calls)

    def hand_on(
        self, event: TurnEvent, text: str, calls: tuple[ToolCallDelta, ...] = ()
    ) -> tuple[Heard, ...]:
        """Note a piece of text, and pieces of tool calls behind it; return what there is of them."""
        heard: tuple[Heard, ...] = ()
        if text:
            self.lengths.append(self.length + len(text))
            self.seqs.append(event.seq)
            heard = (Text(text),)
        if calls:
            self.calls = self.calls.feed(calls)
            heard = (*heard, Called(calls))
        if heard:
            self.attempt = event.attempt
        return heard

    def discard(self, keep_upto: int) -> tuple[Heard, ...]:
        """Forget what came with later events; an attempt's calls have come with them."""
        kept = bisect_right(self.seqs, keep_upto)
        void = kept < len(self.seqs) or bool(self.calls.calls)
        del self.seqs[kept:], self.lengths[kept:]
        self.calls = Calls()
        return (Void(self.length),) if void else ()


class Feed:
    """Turns the messages of one watcher into what its client is told."""

    def __init__(self) -> None:
        self._run = Run()

    def hear(self, message: Any) -> tuple[Heard, ...]:
        """Return what a message comes to, in order."""
        match message:
            case TurnEvent(turn_gen=turn_gen) if turn_gen == self._run.turn_gen:
                return self._event(message)
            case TurnEvent():
                return self._event_of_another_run(message)
            case TurnOutcome(turn=turn):
                return self.outcome(turn)
            case ClientGone():
                return (Gone(),)
        return ()

    def outcome(self, turn: TurnRow | None) -> tuple[Heard, ...]:
        """Return what a stored turn comes to: nothing while it has not ended, or if nobody could say."""
        if turn is None or turn.state not in ENDED_TURNS:
            return ()
        if turn.state is TurnState.CANCELLED:
            return (_cancelled(turn.reason),)
        if turn.state is not TurnState.COMMITTED:
            return (_failed(turn.reason, None),)
        again = self._begin_run(turn.turn_gen)
        text = turn.text or ""
        rest, calls = text[self._run.length :], Calls(turn.tool_calls).beyond(self._run.calls)
        end = End(finish_reason=turn.reason or "stop", usage=turn.usage, text=text)
        return (*again, *((Text(rest),) if rest else ()), *((Called(calls),) if calls else ()), end)

    def _event_of_another_run(self, event: TurnEvent) -> tuple[Heard, ...]:
        if event.turn_gen < self._run.turn_gen:
            return ()
        again = self._begin_run(event.turn_gen)
        return (*again, *self._event(event))

    def _begin_run(self, turn_gen: int) -> tuple[Heard, ...]:
        """Forget a lost run, if this is another one; what was heard of it is no part of what comes."""
        if turn_gen == self._run.turn_gen:
            return ()
        again = (BegunAgain(),) if self._run.shown else ()
        self._run = Run(turn_gen=turn_gen)
        return again

    def _event(self, event: TurnEvent) -> tuple[Heard, ...]:
        run = self._run
        match event:
            case Content(text=text):
                return run.hand_on(event, text)
            case ToolCalls(calls=calls):
                return run.hand_on(event, "", calls)
            case Snapshot():
                return self._snapshot(event)
            case Retry() | Overflow():
                return (Died(),) if run.shown else ()
            case StreamDiscarded(keep_upto=keep_upto):
                return run.discard(keep_upto)
            case StatusUpdate(usage=usage):
                run.usage = usage
            case TurnCommitted(finish_reason=reason):
                run.finish_reason = reason or "stop"
            case TurnError(category=category):
                run.category = category
            case Cancelled(by=by):
                run.cancelled_by = by
            case StateChange(state=RunPhase.IDLE, text=text):
                return (self._idle(text),)
            case StateChange(state=RunPhase.ERROR, text=text):
                return (_failed(run.category, text),)
        return ()

    def _snapshot(self, event: Snapshot) -> tuple[Heard, ...]:
        """Return what has not been handed on of the answer so far, all of which is the attempt's."""
        run = self._run
        void = run.discard(0) if event.attempt != run.attempt else ()
        calls = Calls(event.tool_calls).beyond(run.calls)
        return (*void, *run.hand_on(event, event.text[run.length :], calls))

    def _idle(self, text: str | None) -> Heard:
        run = self._run
        if run.cancelled_by is not None:
            return _cancelled(run.cancelled_by)
        if run.finish_reason is None:
            return Unsettled()
        return End(finish_reason=run.finish_reason, usage=run.usage, text=text)


def _cancelled(by: str | None) -> End:
    # No whole answer, so it must not look like one: what there was of it is in the session.
    if by in SUPERSEDED:
        return End(
            code=CANCELLED, status=409, message="The turn was stopped: its chat has begun a new session."
        )
    return End(code=CANCELLED, status=409, message="The turn was stopped before its answer was whole.")


def _failed(category: str | None, text: str | None) -> End:
    cause = Cause(category) if category in CAUSES else Cause.CRASH
    return End(code=FAILED, status=STATUSES.get(cause, 500), message=text or notice(cause))
