"""The tables, as a new database gets them. Times are unix seconds, states the values of actors.messages.rows."""

VERSION = 1

TABLES = """
-- Relay peers. link_gen numbers their links and only grows.
CREATE TABLE peers (
    name        TEXT PRIMARY KEY,
    role        TEXT NOT NULL,
    identities  TEXT NOT NULL,
    scopes      TEXT NOT NULL,
    link_gen    INTEGER NOT NULL DEFAULT 0,
    created_at  REAL NOT NULL,
    revoked_at  REAL
);
-- Sealed, so that they can sign; the hash finds the peer of a plain bearer secret. Rank 0 is the primary one.
CREATE TABLE peer_secrets (
    peer        TEXT NOT NULL REFERENCES peers (name),
    rank        INTEGER NOT NULL,
    sealed      BLOB NOT NULL,
    secret_hash TEXT NOT NULL UNIQUE,
    PRIMARY KEY (peer, rank)
);
-- An identity belongs to one connector; any number of gateways may act as it.
CREATE TABLE peer_identities (
    identity    TEXT NOT NULL,
    peer        TEXT NOT NULL REFERENCES peers (name),
    role        TEXT NOT NULL,
    PRIMARY KEY (identity, peer)
);
CREATE UNIQUE INDEX peer_identities_connector ON peer_identities (identity) WHERE role = 'connector';

CREATE TABLE keys (
    key_id      TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    owner       TEXT NOT NULL,
    scopes      TEXT NOT NULL,
    key_hash    TEXT NOT NULL UNIQUE,
    created_at  REAL NOT NULL,
    revoked_at  REAL
);
CREATE UNIQUE INDEX keys_name ON keys (name) WHERE revoked_at IS NULL;

CREATE TABLE sessions (
    session_id  TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    run_state   TEXT NOT NULL,
    title       TEXT NOT NULL,
    peer        TEXT NOT NULL,
    scope       TEXT NOT NULL,
    session_key TEXT NOT NULL,
    turn_gen    INTEGER NOT NULL DEFAULT 0,
    version     INTEGER NOT NULL DEFAULT 1,
    created_at  REAL NOT NULL,
    active_at   REAL NOT NULL,
    end_reason  TEXT
);
CREATE INDEX sessions_active ON sessions (active_at);
CREATE INDEX sessions_peer ON sessions (peer, active_at);

-- Which session answers for a chat. No scope is the empty string, so that it takes part in the key.
CREATE TABLE bindings (
    peer        TEXT NOT NULL,
    session_key TEXT NOT NULL,
    scope       TEXT NOT NULL,
    session_id  TEXT NOT NULL REFERENCES sessions (session_id),
    version     INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (peer, session_key, scope)
) WITHOUT ROWID;

CREATE TABLE inbox (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    inbox_id    TEXT NOT NULL UNIQUE,
    session_id  TEXT NOT NULL REFERENCES sessions (session_id),
    origin      TEXT NOT NULL,
    peer        TEXT NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT,
    entries     BLOB NOT NULL,
    params      BLOB NOT NULL,
    route       BLOB,
    event       BLOB,
    detached    INTEGER NOT NULL,
    tries       INTEGER NOT NULL DEFAULT 0,
    accepted_at REAL NOT NULL,
    settled_at  REAL
);
CREATE INDEX inbox_waiting ON inbox (session_id, seq) WHERE state = 'accepted';
CREATE INDEX inbox_settled ON inbox (settled_at) WHERE settled_at IS NOT NULL;

-- What makes a redelivery a duplicate (RLY-12), kept 48 h.
CREATE TABLE seen_messages (
    peer        TEXT NOT NULL,
    scope       TEXT NOT NULL,
    chat_id     TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    inbox_id    TEXT NOT NULL,
    at          REAL NOT NULL,
    PRIMARY KEY (peer, scope, chat_id, message_id)
);
CREATE INDEX seen_messages_at ON seen_messages (at);
CREATE TABLE seen_buffers (
    peer        TEXT NOT NULL,
    buffer_id   TEXT NOT NULL,
    body_hash   TEXT NOT NULL,
    inbox_id    TEXT NOT NULL,
    at          REAL NOT NULL,
    PRIMARY KEY (peer, buffer_id)
);
CREATE INDEX seen_buffers_at ON seen_buffers (at);

CREATE TABLE turns (
    turn_id     TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL REFERENCES sessions (session_id),
    inbox_id    TEXT NOT NULL,
    turn_gen    INTEGER NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT,
    partial     TEXT NOT NULL DEFAULT '',
    text        TEXT,
    usage       BLOB,
    origin      TEXT NOT NULL,
    detached    INTEGER NOT NULL,
    tries       INTEGER NOT NULL,
    admitted_at REAL NOT NULL,
    ended_at    REAL
);
-- One running turn a session, whatever the actors believe (TRN-53).
CREATE UNIQUE INDEX turns_running ON turns (session_id) WHERE state = 'running';
CREATE INDEX turns_unfinished ON turns (admitted_at) WHERE state IN ('admitted', 'running');
CREATE INDEX turns_inbox ON turns (inbox_id);
CREATE INDEX turns_session ON turns (session_id, admitted_at);
CREATE INDEX turns_admitted ON turns (admitted_at);

-- seq is the message id that the console gives out.
CREATE TABLE history (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id  TEXT NOT NULL REFERENCES sessions (session_id),
    turn_id     TEXT,
    inbox_id    TEXT,
    role        TEXT NOT NULL,
    content     TEXT NOT NULL,
    kind        TEXT NOT NULL,
    author      TEXT,
    at          REAL NOT NULL
);
CREATE INDEX history_session ON history (session_id, seq);
CREATE INDEX history_inbox ON history (inbox_id) WHERE inbox_id IS NOT NULL;

CREATE TABLE deliveries (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id TEXT NOT NULL UNIQUE,
    peer        TEXT NOT NULL,
    chat        TEXT NOT NULL,
    route       BLOB NOT NULL,
    content     TEXT NOT NULL,
    turn_id     TEXT,
    state       TEXT NOT NULL,
    reason      TEXT,
    attempts    INTEGER NOT NULL DEFAULT 0,
    parts_done  INTEGER NOT NULL DEFAULT 0,
    message_id  TEXT,
    created_at  REAL NOT NULL,
    settled_at  REAL
);
CREATE INDEX deliveries_open ON deliveries (peer, chat, seq) WHERE state IN ('pending', 'attempting');
CREATE INDEX deliveries_state ON deliveries (state, seq);
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE events (
    seq         INTEGER PRIMARY KEY,
    kind        TEXT NOT NULL,
    path        TEXT NOT NULL,
    at          REAL NOT NULL,
    data        BLOB NOT NULL
);
CREATE INDEX events_at ON events (at);
"""
