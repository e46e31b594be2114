"""quarantine: what did not end, or ended too often, and is held until somebody knows better."""

from typing import Annotated, Any

import typer

from transports.terminal.exits import Exit, Failure
from transports.terminal.output import moment, show_facts, show_json, show_table
from transports.terminal.verb import Desk, verb

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="As list shows it, an actor's path; or its id.")]


@verb(app, "list")
async def list_(
    desk: Desk,
    lifted: Annotated[bool, typer.Option("--lifted", help="Show the past ones, too, newest first.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many past ones.")
    ] = 50,
) -> None:
    """List what is quarantined."""
    result = await desk.call("quarantine.list", lifted=lifted, limit=limit)
    if desk.as_json:
        show_json(result)
        return
    show_table(
        (
            "NAME",
            "KIND",
            "GEN",
            "STATE",
            "REASON",
            "PROVED",
            "TRIES",
            "LAST ANSWER",
            "SINCE",
            "ENDED",
            "CAUSE",
        ),
        [
            (
                row["name"],
                row["kind"],
                row["generation"],
                row["state"],
                row["reason"],
                row["proved"],
                row["attempts"],
                row["last_answer"],
                moment(row["since"]),
                moment(row["ended_at"]),
                row["cause"],
            )
            for row in (*result["quarantines"], *result.get("lifted", ()))
        ],
    )


@verb(app, "show")
async def show(desk: Desk, name: Name) -> None:
    """Show the evidence about one, held now or before."""
    result = await desk.call("quarantine.list", name=name, lifted=True)
    rows = [*result["quarantines"], *result["lifted"]]
    if not rows:
        raise Failure(Exit.NOT_FOUND, f"nothing named {name} is or was quarantined")
    if desk.as_json:
        show_json({"quarantines": rows})
        return
    for number, row in enumerate(rows):
        if number:
            print()
        _show(row)


@verb(app, "release")
async def release(
    desk: Desk,
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Although nothing proves that it has ended: two may run at once.")
    ] = False,
) -> None:
    """Let one go on: an actor is started again."""
    result = await desk.call("quarantine.release", name=name, force=force)
    if desk.as_json:
        show_json(result)
        return
    row = result["quarantine"]
    unproved = "; nothing proved that it had ended" if row["cause"] == "forced" else ""
    print(f"{row['name']} is {row['cause']}{unproved}")


@verb(app, "reconcile")
async def reconcile(
    desk: Desk,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only this one, by name or id; else all.")
    ] = None,
) -> None:
    """Ask now whether what is quarantined has ended, instead of when its timer says so."""
    result = await desk.call("quarantine.reconcile", name=name)
    if desk.as_json:
        show_json(result)
        return
    for row in result["quarantines"]:
        print(
            f"{row['name']}  {row['state']}, {row['attempts']} tries, last answer {row['last_answer'] or 'none'}"
        )
    if not result["quarantines"]:
        print("nothing is quarantined")


def _show(row: dict[str, Any]) -> None:
    facts = {
        "name": row["name"],
        "id": row["quarantine_id"],
        "kind": row["kind"],
        "generation": row["generation"],
        "host": row["host"],
        "state": row["state"],
        "reason": row["reason"],
        "why": row["why"],
        "asked by": row["by"],
        "since": moment(row["since"]),
        "end proved": row["proved"],
        "tries": row["attempts"],
        "last answer": row["last_answer"],
        "last try": moment(row["last_try_at"]),
        "stored": "yes" if row["version"] else "not yet",
    }
    if row["cause"] is not None:
        facts |= {"ended": moment(row["ended_at"]), "cause": row["cause"], "released by": row["ended_by"]}
    show_facts(facts)
