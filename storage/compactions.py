"""Compactions: a summary takes the place of a conversation's beginning for models; what was said stays for people."""

import itertools
import sqlite3

from actors.exceptions import Conflict, Invalid
from actors.messages.rows import Entry, HistoryKind, Said, TurnState
from actors.messages.store import CompactHistory, ReadConversation
from storage import entries, history
from storage.columns import Column
from storage.conversations import COMPACTION, NEWEST, Conversations

ENTRIES = Column.of(tuple[Entry, ...])

OWN = "SELECT 1 FROM history WHERE session_id = ? AND seq > ? AND seq <= ? AND inbox_id = ? LIMIT 1"


def read_conversation(
    connection: sqlite3.Connection, request: ReadConversation, rows: int
) -> tuple[Said, ...]:
    """See ReadConversation."""
    compaction = connection.execute(COMPACTION, (request.session_id,)).fetchone()
    summary: tuple[Said, ...] = ()
    if compaction is not None:
        entry = Entry(role="system", content=compaction["content"])
        summary = (Said(seq=compaction["upto"], entry=entry, summary=True),)
    upto = compaction["upto"] if compaction is not None else 0
    newest = connection.execute(NEWEST, (request.session_id, upto, rows)).fetchall()
    older = itertools.takewhile(lambda row: row["inbox_id"] != request.inbox_id, reversed(newest))
    return (*summary, *(Said(seq=row["seq"], entry=entries.entry(row)) for row in older))


def compact_history(
    connection: sqlite3.Connection, request: CompactHistory, conversations: Conversations
) -> tuple[Entry, ...]:
    """See CompactHistory."""
    turn = connection.execute(
        "SELECT session_id, inbox_id, turn_gen, state, tries FROM turns WHERE turn_id = ?", (request.turn_id,)
    ).fetchone()
    if turn is None or turn["turn_gen"] != request.turn_gen or turn["state"] != TurnState.RUNNING:
        raise Conflict(f"turn {request.turn_id} is not running under generation {request.turn_gen}")
    newest = connection.execute(COMPACTION, (turn["session_id"],)).fetchone()
    upto = newest["upto"] if newest is not None else 0
    if newest is None or upto < request.upto:
        _insert(connection, request, turn, upto)
        conversations.compacted(turn["session_id"])
    if turn["tries"] <= 1:
        return conversations.read(connection, turn["session_id"])
    message = connection.execute(
        "SELECT entries FROM inbox WHERE inbox_id = ?", (turn["inbox_id"],)
    ).fetchone()
    return conversations.read_again(
        connection, turn["session_id"], turn["inbox_id"], ENTRIES.read(message["entries"])
    )


def _insert(connection: sqlite3.Connection, request: CompactHistory, turn: sqlite3.Row, before: int) -> None:
    own = (turn["session_id"], before, request.upto, turn["inbox_id"])
    if connection.execute(OWN, own).fetchone() is not None:
        raise Invalid(f"a summary up to {request.upto} would swallow the message that is being answered")
    history.append(
        connection,
        session_id=turn["session_id"],
        entry=Entry(role="system", content=request.summary),
        kind=HistoryKind.COMPACTION,
        turn_id=request.turn_id,
        at=request.at,
        upto=request.upto,
    )
