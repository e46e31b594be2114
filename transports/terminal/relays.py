"""relays and deliveries: the links, and what waits for them."""

from typing import Annotated

import typer

from transports.terminal.output import moment, show_json, show_table
from transports.terminal.verb import Desk, verb

app = typer.Typer()


@verb(app, "relays")
async def relays(desk: Desk) -> None:
    """List the links of relay peers."""
    result = await desk.call("relays.list")
    if desk.as_json:
        show_json(result)
        return
    show_table(
        ("PEER", "ROLE", "LINK", "STATE", "PLATFORMS", "PENDING"),
        [
            (link["peer"], link["role"], link["link_gen"], link["state"], link["platforms"], link["pending"])
            for link in result["relays"]
        ],
    )


@verb(app, "deliveries")
async def deliveries(
    desk: Desk,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="pending, attempting, unknown, delivered or dead; repeatable."
        ),
    ] = None,
    peer: Annotated[str | None, typer.Option("--peer", metavar="PEER", help="Only this peer's.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")
    ] = 100,
) -> None:
    """List deliveries, the newest first, without their texts."""
    result = await desk.call("deliveries.list", states=state or [], peer=peer, limit=limit)
    if desk.as_json:
        show_json(result)
        return
    show_table(
        ("ID", "PEER", "CHAT", "STATE", "REASON", "ATTEMPTS", "CREATED", "SETTLED"),
        [
            (
                row["delivery_id"],
                row["peer"],
                row["chat"],
                row["state"],
                row["reason"],
                row["attempts"],
                moment(row["created_at"]),
                moment(row["settled_at"]),
            )
            for row in result["deliveries"]
        ],
    )
