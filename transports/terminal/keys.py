"""keys: who may use the API and the admin socket."""

from typing import Annotated

import typer

from transports.terminal.output import moment, show_json, show_table
from transports.terminal.verb import Desk, verb

app = typer.Typer()


@verb(app, "add")
async def add(
    desk: Desk,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key's name.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SCOPE", help="api (the default), observe, operate or admin; repeatable."
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner", metavar="OWNER", help="Keys of one owner see the same chats. Default: the name."
        ),
    ] = None,
) -> None:
    """Make a key and show it."""
    result = await desk.call("keys.add", name=name, scopes=scope or ["api"], owner=owner)
    if desk.as_json:
        show_json(result)
        return
    print(f"name  {result['key']['name']}")
    print(f"key   {result['secret']}")
    print("It is not shown again.")


@verb(app, "list")
async def list_(desk: Desk) -> None:
    """List the keys; none is known but by its hash."""
    result = await desk.call("keys.list")
    if desk.as_json:
        show_json(result)
        return
    show_table(
        ("ID", "NAME", "OWNER", "SCOPES", "CREATED", "REVOKED"),
        [
            (
                key["key_id"],
                key["name"],
                key["owner"],
                key["scopes"],
                moment(key["created_at"]),
                moment(key["revoked_at"]),
            )
            for key in result["keys"]
        ],
    )


@verb(app, "revoke")
async def revoke(
    desk: Desk, key: Annotated[str, typer.Argument(metavar="KEY", help="Its name or id.")]
) -> None:
    """Refuse a key from now on."""
    result = await desk.call("keys.revoke", key=key)
    if desk.as_json:
        show_json(result)
        return
    print(f"{result['key']['name']} is refused from now on")
