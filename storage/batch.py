"""One batch of requests as one transaction, run on the connection's thread."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from actors.exceptions import Conflict, Refusal
from actors.messages.store import Write
from storage.families import Family


class Failure(msgspec.Struct, frozen=True):
    """The outcome of a request that was not carried out; the others of its batch were."""

    error: Exception


def run_batch(
    connection: sqlite3.Connection,
    requests: list[Any],
    functions: Mapping[type, Family],
    pass_point: Callable[[str], None],
) -> list[Any]:
    """
    Carry out ``requests`` in order and commit once; return an outcome for each.

    Each write has a savepoint of its own, so that a refusal undoes that write alone. Raises sqlite3.Error, with all
    undone, if the database itself fails.
    """
    if not any(isinstance(request, Write) for request in requests):
        return [_carry_out(connection, request, functions) for request in requests]
    connection.execute("BEGIN IMMEDIATE")
    try:
        outcomes = [
            _write(connection, request, functions)
            if isinstance(request, Write)
            else _carry_out(connection, request, functions)
            for request in requests
        ]
        pass_point("store.before_commit")
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    pass_point("store.after_commit")
    return outcomes


def _write(connection: sqlite3.Connection, request: Any, functions: Mapping[type, Family]) -> Any:
    connection.execute("SAVEPOINT one")
    outcome = _carry_out(connection, request, functions)
    if isinstance(outcome, Failure):
        connection.execute("ROLLBACK TO one")
    connection.execute("RELEASE one")
    return outcome


def _carry_out(connection: sqlite3.Connection, request: Any, functions: Mapping[type, Family]) -> Any:
    try:
        return functions[type(request)](connection, request)
    except Refusal as refusal:
        return Failure(refusal)
    except sqlite3.IntegrityError as error:
        return Failure(
            Conflict(f"{type(request).__name__} contradicts what is stored ({error.sqlite_errorname})")
        )
    except sqlite3.Error:
        raise
    except Exception as error:
        # A mistake of ours in one function must not take its neighbours along.
        return Failure(error)
