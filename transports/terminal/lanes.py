"""lanes: the model lanes and how they do; and having the daemon read them again."""

import enum
from typing import Annotated, Any

import typer

from transports.terminal.output import show_json, show_table
from transports.terminal.verb import Desk, verb

app = typer.Typer()


class What(enum.StrEnum):
    """What is done about the lanes."""

    LIST = "list"
    RELOAD = "reload"


@verb(app, "lanes")
async def lanes(
    desk: Desk,
    what: Annotated[
        What, typer.Argument(help="list them, or reload them from the configuration file.")
    ] = What.LIST,
) -> None:
    """List the model lanes and how they do; with reload, have the daemon read them again."""
    if what is What.LIST:
        _show(desk, await desk.call("lanes.list"))
        return
    result = await desk.call("lanes.reload")
    if desk.as_json:
        show_json(result)
    elif result["changed"]:
        print(f"set anew: {', '.join(result['changed'])}; streams under way end on what they began with")
    else:
        print("the lanes are as they were")


def _show(desk: Desk, result: dict[str, Any]) -> None:
    if desk.as_json:
        show_json(result)
        return
    show_table(
        ("NAME", "STATE", "HEALTH", "STREAMS", "ORDER", "MODEL", "BACKEND", "GEN"),
        [
            (
                lane["name"],
                lane["state"],
                lane["health"],
                f"{lane['streams']}/{lane['max_streams']}" if lane["streams"] is not None else None,
                lane["order"],
                lane["model"],
                lane["backend"],
                lane["gen"],
            )
            for lane in result["lanes"]
        ],
    )
