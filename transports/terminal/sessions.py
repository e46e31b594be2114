"""sessions: the conversations."""

from typing import Annotated, Any

import typer

from transports.terminal.output import BOLD, moment, printable, show_facts, show_json, show_table, styled
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


def print_row(row: dict[str, Any]) -> None:
    """Print one row of a history."""
    who = row["author"] or row["role"]
    if row["kind"] != "message":
        who += f", {row['kind']}"
    print(styled(f"[{moment(row['at'])}] {printable(who)}", BOLD))
    print(printable(row["content"]))
    print()
