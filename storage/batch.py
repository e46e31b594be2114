"""One batch of requests as one transaction, run on the connection's thread."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from actors.exceptions import Conflict, Invalid, Refusal
from actors.messages.store import Write
from storage.families import Family


class Failure(msgspec.Struct, frozen=True):
    """The outcome of a request that was not carried out; the others of its batch were."""

    error: Exception


class Entangled(Exception):
    """A write failed after it had changed something: only a savepoint can undo that and nothing else."""


def run_batch(
    connection: sqlite3.Connection,
    requests: Sequence[Any],
    functions: Mapping[type, Family],
    pass_point: Callable[[str], None],
    on_undone: Callable[[], None],
) -> list[Any]:
    """
    Carry out ``requests`` in order and commit once; return an outcome for each.

    A write that is refused is undone alone. A read sees the writes before it. Raises sqlite3.Error, with all undone, if
    the database itself fails. ``on_undone`` is called whenever something was undone.
    """
    if not any(isinstance(request, Write) for request in requests):
        return [_carry_out(connection, request, functions) for request in requests]
    try:
        return _in_transaction(connection, requests, functions, pass_point, on_undone, _carry_out_cleanly)
    except Entangled:
        # Rare, as functions look before they write; savepoints for all would cost half as much again as the writes.
        return _in_transaction(
            connection, requests, functions, pass_point, on_undone, _carry_out_in_savepoint
        )


def _in_transaction(
    connection: sqlite3.Connection,
    requests: Sequence[Any],
    functions: Mapping[type, Family],
    pass_point: Callable[[str], None],
    on_undone: Callable[[], None],
    carry_out: Callable[[sqlite3.Connection, Any, Mapping[type, Family]], Any],
) -> list[Any]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        outcomes = [carry_out(connection, request, functions) for request in requests]
        pass_point("store.before_commit")
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after some faults.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        on_undone()
        raise
    return outcomes


def _carry_out_cleanly(connection: sqlite3.Connection, request: Any, functions: Mapping[type, Family]) -> Any:
    changes = connection.total_changes
    try:
        return functions[type(request)](connection, request)
    except Exception as error:
        failure = _failure(request, error)
        if connection.total_changes != changes:
            raise Entangled from error
        return failure


def _carry_out_in_savepoint(
    connection: sqlite3.Connection, request: Any, functions: Mapping[type, Family]
) -> Any:
    connection.execute("SAVEPOINT one")
    outcome = _carry_out(connection, request, functions)
    if isinstance(outcome, Failure):
        connection.execute("ROLLBACK TO one")
    connection.execute("RELEASE one")
    return outcome


def _carry_out(connection: sqlite3.Connection, request: Any, functions: Mapping[type, Family]) -> Any:
    try:
        return functions[type(request)](connection, request)
    except Exception as error:
        return _failure(request, error)


def _failure(request: Any, error: Exception) -> Failure:
    """Return what the error means for its request alone; raise it if the database itself has failed."""
    name = type(request).__name__
    match error:
        case Refusal():
            return Failure(error)
        case sqlite3.IntegrityError():
            return Failure(Conflict(f"{name} contradicts what is stored ({error.sqlite_errorname})"))
        case OverflowError() | UnicodeEncodeError() | sqlite3.DataError():
            # A value that no column can hold: a huge number, half a character, a huge text.
            return Failure(Invalid(f"{name} holds a value that cannot be stored ({type(error).__name__})"))
        case sqlite3.ProgrammingError() | sqlite3.InterfaceError() | sqlite3.NotSupportedError():
            # Of one statement of ours, as opposed to those of the database.
            return Failure(error)
        case sqlite3.Error():
            raise error
    # A mistake of ours in one function must not take its neighbours along.
    return Failure(error)
