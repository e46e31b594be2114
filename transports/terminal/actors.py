"""ps and tree: the actors of the running daemon."""

from typing import Annotated, Any

import typer

from transports.terminal.output import DIM, show_json, show_table, span, styled
from transports.terminal.verb import Desk, verb

app = typer.Typer()

HEADS = (
    "PATH", "KIND", "STATE", "INC", "DEPTH", "OLDEST", "BUSY", "HANDLED", "RESTARTS", "ERROR", "AGE",
)  # fmt: skip


@verb(app, "ps")
async def ps(
    desk: Desk,
    prefix: Annotated[str, typer.Argument(metavar="PATH", help="Only this actor and those under it.")] = "/",
) -> None:
    """List the actors with their mailboxes and counters."""
    result = await desk.call("actors.list", prefix=prefix)
    if desk.as_json:
        show_json(result)
        return
    show_table(HEADS, [_row(actor) for actor in result["actors"]])
    if result["dead_letters"]:
        counts = ", ".join(f"{reason} {n}" for reason, n in sorted(result["dead_letters"].items()))
        print(f"dead letters: {counts}")


@verb(app, "tree")
async def tree(desk: Desk) -> None:
    """Draw the actors as the hierarchy that they are."""
    result = await desk.call("actors.tree")
    if desk.as_json:
        show_json(result)
        return
    for root in result["tree"]:
        _draw(root, "", "")


def _row(actor: dict[str, Any]) -> list[Any]:
    return [
        actor["path"],
        actor["kind"],
        actor["state"],
        actor["incarnation"],
        actor["control_depth"] + actor["ordinary_depth"],
        span(actor["oldest_age"]),
        span(actor["busy_for"]),
        actor["handled"],
        actor["restarts"],
        actor["last_error"],
        span(actor["age"]),
    ]


def _draw(node: dict[str, Any], before: str, below: str) -> None:
    path = node["path"]
    name = path if not before else path.rsplit("/", 1)[-1]
    about = f"{node['kind']}, {node['state']}"
    if node["depth"]:
        about += f", {node['depth']} waiting"
    if node["restarts"]:
        about += f", {node['restarts']} restarts"
    print(f"{before}{name}  {styled(about, DIM)}")
    for n, child in enumerate(node["children"]):
        last = n == len(node["children"]) - 1
        _draw(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))
