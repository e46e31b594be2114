"""What has to be true at the end of every run, whatever happened in it."""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from actors.messages.rows import ENDED_TURNS

if TYPE_CHECKING:
    from tests.simulation.world import World

MADE = {"Injected", "StoreUnavailable", "OperationalError", "CancelledError"}
"""Classes of what was made to fail."""


def under_way(world: "World") -> dict[str, Any]:
    """Return what has not come to its end."""
    queries = {
        "messages": "SELECT count(*) FROM inbox WHERE state = 'accepted'",
        "turns": "SELECT count(*) FROM turns WHERE state IN ('admitted', 'running')",
        "deliveries": "SELECT count(*) FROM deliveries WHERE state IN ('pending', 'attempting')",
    }
    counts: dict[str, Any] = {name: world.read(sql)[0][0] for name, sql in queries.items()}
    counts["unacknowledged"] = len(world.platform.unacknowledged)
    return {name: count for name, count in counts.items() if count}


def check(world: "World") -> None:
    """Hold the books against what the far ends were promised and have seen."""
    _check_file(world)
    _check_messages(world)
    _check_turns(world)
    _check_deliveries(world)
    _check_clients(world)
    _check_runtime(world)


def _check_file(world: "World") -> None:
    found = [row[0] for row in world.read("PRAGMA integrity_check")]
    if found != ["ok"]:
        world.violated(f"the database is damaged: {found}")
    if world.read("PRAGMA foreign_key_check"):
        world.violated("rows refer to rows that are not there")


def _messages(world: "World") -> list[Any]:
    return world.read("SELECT *, json_extract(entries, '$[0].content') AS text FROM inbox")


def _check_messages(world: "World") -> None:
    rows = _messages(world)
    count = Counter(row["text"] for row in rows)
    for text in sorted(world.platform.acknowledged_texts - set(count)):
        world.violated(f"{text} was acknowledged and is not stored")
    for text in sorted(world.client.begun - set(count)):
        world.violated(f"the answer to {text} had begun, and the message is not stored")
    for text, times in count.items():
        if times > 1:
            world.violated(f"{text} is stored {times} times")
    for row in rows:
        if row["state"] == "accepted":
            world.violated(f"{row['text']} still waits")


def _check_turns(world: "World") -> None:
    text = {row["inbox_id"]: row["text"] for row in _messages(world)}
    turns = defaultdict(list)
    for row in world.read("SELECT * FROM turns ORDER BY seq"):
        turns[row["inbox_id"]].append(row)
    most = 2 if world.config.session.on_restart == "retry" else 1
    for inbox_id, rows in turns.items():
        what = text.get(inbox_id, inbox_id)
        states = [row["state"] for row in rows]
        # One whose beginning nobody saw was given back before its backend was asked.
        seen = [row for row in rows if row["reason"] != "unseen"]
        if states.count("committed") > 1:
            world.violated(f"{what} was answered by more than one turn: {states}")
        if len(seen) > most:
            world.violated(f"{what} was turned {len(seen)} times: {states}")
        for answer in (row["text"] for row in rows if row["state"] == "committed"):
            if answer != f"reply to: {what}":
                world.violated(f"the answer to {what} is not what the backend said: {answer!r}")
        if not set(states) <= set(ENDED_TURNS):
            world.violated(f"a turn over {what} has not ended: {states}")
    for row in _messages(world):
        if row["state"] == "turned" and row["inbox_id"] not in turns:
            world.violated(f"{row['text']} is called turned, and no turn is there")
    swallowed = world.read(
        "SELECT c.seq FROM history c JOIN turns t ON t.turn_id = c.turn_id"
        " JOIN history own ON own.inbox_id = t.inbox_id WHERE c.kind = 'compaction' AND own.seq <= c.upto"
    )
    if swallowed:
        world.violated(f"summaries stand for the messages that they were made for: {swallowed}")
    if world.backend.overlaps:
        world.violated(f"two turns ran at once in {world.backend.overlaps}")


def _check_deliveries(world: "World") -> None:
    rows = world.read(
        "SELECT d.*, t.state AS turn_state, t.text FROM deliveries d LEFT JOIN turns t ON t.turn_id = d.turn_id"
    )
    of_turn = Counter(row["turn_id"] for row in rows if not row["begins"])
    denied = world.platform.denied
    seen = Counter(texts[-1] for name, texts in world.platform.messages.items() if name not in denied)
    for row in rows:
        if row["turn_state"] == "committed" and seen[row["text"]] > 1:
            world.violated(f"a chat is shown {row['text']!r} {seen[row['text']]} times")
        if row["state"] == "delivered":
            _check_shown(world, row)
        if of_turn[row["turn_id"]] > 1:
            world.violated(f"turn {row['turn_id']} has {of_turn[row['turn_id']]} deliveries")
    # The last turn over each relayed message tells its chat something, unless somebody stopped it.
    last = world.read(
        "SELECT i.inbox_id, t.turn_id, t.state, json_extract(i.entries, '$[0].content') AS text FROM inbox i"
        " JOIN turns t ON t.turn_id = i.turn_id WHERE i.origin = 'relay' AND i.state = 'turned'"
    )
    for row in last:
        if row["state"] != "cancelled" and row["turn_id"] not in of_turn:
            world.violated(f"the chat of {row['text']} was told nothing of its {row['state']} turn")


def _check_shown(world: "World", row: Any) -> None:
    """Hold what is called delivered against what people see."""
    texts = world.platform.messages.get(row["message_id"], [])
    if row["begins"] and row["content"] not in texts:
        world.violated(f"{row['content']!r} is called delivered, and no chat was shown it")
    if not row["begins"] and (not texts or texts[-1] not in (row["content"], row["in_place"])):
        world.violated(f"{row['content']!r} is called delivered, and its message shows {texts[-1:]}")


def _check_clients(world: "World") -> None:
    rows = world.read(
        "SELECT t.text, t.state, json_extract(i.entries, '$[0].content') AS said FROM turns t"
        " JOIN inbox i ON i.inbox_id = t.inbox_id WHERE t.state = 'committed'"
    )
    committed = {row["said"]: row["text"] for row in rows}
    for text, answer in world.client.answers.items():
        if committed.get(text) != answer:
            world.violated(f"a client has the answer {answer!r} to {text}; stored is {committed.get(text)!r}")


def _check_runtime(world: "World") -> None:
    if world.exit_codes[-1] != 0:
        world.violated(f"the last stop, with nothing at fault, ended with {world.exit_codes[-1]}")
    system = world.daemon.system
    forgotten = [reply for reply in world.replies if reply._cell.system is system and not reply.done()]
    if forgotten:
        world.violated(f"asks were never answered: {forgotten[:5]}")
    for at, level, event, fields in world.logged:
        if level in ("error", "critical", "exception") and not _was_made(event, fields):
            world.violated(f"{at:.3f} {event} {fields}")


def _was_made(event: str, fields: dict[str, Any]) -> bool:
    if event in ("store.batch_failed", "actor.quarantined", "actor.stuck", "turn.failed"):
        return True
    told = " ".join(str(value) for value in fields.values())
    return any(name in told for name in MADE)
