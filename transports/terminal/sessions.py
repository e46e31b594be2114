"""sessions: the conversations."""

from typing import Annotated, Any

import typer

from transports.terminal.exits import ConnectionLost, Exit, Failure
from transports.terminal.following import Following
from transports.terminal.output import (
    BOLD,
    cell,
    moment,
    printable,
    show_facts,
    show_json,
    show_json_line,
    show_table,
    styled,
)
from transports.terminal.patience import Patience
from transports.terminal.verb import Desk, verb

app = typer.Typer()

DRAINING = "turnkeepd is draining: the message is kept, and answered after its next start"

Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or the beginning of it.")]


@verb(app, "list")
async def list_(
    desk: Desk,
    peer: Annotated[
        str | None, typer.Option("--peer", metavar="PEER", help="Only this peer's; console for your own.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")
    ] = 50,
) -> None:
    """List sessions, the most recently active first."""
    result = await desk.call("sessions.list", peer=peer, limit=limit)
    if desk.as_json:
        show_json(result)
        return
    show_table(
        ("ID", "KIND", "STATE", "LIVE", "QUEUED", "LAST TURN", "PEER", "ACTIVE", "TITLE"),
        [
            (
                row["session_id"],
                row["kind"],
                row["run_state"],
                row["live"],
                row["queued"],
                row["last_turn"],
                row["peer"],
                moment(row["active_at"]),
                row["title"][:60],
            )
            for row in result["sessions"]
        ],
    )


@verb(app, "show")
async def show(desk: Desk, session: Session) -> None:
    """Show a session and its last turns."""
    result = await desk.call("sessions.get", session_id=session)
    if desk.as_json:
        show_json(result)
        return
    row = result["session"]
    times = {"created_at": moment(row["created_at"]), "active_at": moment(row["active_at"])}
    show_facts({name.replace("_", " "): value for name, value in {**row, **times}.items()})
    if result["turns"]:
        print()
        show_table(
            ("TURN", "GEN", "STATE", "REASON", "ORIGIN", "TRIES", "BEGAN", "ENDED"),
            [
                (
                    turn["turn_id"],
                    turn["turn_gen"],
                    turn["state"],
                    turn["reason"],
                    turn["origin"],
                    turn["tries"],
                    moment(turn["admitted_at"]),
                    moment(turn["ended_at"]),
                )
                for turn in result["turns"]
            ],
        )


@verb(app, "send")
async def send(
    desk: Desk,
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")],
    wait: Annotated[bool, typer.Option("--wait", help="Print the answer as it comes.")] = False,
) -> None:
    """Say something to a session."""
    from transports.terminal.chat import Target, converse_once

    if wait:
        await converse_once(desk, Target(session=session), text)
        return
    result = await desk.call("sessions.send", session_id=session, text=text)
    if desk.as_json:
        show_json(result)
        return
    accepted = result["accepted"]
    print(f"accepted as {accepted['inbox_id']}; {accepted['queued']} waiting in {accepted['session_id']}")
    if result["draining"]:
        print(DRAINING)


@verb(app, "history")
async def history(
    desk: Desk,
    session: Session,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The newest so many.")
    ] = 50,
) -> None:
    """Print what was said in a session."""
    result = await desk.call("sessions.history", session_id=session, limit=limit)
    if desk.as_json:
        show_json(result)
        return
    for row in result["history"]:
        print_row(row)


@verb(app, "stop")
async def stop(desk: Desk, session: Session) -> None:
    """Stop the turn that a session runs."""
    result = await desk.call("sessions.stop_turn", session_id=session)
    if desk.as_json:
        show_json(result)
        return
    print("stopping the turn" if result["stopped"] else "no turn runs")


@verb(app, "watch")
async def watch(
    desk: Desk,
    session: Session,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="GEN:SEQ", help="Go on after this event, as it is shown here."),
    ] = None,
    turns: Annotated[
        int | None, typer.Option("--turns", metavar="N", min=1, help="Leave after the end of N turns.")
    ] = None,
) -> None:
    """Show every event of a session's turns as it happens; each begins with its number, GEN:SEQ."""
    following = Following(_place(after))
    patience = Patience(desk)
    while turns is None or following.ended < turns:
        await _follow(desk, patience, session, following, turns)


def _place(after: str | None) -> tuple[int, int] | None:
    if after is None:
        return None
    turn_gen, _, seq = after.partition(":")
    if not (turn_gen.isdecimal() and seq.isdecimal()):
        raise Failure(Exit.USAGE, f"--after {after}: two numbers are needed, as in 3:17")
    return int(turn_gen), int(seq)


async def _follow(
    desk: Desk, patience: Patience, session: str, following: Following, turns: int | None
) -> None:
    """Show what comes until enough turns have ended, or the connection is lost."""
    async with await patience.connect() as client:
        try:
            answer = await client.call("sessions.follow", session_id=session, **following.question())
            following.answered(answer["turn_gen"])
            while turns is None or following.ended < turns:
                event = await client.event()
                if event["event"].startswith("turn.") and following.take(event):
                    _print_event(desk, event)
        except ConnectionLost:
            return


def _print_event(desk: Desk, event: dict[str, Any]) -> None:
    if desk.as_json:
        show_json_line(event)
        return
    data, kind = event["data"], event["event"].removeprefix("turn.")
    if kind == "gap":
        upto = data["next_gen"] if data["next_gen"] is not None else "now"
        print(
            styled(f"-- a gap: what ended after turn {data['after_gen']} and before {upto} --", BOLD),
            flush=True,
        )
        return
    turn = data["turn"] if kind == "outcome" else data
    place = f"{turn['turn_gen']}:{event['seq'] if event['seq'] is not None else '-'}"
    shown = {name: value for name, value in turn.items() if name not in HEAD}
    told = "  ".join(f"{name}={cell(value)}" for name, value in shown.items())
    print(f"{place:>8}  {moment(event['ts'])}  {kind}  {told}".rstrip(), flush=True)


HEAD = frozenset({"session_id", "turn_id", "inbox_id", "turn_gen", "seq"})
"""What every event of a turn has, or its place shows."""


def print_row(row: dict[str, Any]) -> None:
    """Print one row of a history."""
    who = row["author"] or row["role"]
    if row["kind"] != "message":
        who += f", {row['kind']}"
    print(styled(f"[{moment(row['at'])}] {printable(who)}", BOLD))
    print(printable(row["content"]))
    print()
