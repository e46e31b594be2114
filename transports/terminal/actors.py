"""actors: look at one actor of the running daemon, hold it, end it, or have it started again."""

import json
from typing import Annotated, Any

import typer

from transports.terminal.exits import Exit, Failure
from transports.terminal.output import (
    DIM,
    cell,
    moment,
    printable,
    show_facts,
    show_json,
    show_json_line,
    span,
    styled,
)
from transports.terminal.ps import ps, since_then
from transports.terminal.verb import Desk, verb

app = typer.Typer()

Path = Annotated[str, typer.Argument(metavar="PATH", help="The actor, as ps shows it.")]

verb(app, "list")(ps)


@verb(app, "get")
async def get(desk: Desk, path: Path) -> None:
    """Show one actor and its children."""
    result = await desk.call("actors.get", path=path)
    if desk.as_json:
        show_json(result)
        return
    actor = result["actor"]
    show_facts(
        {
            "path": actor["path"],
            "kind": actor["kind"],
            "state": actor["state"],
            "parent": actor["parent"],
            "incarnation": actor["incarnation"],
            "restarts": actor["restarts"],
            "last error": actor["last_error"],
            "since": f"{moment(actor['since'])} ({span(actor['age'])})",
            "waiting": f"{actor['control_depth']} control, {actor['ordinary_depth']} ordinary",
            "oldest": since_then(actor["oldest_age"]),
            "busy for": since_then(actor["busy_for"]),
            "handled": actor["handled"],
            "children": result["children"],
        }
    )


@verb(app, "stop")
async def stop(desk: Desk, path: Path) -> None:
    """End an actor; one that its supervisor keeps is started again."""
    result = await desk.call("actors.stop", path=path)
    _tell(desk, path, result, {"stopped": "has stopped", "already_gone": "had ended already"})


@verb(app, "restart")
async def restart(desk: Desk, path: Path) -> None:
    """End an actor and let its supervisor start it again; what waits in its mailbox stays."""
    result = await desk.call("actors.restart", path=path)
    _tell(desk, path, result, {"restarted": f"runs again, incarnation {result['incarnation']}"})


@verb(app, "suspend")
async def suspend(desk: Desk, path: Path) -> None:
    """Hold an actor's ordinary messages; it still obeys control."""
    result = await desk.call("actors.suspend", path=path)
    _say(desk, result, f"{path} is suspended; let it go on with: turnkeepctl actors resume {path}")


@verb(app, "resume")
async def resume(desk: Desk, path: Path) -> None:
    """Let a suspended actor go on with what waits for it."""
    _say(desk, await desk.call("actors.resume", path=path), f"{path} goes on")


@verb(app, "trace")
async def trace(
    desk: Desk,
    path: Path,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=1, max=100_000, help="At most so many messages.")
    ] = 1000,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", max=3600, help="For at most that long.")
    ] = 60.0,
    contents: Annotated[
        bool, typer.Option("--contents", help="Show what the messages hold, but for secrets; audited.")
    ] = False,
) -> None:
    """Show the messages that an actor handles, as it does: sender, size, time."""
    async with await desk.connect() as client:
        await client.call("actors.trace", path=path, count=count, seconds=seconds, contents=contents)
        while (event := await client.event())["event"] != "trace.ended":
            if event["event"] == "dropped":
                raise Failure(Exit.FAILED, f"turnkeepd dropped this observer: {event['data']['reason']}")
            _show_traced(desk, event)
        if desk.as_json:
            show_json_line(event)
        else:
            print(f"{event['data']['told']} messages; the trace ended by its {event['data']['reason']}")


def _show_traced(desk: Desk, event: dict[str, Any]) -> None:
    if desk.as_json:
        show_json_line(event)
        return
    data = event["data"]
    took = f"waited {data['waited'] * 1000:.2f} ms  took {data['seconds'] * 1000:.2f} ms"
    sender = data["sender"] or "outside"
    line = f"{moment(event['ts'])}  {data['message_type']}  from {sender}  {data['size']} bytes  {took}  {data['outcome']}"
    print(cell(line), flush=True)
    if "message" in data:
        print(styled(f"  {printable(json.dumps(data['message'], ensure_ascii=False))}", DIM), flush=True)


def _tell(desk: Desk, path: str, result: dict[str, Any], sentences: dict[str, str]) -> None:
    """Say what came of it. Raises Failure if the actor has outlived its stop."""
    status = result["status"]
    if status in sentences:
        _say(desk, result, f"{path} {sentences[status]}")
        return
    if desk.as_json:
        show_json(result)
    raise Failure(Exit.FAILED, f"{path} did not end, although it was killed; it hears nothing more")


def _say(desk: Desk, result: dict[str, Any], sentence: str) -> None:
    if desk.as_json:
        show_json(result)
    else:
        print(sentence)
