"""
The tables, as a new database gets them. Times are unix seconds, states the values of actors.messages.rows.

Tables that only grow at one end have a ``seq``: rows come in its order and leave in its order, so that retention needs
no index on time.
"""

VERSION = 5

APPLICATION_ID = 0x5475726E
"""Marks the file as ours: "Turn"."""

QUARANTINES = (
    """
-- Stops whose end was not proved in time, and what has ended too often; ended_at is set once one is lifted.
CREATE TABLE quarantines (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    quarantine_id TEXT NOT NULL UNIQUE,
    version       INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    name          TEXT NOT NULL,
    generation    INTEGER NOT NULL,
    host          TEXT NOT NULL,
    boot_id       TEXT NOT NULL,
    asked_by      TEXT NOT NULL,
    why           TEXT NOT NULL,
    reason        TEXT NOT NULL,
    state         TEXT NOT NULL,
    proved        INTEGER NOT NULL,
    since         REAL NOT NULL,
    attempts      INTEGER NOT NULL,
    last_answer   TEXT,
    last_try_at   REAL,
    cause         TEXT,
    ended_at      REAL,
    ended_by      TEXT
)
""",
    "CREATE UNIQUE INDEX quarantines_open ON quarantines (kind, name) WHERE ended_at IS NULL",
    "CREATE INDEX quarantines_ended ON quarantines (seq) WHERE ended_at IS NOT NULL",
)
"""The tables that came with version 2."""

COLUMNS = (
    # What a message has beside its text: parts, tool calls, the call that it answers.
    ("history", "beside BLOB"),
    # Of a compaction: the seq up to which it stands for the rows before it.
    ("history", "upto INTEGER"),
    ("turns", "tool_calls BLOB"),
)
"""The columns that came with version 3, each the last of its table."""

DELIVERY_COLUMNS = (
    # The message that is answered; whether it is the beginning of an answer; what the message with that becomes.
    ("deliveries", "inbox_id TEXT"),
    ("deliveries", "begins INTEGER NOT NULL DEFAULT 0"),
    ("deliveries", "in_place TEXT"),
)
"""The columns that came with version 4, in the order of their table's last ones."""

BEGINNINGS = "CREATE INDEX deliveries_beginnings ON deliveries (inbox_id, seq) WHERE begins = 1"
"""The index that came with version 4."""

TURN_COLUMNS = (
    # Why it failed; whether its usage is what characters suggest, as the backend named none.
    ("turns", "error TEXT"),
    ("turns", "estimated INTEGER NOT NULL DEFAULT 0"),
)
"""The columns that came with version 5, in the order of their table's last ones."""

COMPACTIONS = "CREATE INDEX history_compaction ON history (session_id, seq) WHERE kind = 'compaction'"
"""Finds a session's newest compaction, or that it has none, without a look at what was said. It came with version 5."""

TABLES = """
-- Relay peers. link_gen numbers their links and only grows.
CREATE TABLE peers (
    name        TEXT PRIMARY KEY,
    role        TEXT NOT NULL,
    identities  BLOB NOT NULL,
    scopes      BLOB NOT NULL,
    link_gen    INTEGER NOT NULL DEFAULT 0,
    created_at  REAL NOT NULL,
    revoked_at  REAL
);
-- Sealed, so that they can sign; the fingerprint finds the peer of a plain bearer secret. Rank 0 is the primary one.
CREATE TABLE peer_secrets (
    peer        TEXT NOT NULL REFERENCES peers (name),
    rank        INTEGER NOT NULL,
    sealed      BLOB NOT NULL,
    fingerprint TEXT NOT NULL UNIQUE,
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
    scopes      BLOB NOT NULL,
    key_hash    TEXT NOT NULL UNIQUE,
    created_at  REAL NOT NULL,
    revoked_at  REAL
);
CREATE UNIQUE INDEX keys_name ON keys (name) WHERE revoked_at IS NULL;

-- turn_gen numbers the session's turns and only grows.
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
);

-- Accepted messages in their order. entries are what a model gets of one; event is the message as its chat had it;
-- turn_id is its newest turn.
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
    turn_id     TEXT,
    accepted_at REAL NOT NULL,
    settled_at  REAL
);
CREATE INDEX inbox_waiting ON inbox (session_id, seq) WHERE state = 'accepted';

-- What makes a repetition a duplicate (RLY-12): a message's id in its chat, and a peer's buffer id with its body.
-- inbox_id is what it became; of a post to the console the row of the history.
CREATE TABLE seen (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    peer        TEXT NOT NULL,
    scope       TEXT NOT NULL,
    chat_id     TEXT NOT NULL,
    message_id  TEXT,
    buffer_id   TEXT,
    body_hash   TEXT,
    inbox_id    TEXT NOT NULL,
    at          REAL NOT NULL
);
-- Ids first: platforms count them up, so that new ones land on few pages.
CREATE UNIQUE INDEX seen_message ON seen (message_id, chat_id, scope, peer) WHERE message_id IS NOT NULL;
CREATE UNIQUE INDEX seen_buffer ON seen (buffer_id, peer) WHERE buffer_id IS NOT NULL;

-- inbox_id is no reference: the outcome of a turn is kept for longer than the message.
CREATE TABLE turns (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    turn_id     TEXT NOT NULL UNIQUE,
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
    ended_at    REAL,
    tool_calls  BLOB,
    error       TEXT,
    estimated   INTEGER NOT NULL DEFAULT 0
);
-- One running turn a session, whatever the actors believe (TRN-53).
CREATE UNIQUE INDEX turns_running ON turns (session_id) WHERE state = 'running';
CREATE INDEX turns_admitted ON turns (seq) WHERE state = 'admitted';
-- The ends that people look for. A turn that goes well is in neither of the two.
CREATE INDEX turns_not_well ON turns (state, seq) WHERE state NOT IN ('admitted', 'running', 'committed');
CREATE INDEX turns_session ON turns (session_id, seq);

-- seq is the message id that the console gives out. inbox_id marks what a person said. beside is what a message has
-- beside its text; upto is the seq up to which a compaction stands for the rows before it.
CREATE TABLE history (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id  TEXT NOT NULL REFERENCES sessions (session_id),
    turn_id     TEXT,
    inbox_id    TEXT,
    role        TEXT NOT NULL,
    content     TEXT NOT NULL,
    kind        TEXT NOT NULL,
    author      TEXT,
    at          REAL NOT NULL,
    beside      BLOB,
    upto        INTEGER
);
CREATE INDEX history_session ON history (session_id, seq);

-- Texts on their way to chats. settled_at is set while nobody is to send it. One that begins shows an answer to inbox_id
-- while it is being made; the one at its end edits that message, with in_place if it is set, else with content.
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
    settled_at  REAL,
    inbox_id    TEXT,
    begins      INTEGER NOT NULL DEFAULT 0,
    in_place    TEXT
);
CREATE INDEX deliveries_open ON deliveries (state, peer, chat, seq) WHERE settled_at IS NULL;
CREATE INDEX deliveries_pending ON deliveries (seq) WHERE state = 'pending';
CREATE INDEX deliveries_settled ON deliveries (state, seq) WHERE settled_at IS NOT NULL;

-- The event bus's tail.
CREATE TABLE events (
    seq         INTEGER PRIMARY KEY,
    kind        TEXT NOT NULL,
    path        TEXT NOT NULL,
    at          REAL NOT NULL,
    data        BLOB NOT NULL
);
""" + "".join(f"{statement};" for statement in (BEGINNINGS, *QUARANTINES, COMPACTIONS))
