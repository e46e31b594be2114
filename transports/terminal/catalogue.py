"""The verbs, what each is for and which module has it: enough for the overview, without loading any of them."""

from typing import NamedTuple

from transports.terminal.exits import MEANINGS


class Entry(NamedTuple):
    """One word of the command line."""

    module: str
    summary: str


VERBS = {
    "chat": Entry("chat", "Talk to a session: Ctrl-C stops the answer, Ctrl-D leaves."),
    "status": Entry("system", "Say what runs, where, since when, and how much of everything there is."),
    "ps": Entry("ps", "List the actors with their mailboxes and counters."),
    "tree": Entry("ps", "Draw the actors as the hierarchy that they are."),
    "actors": Entry("actors", "One actor: get, stop, restart, suspend, resume, trace; or list all."),
    "quarantine": Entry("quarantine", "What is held as it did not end: list, show, release, reconcile."),
    "sessions": Entry("sessions", "Conversations: list, show, send, watch, history, stop."),
    "events": Entry("events", "Show events; each has a number, from which a later call can go on."),
    "lanes": Entry(
        "lanes", "List the model lanes and how they do; with reload, have the daemon read them again."
    ),
    "relays": Entry("relays", "List the links of relay peers."),
    "deliveries": Entry("relays", "List deliveries, the newest first, without their texts."),
    "peers": Entry("peers", "Relay peers: add, list, rotate, revoke."),
    "keys": Entry("keys", "Keys for the API and the admin socket: add, list, revoke."),
    "backup": Entry(
        "system", "Copy the database to a new file while the daemon goes on; secret.key is not in it."
    ),
    "drain": Entry("system", "Take no new turn and let the running ones end; the daemon stays up."),
    "shutdown": Entry("system", "End the daemon in order."),
}

GROUPS = frozenset({"actors", "quarantine", "sessions", "peers", "keys"})
"""Words that take a verb of their own."""

OPTIONS = (
    ("--data-dir DIR", "The daemon's data directory (TURNKEEP_DATA_DIR)."),
    ("--url URL", "The daemon's address instead (TURNKEEP_URL)."),
    ("--token KEY", "The admin key to show (TURNKEEP_TOKEN); else DIR/admin.token."),
    ("--json", "Print JSON."),
    ("--timeout S", "Seconds to wait for an answer."),
    ("--version", "Print the version."),
    ("--help", "Print this, or the help of a verb."),
)

EPILOG = "Exit codes: " + ", ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items()) + "."


def family_of(word: str | None) -> str:
    """Return the module that has the verb."""
    return VERBS[word].module if word is not None else ""


def overview() -> str:
    """Return the help of the whole command."""
    lines = ["Usage: turnkeepctl [OPTIONS] VERB [ARGS]...", "", "  See and steer a running turnkeepd.", ""]
    lines += ["Options:", *_columns(OPTIONS), ""]
    lines += ["Verbs:", *_columns([(word, entry.summary) for word, entry in VERBS.items()]), ""]
    lines += ["Options may stand before or after the verb.", EPILOG]
    return "\n".join(lines)


def _columns(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    width = max(len(left) for left, _ in rows)
    return [f"  {left.ljust(width)}  {right}" for left, right in rows]
