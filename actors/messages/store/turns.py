"""Turns over messages, and the summaries that shorten what they are told."""

from actors.messages.rows import Entry, NewDelivery, Route, Said, TakenTurn, ToolCall, TurnRow, TurnState
from actors.messages.store.request import Read, Write

# Turns


class TakeTurn(Write[TakenTurn | None], frozen=True, kw_only=True):
    """
    Begin a turn on the session's oldest accepted message: message turned, user rows, turn ``running`` under the next
    turn_gen, in one transaction. None if no message waits. Refused with Conflict while another turn runs.
    """

    session_id: str
    turn_id: str
    """The id of the new turn row, unless the message was admitted with one."""


class FlushPartial(Write[None], frozen=True, kw_only=True):
    """Keep what a running turn has produced so far. Conflict if it has ended, or if its gen is stale."""

    turn_id: str
    turn_gen: int
    text: str


class EndTurn(Write[TurnRow], frozen=True, kw_only=True):
    """
    End a turn: its state, its history rows, its delivery and what becomes of its message in one transaction.

    Repeating it answers the stored row. Refused with Conflict if the turn is not running under ``turn_gen``, also if
    there is none, and Invalid if ``state`` is no end.
    """

    turn_id: str
    turn_gen: int
    state: TurnState
    reason: str | None = None
    text: str | None = None
    """The assistant row: the answer of a committed turn, partial and marker of a cancelled one."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls that the assistant row asks for."""
    interrupted_text: str | None = None
    """Partial text that people see and no model gets."""
    notice: str | None = None
    """Our own sentence, kept in the history beside (CHAT-1)."""
    usage: dict[str, int] | None = None
    estimated: bool = False
    error: str | None = None
    """Why a failed one failed: class and wording of ours, for whoever looks after Turnkeep."""
    delivery: NewDelivery | None = None
    """It takes the place of the answer's beginning, if one was shown; one that was not shown yet never will be."""
    again: bool = False
    """Whether the message waits for another turn."""


class GetTurn(Read[TurnRow | None], frozen=True, kw_only=True):
    """The turn of that id, or the newest one of that inbox row."""

    turn_id: str | None = None
    inbox_id: str | None = None


class ListTurns(Read[tuple[TurnRow, ...]], frozen=True, kw_only=True):
    """Turns in the given states, newest first; of one session or of all."""

    states: tuple[TurnState, ...] = ()
    session_id: str | None = None
    limit: int = 100


class Unfinished(Read[tuple[tuple[TurnRow, str, Route | None], ...]], frozen=True, kw_only=True):
    """Turns admitted or running, with their peer and route: what a restart has to decide about."""


# Compaction


class ReadConversation(Read[tuple[Said, ...]], frozen=True, kw_only=True):
    """
    What a model gets of a session before the message of ``inbox_id``, oldest first, a summary before all others.

    Of a message that is turned again only what had been said before it; nothing that came since.
    """

    session_id: str
    inbox_id: str


class CompactHistory(Write[tuple[Entry, ...]], frozen=True, kw_only=True):
    """
    Let models get ``summary`` in place of all messages up to the one with the seq ``upto``. Answers what the turn's model
    gets from here on, its message last.

    Only the running turn may, so that nothing of a lost one changes what its successor got: else Conflict. Invalid if the
    turn's own message is among those. Once a summary stands up to there, repeating it changes nothing.
    """

    turn_id: str
    turn_gen: int
    upto: int
    summary: str
