"""What is kept of conversations in memory is bounded, and never anything but what the database has."""

import sqlite3

import pytest

from storage.conversations import ENTRY_BYTES, Conversations
from storage.migrations import migrate


@pytest.fixture
def raw(tmp_path):
    connection = sqlite3.connect(tmp_path / "x", isolation_level=None)
    connection.row_factory = sqlite3.Row
    migrate(connection, tmp_path / "x")
    connection.execute("PRAGMA foreign_keys = OFF")
    yield connection
    connection.close()


def say(raw, session_id, content, kind="message"):
    raw.execute(
        "INSERT INTO history (session_id, role, content, kind, at) VALUES (?, 'user', ?, ?, 1.0)",
        (session_id, content, kind),
    )


def texts(entries):
    return [entry.content for entry in entries]


def test_only_what_is_new_is_read(raw):
    conversations = Conversations(10, 10_000)
    say(raw, "s", "one")
    assert texts(conversations.read(raw, "s")) == ["one"]
    raw.execute("UPDATE history SET content = 'changed behind its back'")
    say(raw, "s", "two")
    say(raw, "s", "not for models", kind="notice")
    assert texts(conversations.read(raw, "s")) == ["one", "two"]
    conversations.forget()
    assert texts(conversations.read(raw, "s")) == ["changed behind its back", "two"]


def test_sessions_that_went_on_last_are_kept_within_the_bound(raw):
    conversations = Conversations(10, 2 * (ENTRY_BYTES + 1))
    for session_id in "abc":
        say(raw, session_id, "1")
    for session_id in "aba":
        conversations.read(raw, session_id)
    raw.execute("UPDATE history SET content = '2'")
    assert texts(conversations.read(raw, "c")) == ["2"]
    assert texts(conversations.read(raw, "a")) == ["1"]
    assert texts(conversations.read(raw, "b")) == ["2"]


def test_a_conversation_larger_than_the_bound_is_read_and_not_kept(raw):
    conversations = Conversations(10, 100)
    say(raw, "s", "x" * 1000)
    assert len(conversations.read(raw, "s")[0].content) == 1000
    raw.execute("UPDATE history SET content = 'y'")
    assert texts(conversations.read(raw, "s")) == ["y"]
