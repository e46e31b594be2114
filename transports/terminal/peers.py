"""peers: who may connect a relay link."""

from typing import Annotated, Any

import typer

from transports.terminal.output import moment, show_json, show_table
from transports.terminal.verb import Desk, verb

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The peer's name.")]


@verb(app, "add")
async def add(
    desk: Desk,
    name: Name,
    identity: Annotated[
        list[str] | None,
        typer.Option("--identity", metavar="PLATFORM:BOT", help="What it fronts; at least one; repeatable."),
    ] = None,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="connector or gateway.")] = "connector",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SCOPE", help="A guild or workspace that it may act in; repeatable. None: all."
        ),
    ] = None,
) -> None:
    """Let a relay peer in, and show its secret."""
    result = await desk.call("peers.add", name=name, role=role, identities=identity or [], scopes=scope or [])
    _show_secret(desk, result)


@verb(app, "list")
async def list_(desk: Desk) -> None:
    """List the peers."""
    result = await desk.call("peers.list")
    if desk.as_json:
        show_json(result)
        return
    show_table(
        ("NAME", "ROLE", "IDENTITIES", "SCOPES", "CREATED", "REVOKED"),
        [
            (
                peer["name"],
                peer["role"],
                peer["identities"],
                peer["scopes"] or "all",
                moment(peer["created_at"]),
                moment(peer["revoked_at"]),
            )
            for peer in result["peers"]
        ],
    )


@verb(app, "rotate")
async def rotate(desk: Desk, name: Name) -> None:
    """Give a peer a new secret; the former one stays good until the next rotation."""
    _show_secret(desk, await desk.call("peers.rotate", name=name))


@verb(app, "revoke")
async def revoke(desk: Desk, name: Name) -> None:
    """Refuse a peer from now on and close its links."""
    result = await desk.call("peers.revoke", name=name)
    if desk.as_json:
        show_json(result)
        return
    print(f"{result['peer']['name']} is refused from now on")


def _show_secret(desk: Desk, result: dict[str, Any]) -> None:
    if desk.as_json:
        show_json(result)
        return
    print(f"peer    {result['peer']['name']}")
    print(f"secret  {result['secret']}")
    print("It is not shown again.")
