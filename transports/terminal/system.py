"""status, drain and shutdown: the daemon as a whole."""

from pathlib import Path
from typing import Annotated

import typer

from transports.terminal.output import moment, show_facts, show_json, span
from transports.terminal.verb import Desk, verb

app = typer.Typer()

BACKUP_SECONDS = 3600.0
"""How long a backup may take, unless --timeout says something else."""


@verb(app, "status")
async def status(desk: Desk) -> None:
    """Say what runs, where, since when, and how much of everything there is."""
    result = await desk.call("system.info")
    if desk.as_json:
        show_json(result)
        return
    store = result["store"] or {}
    dead = ", ".join(f"{reason} {n}" for reason, n in sorted(result["dead_letters"].items()))
    show_facts(
        {
            "version": result["version"],
            "url": result["url"],
            "state": "draining: takes no new turn" if result["draining"] else "takes turns",
            "pid": result["pid"],
            "up": f"{span(result['uptime_s'])}, since {moment(result['started_at'])}",
            "boot id": result["boot_id"],
            "data directory": result["data_dir"],
            "actors": result["actors"],
            "live sessions": _known(result["sessions_live"]),
            "links": _known(result["links"]),
            "dead letters": dead or "none",
            "store": f"schema {store['schema']}, {store['bytes']} bytes" if store else "does not answer",
            "rows": ", ".join(f"{table} {n}" for table, n in store.get("rows", {}).items()),
        }
    )


@verb(app, "backup")
async def backup(
    desk: Desk,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file on the daemon's machine.")],
) -> None:
    """Copy the database to a new file while the daemon goes on; secret.key is not in it."""
    async with await desk.connect(BACKUP_SECONDS) as client:
        # The daemon stands in another directory, as a rule.
        result = await client.call("system.backup", path=str(file.absolute()))
    if desk.as_json:
        show_json(result)
        return
    made = result["backup"]
    print(f"{made['path']}: {made['bytes']} bytes; keep secret.key with it")


@verb(app, "drain")
async def drain(desk: Desk) -> None:
    """Take no new turn and let the running ones end; the daemon stays up."""
    result = await desk.call("system.drain")
    if desk.as_json:
        show_json(result)
        return
    print("turnkeepd is draining; end it with: turnkeepctl shutdown")


@verb(app, "shutdown")
async def shutdown(desk: Desk) -> None:
    """End the daemon: running turns get their share of the time, then everything stops in order."""
    async with await desk.connect() as client:
        pid = (await client.call("system.info"))["pid"]
        result = await client.call("system.shutdown")
    if desk.as_json:
        show_json(result)
        return
    print(f"turnkeepd (pid {pid}) is shutting down")


def _known(count: int | None) -> int | str:
    return "does not answer" if count is None else count
