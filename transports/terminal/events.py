"""events: what has happened, and what happens."""

import sys
from typing import Annotated, Any

import typer

from transports.terminal.exits import ConnectionLost, Exit, Failure
from transports.terminal.output import DIM, cell, moment, show_json_line, styled
from transports.terminal.patience import Patience
from transports.terminal.verb import Desk, verb

app = typer.Typer()

SHOWN = 50
"""How many of the past are shown if nothing else is asked for."""


@verb(app, "events")
async def events(
    desk: Desk,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens.")] = False,
    from_seq: Annotated[
        int | None,
        typer.Option("--from", metavar="N", help="Begin at this number; a negative one counts back."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only kinds that begin like this; repeatable."),
    ] = None,
) -> None:
    """Show events; each has a number, from which a later call can go on."""
    begin = from_seq if from_seq is not None else None if follow else -SHOWN
    if not follow:
        await _show(desk, begin, kind or [], to_end=True)
        return
    patience = Patience(desk)
    next_seq = begin
    while True:
        next_seq = await _show(desk, next_seq, kind or [], to_end=False, patience=patience)


async def _show(
    desk: Desk, from_seq: int | None, kinds: list[str], *, to_end: bool, patience: Patience | None = None
) -> int | None:
    """Print until the present is reached or, following, until the connection is lost; return where to go on."""
    client = await (patience.connect() if patience is not None else desk.connect())
    async with client:
        answer = await client.call("events.subscribe", from_seq=from_seq, kinds=kinds)
        if from_seq is None:
            from_seq = answer["seq"] + 1
        while True:
            try:
                event = await client.event()
            except ConnectionLost:
                if patience is None:
                    raise
                return from_seq
            if event["event"] == "events.live" and to_end:
                return None
            if event["event"] == "dropped" and to_end:
                raise Failure(Exit.FAILED, f"turnkeepd dropped this observer: {event['data']['reason']}")
            if event["event"] not in ("events.live", "dropped"):
                _print(desk, event)
                from_seq = max(from_seq, event["seq"] + (event["event"] != "gap"))


def _print(desk: Desk, event: dict[str, Any]) -> None:
    if desk.as_json:
        show_json_line(event)
        return
    if event["event"] == "gap":
        print(
            styled(f"-- a gap: the next event that is kept is {event['data']['next_seq']} --", DIM),
            flush=True,
        )
        return
    data = "  ".join(f"{name}={cell(value)}" for name, value in event["data"].items())
    line = f"{event['seq']:>7}  {moment(event['ts'])}  {cell(event['event'])}  {cell(event['path'])}  {data}"
    print(line.rstrip(), flush=True)
    sys.stdout.flush()
