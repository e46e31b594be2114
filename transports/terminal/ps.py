"""ps and tree: the actors of the running daemon."""

from typing import Annotated, Any

import typer

from transports.terminal.exits import Exit, Failure
from transports.terminal.output import DIM, show_json, show_table, span, styled
from transports.terminal.verb import Desk, verb

app = typer.Typer()

HEADS = (
    "PATH", "KIND", "STATE", "INC", "CONTROL", "ORDINARY", "OLDEST", "BUSY", "HANDLED", "RESTARTS", "ERROR", "AGE",
)  # fmt: skip


ORDERS = ("path", "depth", "oldest", "busy", "handled", "restarts", "age")

Prefix = Annotated[str, typer.Argument(metavar="PATH", help="Only this actor and those under it.")]
Kind = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="Only of this kind; repeatable.")
]
State = Annotated[
    list[str] | None, typer.Option("--state", metavar="STATE", help="Only in this state; repeatable.")
]
Depth = Annotated[
    int, typer.Option("--depth", metavar="N", min=0, help="Only those for which N messages wait, or more.")
]
Sort = Annotated[
    str, typer.Option("--sort", metavar="BY", help=f"{', '.join(ORDERS)}; all but path the largest first.")
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="The first N.")]


@verb(app, "ps")
async def ps(
    desk: Desk,
    prefix: Prefix = "/",
    kind: Kind = None,
    state: State = None,
    depth: Depth = 0,
    sort: Sort = "path",
    limit: Limit = None,
) -> None:
    """List the actors with their mailboxes and counters."""
    if sort not in ORDERS:
        raise Failure(Exit.USAGE, f"--sort {sort} is not known; use one of {', '.join(ORDERS)}")
    result = await desk.call(
        "actors.list",
        prefix=prefix,
        kinds=kind or [],
        states=state or [],
        depth=depth,
        sort=sort,
        limit=limit,
    )
    if desk.as_json:
        show_json(result)
        return
    show_table(HEADS, [row(actor) for actor in result["actors"]])
    if len(result["actors"]) < result["total"]:
        print(f"{len(result['actors'])} of {result['total']} actors")
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


def since_then(seconds: float) -> str | None:
    """Return how long something has lasted; None if there is nothing: no message waits, no handler runs."""
    return span(seconds) if seconds else None


def row(actor: dict[str, Any]) -> list[Any]:
    """Return an actor's cells, one for each of HEADS."""
    return [
        actor["path"],
        actor["kind"],
        actor["state"],
        actor["incarnation"],
        actor["control_depth"],
        actor["ordinary_depth"],
        since_then(actor["oldest_age"]),
        since_then(actor["busy_for"]),
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
        about += f", {node['restarts']} restart{'s' if node['restarts'] > 1 else ''}"
    print(f"{before}{name}  {styled(about, DIM)}")
    for n, child in enumerate(node["children"]):
        last = n == len(node["children"]) - 1
        _draw(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))
